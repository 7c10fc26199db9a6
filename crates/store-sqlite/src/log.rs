//! How long the log is, and when it is moved into the file.
//!
//! SQLite has a rule of its own for this, and follows it before a commit is answered. Ours is followed by the writer, once
//! everybody was answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;

use crate::fault::Fault;

/// Pages in the log (8 MiB) after which they are moved into the file.
/// Seldom enough that a page is moved once for many commits that changed it, often enough that the log stays small: reads
/// look there first.
const MOVED_AFTER: usize = 2_000;

/// Never waits for readers, nor makes anybody wait: what it can't move now is moved the next time.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The log of a file, as commits of one connection see it.
pub(crate) struct Log {
    pages: Arc<AtomicUsize>,
    due: Due,
}

impl Log {
    /// Looks at the log with every commit of this connection from now on, in the place of SQLite's own rule.
    pub(crate) fn watch(connection: &mut Connection) -> Result<Self, Fault> {
        let pages = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            seen.store(usize::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, due: Due::default() })
    }

    /// Moves it into the file if it is long enough.
    pub(crate) fn move_if_due(&mut self, connection: &Connection) {
        if !self.due.look(self.pages.load(Ordering::Relaxed)) {
            return;
        }
        if let Err(error) = connection.query_row(CHECKPOINT, [], |_| Ok(())) {
            tracing::warn!(%error, "the log could not be moved into the file; it grows until it can");
        }
    }
}

/// When it is time.
struct Due {
    at: usize,
    seen: usize,
}

impl Default for Due {
    fn default() -> Self {
        Self { at: MOVED_AFTER, seen: 0 }
    }
}

impl Due {
    /// Whether a log of so many pages is to be moved now. If that does not move it, because somebody reads from it, it is
    /// tried again after as many pages more.
    fn look(&mut self, pages: usize) -> bool {
        if pages < self.seen {
            // All of it had been moved, and it began anew.
            self.at = MOVED_AFTER;
        }
        self.seen = pages;
        let is_due = pages >= self.at;
        if is_due {
            self.at = pages + MOVED_AFTER;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_moved_when_it_is_long_and_again_when_it_has_grown_as_much_once_more() {
        let mut due = Due::default();
        assert!(!due.look(MOVED_AFTER - 1));
        assert!(due.look(MOVED_AFTER));
        assert!(!due.look(2 * MOVED_AFTER - 1), "somebody reads from it");
        assert!(due.look(2 * MOVED_AFTER));
    }

    #[test]
    fn a_log_that_began_anew_is_short() {
        let mut due = Due::default();
        assert!(due.look(MOVED_AFTER + 5));
        assert!(!due.look(10));
        assert!(!due.look(MOVED_AFTER - 1));
        assert!(due.look(MOVED_AFTER));
    }

    #[test]
    fn the_log_is_as_long_as_the_pages_that_were_committed() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("db")).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        let mut log = Log::watch(&mut connection).unwrap();
        connection.execute_batch("CREATE TABLE t (b BLOB)").unwrap();
        let pages = || std::fs::metadata(folder.path().join("db-wal")).unwrap().len() / 4_096;
        assert_eq!(log.pages.load(Ordering::Relaxed) as u64, pages());
        connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [4_096 * MOVED_AFTER]).unwrap();
        assert!(log.pages.load(Ordering::Relaxed) > MOVED_AFTER);
        log.move_if_due(&connection);
        let file = std::fs::metadata(folder.path().join("db")).unwrap().len();
        assert!(file > 4_096 * MOVED_AFTER as u64, "{file}");
        connection.execute_batch("DELETE FROM t WHERE false; INSERT INTO t VALUES (1)").unwrap();
        assert!(log.pages.load(Ordering::Relaxed) < 10, "it begins anew");
    }
}
