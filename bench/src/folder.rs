//! Claims from a queue in a folder, beside plain `mv` in a shell loop and beside claims in SQLite.
//!
//! A claim is not synced to the disk by any of them: a power cut ends the claimer too. Workers are threads, each
//! with a worker of its own; shells are processes. What is claimed is put back by plain renames before
//! the next row, so that every row begins with a full queue.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bell_locks::folder::queue::{FolderQueue, Pulse, Settings, Syncing};
use bell_store::clock::boottime;
use rusqlite::Connection;
use serde::Serialize;

use crate::bench::{Bench, Pace};
use crate::figures::per_second;
use crate::table::{Table, number};
use crate::targets::Target;

const WORKERS: [usize; 3] = [1, 8, 32];
const WAITING: [usize; 3] = [1_000, 100_000, 1_000_000];
/// Claims in one row; a small queue is filled again and again.
const CLAIMS: usize = 20_000;
/// How much more a claim may cost at a million than at a thousand.
const GROWTH: f64 = 3.0;

/// One row.
#[derive(Serialize)]
pub(crate) struct Claims {
    way: Way,
    waiting: usize,
    workers: usize,
    per_second: f64,
    /// From a process that knows nothing to its first claim, the listing included.
    first_ms: Option<f64>,
}

/// By which means.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Bell,
    ShellMv,
    Sqlite,
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Self::Bell => "bell, rename",
            Self::ShellMv => "sh, mv in a loop",
            Self::Sqlite => "SQLite, UPDATE … RETURNING (WAL, synchronous=NORMAL)",
        }
    }
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Claims>> {
    let sizes = match bench.pace {
        Pace::Thorough => WAITING.to_vec(),
        Pace::Quick => WAITING[..2].to_vec(),
        Pace::Smoke => vec![100],
    };
    let mut all = Vec::new();
    for waiting in sizes {
        bench.tell(&format!("claims from a folder with {waiting} items: filling it"));
        let place = bench.new_place();
        let settings = Settings { syncing: Syncing::Nothing, ..Settings::default() };
        FolderQueue::init(&place, settings)?;
        for number in 0..waiting {
            fs::write(place.join("queue").join(format!("item-{number:07}")), "")?;
        }
        let database = bench.new_place();
        fill(&database, waiting)?;
        for workers in WORKERS {
            bench.tell(&format!("claims: {waiting} items, {workers} workers"));
            all.push(by_bell(bench, &place, waiting, workers)?);
            all.push(by_shell(bench, &place, waiting, workers)?);
            all.push(by_sqlite(bench, &database, waiting, workers)?);
        }
        fs::remove_dir_all(&place)?;
    }
    Ok(all)
}

fn claims(bench: &Bench) -> usize {
    bench.times(CLAIMS)
}

fn by_bell(bench: &Bench, place: &Path, waiting: usize, workers: usize) -> Result<Claims> {
    let (mut done, mut spent, mut first_ms) = (0, Duration::ZERO, None);
    while done < claims(bench) {
        let queue = FolderQueue::open(place)?;
        // Without the order that an earlier row left behind.
        let _ = fs::remove_file(place.join(".bell-queue/order"));
        let begun = boottime();
        let mut first = queue.worker(None, Pulse::Beating)?;
        ensure!(first.claim()?.is_some(), "nothing waits");
        first_ms.get_or_insert((boottime() - begun).as_secs_f64() * 1e3);
        let share = waiting.min(claims(bench)) - 1;
        let taken = AtomicUsize::new(0);
        let begun = boottime();
        in_threads(workers, || {
            let mut worker = queue.worker(None, Pulse::Beating)?;
            while taken.fetch_add(1, Ordering::Relaxed) < share && worker.claim()?.is_some() {}
            Ok(())
        })?;
        spent += boottime() - begun;
        done += share;
        drop(first);
        put_back(place)?;
    }
    Ok(Claims { way: Way::Bell, waiting, workers, per_second: per_second(done, spent), first_ms })
}

fn in_threads(count: usize, act: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&act)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker failed"))))
    })
}

/// Moves everything that is claimed back, as somebody would by hand.
fn put_back(place: &Path) -> Result<usize> {
    let mut count = 0;
    for worker in fs::read_dir(place.join("claimed"))? {
        let worker = worker?.path();
        for item in fs::read_dir(&worker)? {
            let item = item?;
            fs::rename(item.path(), place.join("queue").join(item.file_name()))?;
            count += 1;
        }
        fs::remove_dir(&worker)?;
    }
    Ok(count)
}

/// Until it is killed, or nothing is left.
const SHELL: &str = r#"cd "$1" && mkdir -p "claimed/$2" && for item in queue/*; do mv "$item" "claimed/$2/" 2>/dev/null; done"#;

