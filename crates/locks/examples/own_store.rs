//! A store of one's own: a journal in one file, a line for each commit, for the tasks of one process.
//!
//! It never shortens its journal, but everything that a store must get right is here in its plainest form.
//! `tests/own_store.rs` proves it with the store suite and with the lock conformance suite.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bell_store::clock::{boot_id, boottime, wall};
use bell_store::hub::Hub;
use bell_store::info::{Clock, Durability, FailOver, Info, Limits, Push, Scope};
use bell_store::{Committed, Error, Kind, Name, Outcome, Record, Result, Snapshot, Store, Timestamp};
use bell_store::{Txn, Watch};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

/// What a commit leaves under a name: a value and its stamp, or nothing.
type Left = Option<(Vec<u8>, u64)>;

/// One commit: what it left under each name it wrote, and the clock.
#[derive(Serialize, Deserialize)]
struct Entry {
    revision: u64,
    left: Vec<(Name, Left)>,
    now: Timestamp,
    ahead: Duration,
    boot: String,
}

/// The file, and what its lines come to.
struct Kept {
    file: File,
    length: u64,
    revision: u64,
    records: BTreeMap<Name, Record>,
}

impl Kept {
    /// Writes a line behind the last whole one. An error means that nothing happened.
    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let line = serde_json::to_string(entry)? + "\n";
        self.file.set_len(self.length)?;
        self.file.write_all(line.as_bytes())?;
        self.length += line.len() as u64;
        Ok(())
    }

    fn apply(&mut self, entry: Entry) {
        let version = entry.revision;
        self.revision = version;
        for (name, left) in entry.left {
            match left {
                Some((value, stamp)) => self.records.insert(name, Record { value, version, stamp }),
                None => self.records.remove(&name),
            };
        }
    }
}

/// The store. Another handle is another `Arc` on it.
pub struct Journal {
    info: Info,
    kept: Mutex<Kept>,
    /// How far the store's clock is ahead of the machine's time since boot, and which boot that is.
    ahead: Duration,
    boot: String,
    hub: Hub,
}

impl Journal {
    /// Opens the journal; there need be none yet. Waits while another process has it open.
    pub fn open(path: &Path) -> Result<Self> {
        Self::try_open(path)
            .map_err(|error| Error::new(Kind::of_io(&error), "open the journal").because(error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().read(true).append(true).create(true).open(path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // What follows the last whole line was never answered.
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        let mut kept = Kept { file, length: text.len() as u64, revision: 0, records: BTreeMap::new() };
        let (boot, mut ahead) = (boot_id()?, wall().saturating_sub(boottime()));
        for line in text.lines() {
            let entry: Entry = serde_json::from_str(line)?;
            // In another boot the clock goes on from where it stood: then no lease ends early.
            let stood = Duration::from_millis(entry.now.as_ms());
            ahead = if entry.boot == boot { entry.ahead } else { stood };
            kept.apply(entry);
        }
        let info = Info {
            scheme: "journal",
            location: path.display().to_string(),
            scope: Scope::Process,
            durability: Durability::Process,
            fail_over: FailOver::None,
            clock: Clock::Boottime,
            push: Push::Push,
            notices_death: false,
            limits: Limits::CONTRACT,
            warnings: Vec::new(),
        };
        Ok(Self { info, kept: Mutex::new(kept), ahead, boot, hub: Hub::default() })
    }

    fn time(&self) -> Timestamp {
        Timestamp::default() + (boottime() + self.ahead)
    }

    fn snapshot<'a>(&self, kept: &Kept, names: impl Iterator<Item = &'a Name>) -> Snapshot {
        let records = names.filter_map(|name| Some((name.clone(), kept.records.get(name)?.clone())));
        Snapshot { revision: kept.revision, now: self.time(), records: records.collect(), more: false }
    }
}

#[async_trait]
impl Store for Journal {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.time())
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        Ok(self.snapshot(&*self.kept.lock().await, names.iter()))
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let (kept, start) = (self.kept.lock().await, Bound::Included(prefix.max(from)));
        let names = kept.records.range::<str, _>((start, Bound::Unbounded)).map(|(name, _)| name);
        let mut found = names.take_while(|name| name.as_str().starts_with(prefix));
        let page = self.snapshot(&kept, found.by_ref().take(limit.min(self.info.limits.page)));
        Ok(Snapshot { more: found.next().is_some(), ..page })
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        // Asked before waiting for others: a wait makes nobody's lease shorter.
        let called = self.time();
        txn.check(&self.info.limits)?;
        let mut kept = self.kept.lock().await;
        let version = |name: &Name| kept.records.get(name).map_or(0, |record| record.version);
        if !txn.time_holds(called) || !txn.expectations_hold(version) {
            return Ok(Outcome::Conflict(self.snapshot(&kept, txn.expect.iter().map(|(name, _)| name))));
        }
        let (written, now): (Vec<Name>, _) = (txn.written().cloned().collect(), self.time());
        if !written.is_empty() {
            let revision = kept.revision + 1;
            let left = txn.writes.into_iter().map(|(name, write)| {
                let stamp = kept.records.get(&name).map(|record| record.stamp);
                let left = write.leaves(stamp, revision).map(|record| (record.value, record.stamp));
                (name, left)
            });
            let left = left.collect();
            let entry = Entry { revision, left, now, ahead: self.ahead, boot: self.boot.clone() };
            kept.append(&entry)
                .map_err(|error| Error::new(Kind::of_io(&error), "write to the journal").because(error))?;
            kept.apply(entry);
            self.hub.committed(&written);
        }
        Ok(Outcome::Committed(Committed { revision: kept.revision, now }))
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.hub.changed(self, watch).await
    }
}
