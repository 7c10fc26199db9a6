//! What to do when the outcome of a commit is not known.
//!
//! A disk that fails while a commit is being written may keep it all the same. SQLite then goes on as if
//! it had not happened, until a power cut: the log is read again, and there it is. Whoever read in
//! between was told something false. So nothing is read or written until a commit of no consequence
//! has taken the place of the lost one in the log; from then on it certainly did not happen.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::fault::Fault;

const SETTLE: &str = "
    BEGIN IMMEDIATE;
    UPDATE meta SET revision = revision + 1;
    COMMIT;
";

/// Whether the end of the log is in doubt.
#[derive(Default)]
pub(crate) struct Doubt(AtomicBool);

impl Doubt {
    /// A commit failed half-way.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Makes sure of what is stored. Nothing to do where nothing failed.
    pub(crate) fn settle(&self, connection: &Connection) -> Result<(), Fault> {
        if !self.0.load(Ordering::Acquire) {
            return Ok(());
        }
        connection.execute_batch(SETTLE).inspect_err(|_| roll_back(connection))?;
        self.0.store(false, Ordering::Release);
        tracing::warn!("a commit that failed half-way is certain not to have happened");
        Ok(())
    }
}

/// Ends a transaction that failed. SQLite has often done so itself.
pub(crate) fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // Should this fail too, the next BEGIN says so.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(connection: &Connection) -> u64 {
        connection.query_row("SELECT revision FROM meta", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn settling_writes_only_after_a_failure_and_only_once() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE meta (revision); INSERT INTO meta VALUES (7)").unwrap();
        let doubt = Doubt::default();
        doubt.settle(&connection).unwrap();
        assert_eq!(revision(&connection), 7);
        doubt.raise();
        doubt.settle(&connection).unwrap();
        doubt.settle(&connection).unwrap();
        assert_eq!(revision(&connection), 8);
    }

    #[test]
    fn a_doubt_that_can_not_be_settled_stays() {
        let connection = Connection::open_in_memory().unwrap();
        let doubt = Doubt::default();
        doubt.raise();
        assert!(doubt.settle(&connection).is_err());
        assert!(doubt.settle(&connection).is_err());
        assert!(connection.is_autocommit());
    }
}