fn by_shell(bench: &Bench, place: &Path, waiting: usize, workers: usize) -> Result<Claims> {
    let begun = boottime();
    let start = |number: usize| {
        #[expect(clippy::disallowed_methods, reason = "a shell is what is measured")]
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "sh"]).arg(place).arg(format!("shell-{number}"));
        shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut shells = (0..workers).map(start).collect::<std::io::Result<Vec<_>>>()?;
    // A shell needs seconds to list a million names before its first mv.
    let span = bench.span() * if waiting > 100_000 { 4 } else { 1 };
    while boottime() - begun < span {
        let ended = shells.iter_mut().map(|shell| Ok(shell.try_wait()?.is_some()));
        if ended.collect::<std::io::Result<Vec<_>>>()?.into_iter().all(|ended| ended) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let spent = boottime() - begun;
    for shell in &mut shells {
        // It fails if it has ended, as it may.
        let _ = shell.kill();
        shell.wait()?;
    }
    // The last mv of a killed shell may still be on its way.
    std::thread::sleep(Duration::from_millis(100));
    let done = put_back(place)?;
    Ok(Claims { way: Way::ShellMv, waiting, workers, per_second: per_second(done, spent), first_ms: None })
}

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE items (name TEXT PRIMARY KEY, worker INTEGER) WITHOUT ROWID;
    CREATE INDEX waiting ON items (name) WHERE worker IS NULL;
";

const CLAIM: &str = "
    UPDATE items SET worker = ?1
    WHERE name = (SELECT name FROM items WHERE worker IS NULL ORDER BY name LIMIT 1)
    RETURNING name
";

fn fill(database: &Path, waiting: usize) -> Result<()> {
    let mut connection = Connection::open(database)?;
    connection.execute_batch(SCHEMA)?;
    let all = connection.transaction()?;
    for number in 0..waiting {
        all.execute("INSERT INTO items (name) VALUES (?1)", [format!("item-{number:07}")])?;
    }
    Ok(all.commit()?)
}

fn by_sqlite(bench: &Bench, database: &Path, waiting: usize, workers: usize) -> Result<Claims> {
    let (share, taken) = (waiting.min(claims(bench)), AtomicUsize::new(0));
    let begun = boottime();
    in_threads(workers, || {
        let connection = Connection::open(database)?;
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        connection.busy_timeout(Duration::from_secs(60))?;
        let mut claim = connection.prepare(CLAIM)?;
        while taken.fetch_add(1, Ordering::Relaxed) < share {
            claim.query_row([1], |row| row.get::<_, String>(0)).context("could not claim")?;
        }
        Ok(())
    })?;
    let spent = boottime() - begun;
    Connection::open(PathBuf::from(database))?
        .execute("UPDATE items SET worker = NULL WHERE worker IS NOT NULL", [])?;
    Ok(Claims { way: Way::Sqlite, waiting, workers, per_second: per_second(share, spent), first_ms: None })
}

/// Whether a claim at a million costs at most three times what it costs at a thousand.
pub(crate) fn judge(claims: &[Claims]) -> Vec<Target> {
    let of = |waiting, workers| {
        claims.iter().find(|one| one.way == Way::Bell && (one.waiting, one.workers) == (waiting, workers))
    };
    let growth = |workers| Some(of(WAITING[0], workers)?.per_second / of(WAITING[2], workers)?.per_second);
    let target = |(workers, growth): (usize, f64)| Target {
        goal: format!(
            "folder: a claim among 1,000,000 costs at most {GROWTH} × one among 1,000, {workers} workers"
        ),
        seen: format!("{} ×", number(growth)),
        met: growth <= GROWTH,
    };
    WORKERS.into_iter().filter_map(|workers| Some((workers, growth(workers)?))).map(target).collect()
}

pub(crate) fn table(claims: &[Claims]) -> Table {
    let mut table = Table::new("Claims", &["way", "waiting", "workers", "claims/s", "first claim ms"]);
    for one in claims {
        table.row(vec![
            one.way.words().to_owned(),
            number(one.waiting as f64),
            one.workers.to_string(),
            number(one.per_second),
            one.first_ms.map_or("–".to_owned(), number),
        ]);
    }
    table.note("The first claim lists the folder; claims/s are those after it. A list is made anew when it is twenty times as old as it took to make.");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_claims_something() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::new(folder.path(), Pace::Smoke).unwrap();
        let claims = measure(&bench).unwrap();
        assert_eq!(claims.len(), 9);
        assert!(claims.iter().filter(|one| one.way != Way::ShellMv).all(|one| one.per_second > 0.0));
    }
}
