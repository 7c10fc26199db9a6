//! What the locks protect: a table behind the SQLite guard, outside of the store under test. It keeps a row for
//! every write that it took, in order.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bell_locks::Fence;
use bell_locks::guard::sqlite::{self, GuardError};
use rusqlite::{Connection, Transaction};

use crate::history::{Accepted, Answer};

/// Rows are numbered in the order of the commits: writers take turns.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS accepted (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key    TEXT    NOT NULL,
        fence  INTEGER NOT NULL,
        client INTEGER NOT NULL
    ) STRICT
";
const INSERT: &str = "INSERT INTO accepted (key, fence, client) VALUES (?1, ?2, ?3)";
const HIGHEST: &str = "SELECT coalesce(max(fence), 0) FROM accepted WHERE key = ?1";
const READ: &str = "SELECT key, fence, client FROM accepted ORDER BY number";

/// Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the sink looks at fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarding {
    /// As it should.
    Fences,
    /// As it must not: for showing that the checker notices.
    Nothing,
}

/// A way to the guarded table.
pub struct Sink {
    connection: Connection,
    guarding: Guarding,
}

impl Sink {
    /// Opens the table at `path`, created if it is missing.
    ///
    /// # Errors
    /// If it can't be.
    pub fn open(path: &Path, guarding: Guarding) -> Result<Self> {
        let connection = Connection::open(path).context("could not open the sink")?;
        connection.busy_timeout(PATIENCE)?;
        // No power is cut here, and a process that is killed loses nothing by this.
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")?;
        connection.execute_batch(CREATE)?;
        Ok(Self { connection, guarding })
    }

    /// Writes once with this fence.
    ///
    /// # Errors
    /// If the table can't be written at all.
    pub fn write(&mut self, key: &str, fence: Fence, client: u32) -> Result<Answer> {
        let number = i64::try_from(fence.0).unwrap_or(i64::MAX);
        let insert = |transaction: &Transaction<'_>| transaction.execute(INSERT, (key, number, client));
        match self.guarding {
            Guarding::Fences => match sqlite::write(&mut self.connection, key, fence, insert) {
                Ok(_) => Ok(Answer::Accepted),
                Err(GuardError::Stale(_)) => Ok(Answer::Stale),
                Err(error) => Err(error).context("could not write to the sink"),
            },
            Guarding::Nothing => {
                self.connection.execute(INSERT, (key, number, client))?;
                Ok(Answer::Accepted)
            }
        }
    }

    /// The highest fence with which something was written; zero: nothing was.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn highest(&self, key: &str) -> Result<u64> {
        Ok(self.connection.query_row(HIGHEST, [key], |row| row.get(0))?)
    }

    /// Everything it took.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn accepted(&self) -> Result<Vec<Accepted>> {
        let mut rows = self.connection.prepare(READ)?;
        let accepted = rows.query_map([], |row| {
            Ok(Accepted { key: row.get(0)?, fence: row.get(1)?, client: row.get(2)? })
        })?;
        Ok(accepted.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_refuses_a_lower_fence_and_keeps_what_it_took_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = Sink::open(&folder.path().join("sink"), Guarding::Fences).unwrap();
        let mut write = |fence| sink.write("k", Fence(fence), 1).unwrap();
        assert_eq!([write(5), write(7), write(6)], [Answer::Accepted, Answer::Accepted, Answer::Stale]);
        let fences: Vec<_> = sink.accepted().unwrap().iter().map(|write| write.fence).collect();
        assert_eq!(fences, [5, 7]);
    }
}
