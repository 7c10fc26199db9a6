//! What a held lock takes: on the disk, and in memory for the store that is nowhere else.
//!
//! Each store is filled in a process of its own, so that memory means that of the store alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bell_coord::{Ask, Coord, Keep};
use bell_store::{Stamp, Store, Txn, Write};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::bench::{Bench, runtime};
use crate::stores::{self, Make};
use crate::table::{Table, number};
use crate::worker::{self, Worker};

const LOCKS: usize = 100_000;
const LOCKS_PER_SESSION: [usize; 2] = [100, 1];
const TASKS: usize = 64;

/// What so many held locks take.
#[derive(Serialize)]
pub(crate) struct Bytes {
    pub(crate) store: Make,
    pub(crate) locks: usize,
    pub(crate) locks_per_session: usize,
    pub(crate) bytes_per_lock: f64,
}

/// What one process is to do.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    store: Make,
    place: PathBuf,
    locks: usize,
    locks_per_session: usize,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Bytes>> {
    let locks = bench.times(LOCKS);
    let mut all = Vec::new();
    for store in Make::ALL {
        for locks_per_session in LOCKS_PER_SESSION {
            bench.tell(&format!("bytes: {}, {locks_per_session} locks per session", store.as_str()));
            let order = Order { store, place: bench.new_place(), locks, locks_per_session };
            let bytes: u64 = Worker::start(&worker::Order::Bytes(order))?.result()?;
            let bytes_per_lock = bytes as f64 / locks as f64;
            all.push(Bytes { store, locks, locks_per_session, bytes_per_lock });
        }
    }
    Ok(all)
}

impl Order {
    /// In a process of its own. Answers with the bytes of all locks together.
    pub(crate) fn carry_out(&self) -> Result<u64> {
        let runtime = runtime()?;
        let store = self.store.open(&self.place)?;
        let empty = self.used()?;
        runtime.block_on(self.fill(&store))?;
        match self.store {
            Make::Memory => {}
            Make::Sqlite => checkpoint(&self.place)?,
            Make::Files => runtime.block_on(compact(&store, &self.place))?,
        }
        Ok(self.used()?.saturating_sub(empty))
    }

    async fn fill(&self, store: &Arc<dyn Store>) -> Result<()> {
        let coord = Coord::new(Arc::clone(store));
        let sessions = self.locks / self.locks_per_session;
        let mut tasks = Vec::new();
        for task in 0..TASKS {
            let numbers: Vec<usize> = (task..sessions).step_by(TASKS).collect();
            tasks.push(tokio::spawn(hold(coord.clone(), numbers, self.locks_per_session)));
        }
        for task in tasks {
            task.await??;
        }
        Ok(())
    }

    fn used(&self) -> Result<u64> {
        match self.store {
            Make::Memory => resident_bytes(),
            Make::Sqlite => Ok(size(&self.place) + size(&wal(&self.place))),
            Make::Files => Ok(journals(&self.place)?.iter().map(|journal| size(journal)).sum()),
        }
    }
}

/// Takes locks that stand for themselves from then on.
async fn hold(coord: Coord, sessions: Vec<usize>, locks_per_session: usize) -> Result<()> {
    for number in sessions {
        let session = stores::session(Keep::Detached)?;
        for lock in 0..locks_per_session {
            let key = stores::key("bytes", number * locks_per_session + lock)?;
            coord.acquire(&session, &Ask::new(key)).await?;
        }
    }
    Ok(())
}

/// Moves SQLite's log into its file.
fn checkpoint(place: &Path) -> Result<()> {
    let connection = Connection::open(place)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// A value that is put and deleted until the journal is mostly history.
const SCRAP_BYTES: usize = 64 << 10;
/// More than four times what the largest run stores.
const MAX_SCRAPS: usize = 16_384;

async fn compact(store: &Arc<dyn Store>, place: &Path) -> Result<()> {
    let before = journals(place)?;
    for _ in 0..MAX_SCRAPS {
        for write in [Write::Put(vec![b'x'; SCRAP_BYTES], Stamp::New), Write::Delete] {
            store.commit(Txn { writes: vec![("scrap".into(), write)], ..Txn::default() }).await?;
        }
        let now = journals(place)?;
        if now.len() == 1 && now != before {
            return Ok(());
        }
    }
    bail!("the journal was never compacted")
}

fn journals(place: &Path) -> Result<Vec<PathBuf>> {
    let paths = fs::read_dir(place)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    let is_journal = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "journal");
    Ok(paths.into_iter().filter(is_journal).collect())
}

fn wal(place: &Path) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Bytes of a file; none if it is not there.
fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn resident_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("could not learn VmRSS")?;
    Ok(kilobytes.parse::<u64>()? << 10)
}

pub(crate) fn table(bytes: &[Bytes]) -> Table {
    let columns = ["store", "held locks", "locks per session", "bytes per lock"];
    let mut table = Table::new("Bytes per held lock", &columns);
    for one in bytes {
        let what = match one.store {
            Make::Memory => "memory: resident set",
            Make::Sqlite => "SQLite: file after a checkpoint",
            Make::Files => "files: journal after a compaction",
        };
        table.row(vec![
            what.to_owned(),
            number(one.locks as f64),
            one.locks_per_session.to_string(),
            number(one.bytes_per_lock),
        ]);
    }
    table
}
