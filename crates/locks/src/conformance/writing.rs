//! L19 and L20: what the guards make of this backend's fences.

use std::path::{Path, PathBuf};

use bell_core::lock::Fence;
use rusqlite::Connection;

use super::ground::{Done, Ground, Stop, ensure, file};
use crate::guard;

/// Tries of a stale writer, for each guard.
pub(super) const TRIES: u32 = 1_000;

/// The two guarded places of a case: a file and a database.
pub(super) struct Guarded {
    file: PathBuf,
    database: Connection,
}

impl Guarded {
    pub(super) fn open(folder: &Path) -> Result<Self, Stop> {
        let database = Connection::open(folder.join("guarded.db")).map_err(sqlite_failed)?;
        database.busy_timeout(super::ground::PATIENCE).map_err(sqlite_failed)?;
        let table = "CREATE TABLE IF NOT EXISTS writes (by TEXT NOT NULL) STRICT";
        database.execute_batch(table).map_err(sqlite_failed)?;
        Ok(Self { file: folder.join("guarded.txt"), database })
    }

    /// Writes once to each place. Whether the file accepted, and whether the database did.
    pub(super) fn write(&mut self, fence: Fence, by: &str) -> Result<(bool, bool), Stop> {
        let to_file = match guard::file::write(&self.file, fence, by.as_bytes()) {
            Ok(()) => true,
            Err(guard::file::GuardError::Stale(_)) => false,
            Err(error) => return Err(Stop::failed(error.to_string())),
        };
        let insert = |t: &rusqlite::Transaction<'_>| t.execute("INSERT INTO writes VALUES (?1)", [by]);
        let to_database = match guard::sqlite::write(&mut self.database, "writes", fence, insert) {
            Ok(_) => true,
            Err(guard::sqlite::GuardError::Stale(_)) => false,
            Err(error) => return Err(Stop::failed(error.to_string())),
        };
        Ok((to_file, to_database))
    }

    /// How many of many writes got through, to either place.
    pub(super) fn try_often(&mut self, fence: Fence, by: &str) -> Result<u32, Stop> {
        let mut accepted = 0;
        for _ in 0..TRIES {
            let (to_file, to_database) = self.write(fence, by)?;
            accepted += u32::from(to_file) + u32::from(to_database);
        }
        Ok(accepted)
    }

    /// Ends the case unless the file was last written, and every row of the database is, by these.
    pub(super) fn shows(&self, last: &str, rows: u32) -> Result<(), Stop> {
        let text = std::fs::read_to_string(&self.file)?;
        ensure!(text == last, "the file was written by {text:?}");
        let count = "SELECT count(*) FROM writes";
        let found: u32 = self.database.query_row(count, [], |row| row.get(0)).map_err(sqlite_failed)?;
        ensure!(found == rows, "{found} rows were written, not {rows}");
        Ok(())
    }
}

fn sqlite_failed(error: rusqlite::Error) -> Stop {
    Stop::failed(format!("the guarded database: {error}"))
}

/// Two fences of one key: that of a former holder and that of its successor.
async fn two_fences(ground: &Ground) -> Result<(Fence, Fence), Stop> {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let old = one.take(&key).await?;
    one.release(&old).await?;
    Ok((old.fence, two.take(&key).await?.fence))
}

pub(super) async fn a_guard_accepts_a_write_with_the_highest_fence_only(ground: Ground) -> Done {
    let (old, new) = two_fences(&ground).await?;
    let folder = ground.folder()?;
    let mut guarded = Guarded::open(folder.path())?;
    let expected = [(old, true), (old, true), (new, true), (old, false), (new, true)];
    for (fence, accepted) in expected {
        let written = guarded.write(fence, &format!("fence {fence}"))?;
        ensure!(written == (accepted, accepted), "fence {fence}: file and database answered {written:?}");
    }
    guarded.shows(&format!("fence {new}"), 4)?;
    ensure!(file(&folder, "guarded.txt").exists(), "the guarded file is missing");
    Ok(format!("{old} until {new} was seen, then {new} only, in a file and in a database"))
}

pub(super) async fn a_stale_writer_never_writes_again(ground: Ground) -> Done {
    let (old, new) = two_fences(&ground).await?;
    let folder = ground.folder()?;
    let mut guarded = Guarded::open(folder.path())?;
    guarded.write(old, "former")?;
    guarded.write(new, "successor")?;
    let accepted = guarded.try_often(old, "former")?;
    ensure!(accepted == 0, "{accepted} of {TRIES} stale writes to each guard were accepted");
    guarded.shows("successor", 2)?;
    Ok(format!("0 of {TRIES} through the guard of a file, 0 of {TRIES} through that of a database"))
}
