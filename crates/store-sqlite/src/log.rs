//! How long the log is, and when it is moved into the file.
//!
//! SQLite has a rule of its own for this, and follows it before a commit is answered. Here a thread moves the log, on a
//! connection of its own, while commits go on: to move it takes as long as a dozen of them. A log begins anew once all of
//! it has been moved, which nobody can do who runs after a writer. So when it has become long, the writer itself moves the
//! rest: what came while the thread was at it. A thread that is too slow is waited for, so that the log stays small whatever
//! happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use bell_store::group::Group;
use bell_store::{Error, Result};
use rusqlite::Connection;

use crate::connection;
use crate::fault::Fault;
use crate::place::Place;

/// Pages in the log (4 MiB) after which they are moved into the file, and again after as many more.
/// Seldom enough that a page is moved once for many commits that changed it, often enough that the log stays small: reads
/// look there first.
const MOVED_AFTER: usize = 1_000;

/// Pages (8 MiB) after which the writer sees to it that the log begins anew.
const ENDED_AFTER: usize = 2 * MOVED_AFTER;

/// Pages (10 MiB) beyond which no commit adds to a log that is being moved.
const LONGEST: usize = 2_500;
const _: () = assert!(ENDED_AFTER < LONGEST);

/// Never waits for readers, nor makes anybody wait: what it can't move now is moved the next time.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The log of a file, as commits of one connection see it.
pub(crate) struct Log {
    place: Place,
    pages: Arc<AtomicUsize>,
    due: Due,
    /// `None`: it was not needed yet. Most processes write a few records and end.
    mover: Option<Group<Asked>>,
    /// What the thread was asked for and has not done yet.
    moving: Option<Receiver<()>>,
}

/// Dropped when it is done.
type Asked = Sender<()>;

impl Log {
    /// Looks at the log with every commit of this connection from now on, in the place of SQLite's own rule.
    pub(crate) fn watch(connection: &mut Connection, place: Place) -> Result<Self, Fault> {
        let pages = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            seen.store(usize::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { place, pages, due: Due::default(), mover: None, moving: None })
    }

    /// Has it moved into the file if it is long enough. `connection` is the writer's.
    pub(crate) fn move_if_due(&mut self, connection: &Connection) {
        if self.moving.as_ref().is_some_and(|moving| moving.try_recv() != Err(TryRecvError::Empty)) {
            self.moving = None;
        }
        match self.due.look(self.pages.load(Ordering::Relaxed), self.moving.is_some()) {
            Next::Nothing => {}
            Next::ByTheThread => {
                if let Err(error) = self.ask_the_thread() {
                    tracing::warn!(%error, "no thread moves the log into the file; the writer does");
                    checkpoint(connection);
                }
            }
            Next::ByTheWriter => {
                if let Some(moving) = self.moving.take() {
                    // It says nothing, but that it is done.
                    let _ = moving.recv();
                }
                checkpoint(connection);
            }
        }
    }

    fn ask_the_thread(&mut self) -> Result<()> {
        let mover = match self.mover.take() {
            Some(mover) => mover,
            None => mover(&self.place)?,
        };
        let (asked, moving) = mpsc::channel();
        mover.submit(asked).map_err(|_| crate::no_thread(std::io::Error::other("it has ended")))?;
        (self.mover, self.moving) = (Some(mover), Some(moving));
        Ok(())
    }
}

/// A thread that moves the log whenever it is asked to. Dropped, it moves what it was asked for and ends.
fn mover(place: &Place) -> Result<Group<Asked>, Error> {
    let connection = connection::writing(place)?;
    let engine = move |asked: Vec<Asked>| {
        checkpoint(&connection);
        drop(asked);
    };
    Group::start("bell-sqlite-move", engine).map_err(crate::no_thread)
}

fn checkpoint(connection: &Connection) {
    if let Err(error) = connection.query_row(CHECKPOINT, [], |_| Ok(())) {
        tracing::warn!(%error, "the log could not be moved into the file; it grows until it can");
    }
}

/// When it is time.
struct Due {
    at: usize,
    seen: usize,
    was_moving: bool,
}

/// What to do about the log now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Nothing,
    ByTheThread,
    ByTheWriter,
}

impl Default for Due {
    fn default() -> Self {
        Self { at: MOVED_AFTER, seen: 0, was_moving: false }
    }
}

impl Due {
    /// What to do about a log of so many pages. If that does not move it, because somebody reads from it, it is tried again
    /// after as many pages more.
    fn look(&mut self, pages: usize, is_moving: bool) -> Next {
        if pages < self.seen {
            // All of it had been moved, and it began anew.
            self.at = MOVED_AFTER;
        }
        self.seen = pages;
        let has_moved = std::mem::replace(&mut self.was_moving, is_moving) && !is_moving;
        if (has_moved && pages >= ENDED_AFTER) || (is_moving && pages >= LONGEST) {
            self.was_moving = false;
            self.at = pages + MOVED_AFTER;
            return Next::ByTheWriter;
        }
        if is_moving || pages < self.at {
            return Next::Nothing;
        }
        self.at = pages + MOVED_AFTER;
        self.was_moving = true;
        Next::ByTheThread
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_long_log_is_moved_by_the_thread_and_ended_by_the_writer() {
        let mut due = Due::default();
        assert_eq!(due.look(MOVED_AFTER - 1, false), Next::Nothing);
        assert_eq!(due.look(MOVED_AFTER, false), Next::ByTheThread);
        assert_eq!(due.look(MOVED_AFTER + 100, true), Next::Nothing);
        assert_eq!(due.look(MOVED_AFTER + 200, false), Next::Nothing, "it is not long enough yet");
        assert_eq!(due.look(2 * MOVED_AFTER, false), Next::ByTheThread);
        assert_eq!(due.look(2 * MOVED_AFTER + 100, true), Next::Nothing);
        assert_eq!(due.look(2 * MOVED_AFTER + 200, false), Next::ByTheWriter);
        assert_eq!(due.look(2 * MOVED_AFTER + 210, false), Next::Nothing);
        assert_eq!(due.look(10, false), Next::Nothing, "it began anew");
        assert_eq!(due.look(MOVED_AFTER, false), Next::ByTheThread);
    }

    #[test]
    fn a_thread_that_is_too_slow_is_waited_for() {
        let mut due = Due::default();
        assert_eq!(due.look(MOVED_AFTER, false), Next::ByTheThread);
        assert_eq!(due.look(LONGEST - 1, true), Next::Nothing);
        assert_eq!(due.look(LONGEST, true), Next::ByTheWriter);
        assert_eq!(due.look(10, false), Next::Nothing, "it began anew");
        assert_eq!(due.look(MOVED_AFTER, false), Next::ByTheThread);
    }

    #[test]
    fn a_log_that_somebody_reads_from_is_tried_again_when_it_has_grown_as_much_once_more() {
        let mut due = Due::default();
        assert_eq!(due.look(ENDED_AFTER, false), Next::ByTheThread);
        assert_eq!(due.look(ENDED_AFTER, false), Next::ByTheWriter, "the thread is done");
        assert_eq!(due.look(ENDED_AFTER + MOVED_AFTER - 1, false), Next::Nothing);
        assert_eq!(due.look(ENDED_AFTER + MOVED_AFTER, false), Next::ByTheThread);
    }

    /// A file with a table, and a connection to it whose log is watched.
    fn watched(folder: &Path) -> (Connection, Log) {
        let place = Place::find(&folder.join("db")).unwrap();
        let mut connection = connection::writing(&place).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        let log = Log::watch(&mut connection, place).unwrap();
        connection.execute_batch("CREATE TABLE t (b BLOB)").unwrap();
        (connection, log)
    }

    fn pages(file: &Path) -> u64 {
        std::fs::metadata(file).unwrap().len() / 4_096
    }

    fn grow(connection: &Connection, pages: usize) {
        connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [4_096 * pages]).unwrap();
    }

    #[test]
    fn the_log_is_as_long_as_the_pages_that_were_committed() {
        let folder = tempfile::tempdir().unwrap();
        let (connection, log) = watched(folder.path());
        let in_log = || pages(&folder.path().join("db-wal"));
        assert_eq!(log.pages.load(Ordering::Relaxed) as u64, in_log());
        grow(&connection, MOVED_AFTER);
        assert!(log.pages.load(Ordering::Relaxed) > MOVED_AFTER);
    }

    #[test]
    fn a_log_is_moved_while_others_write_and_begins_anew_after_it_was_long() {
        let folder = tempfile::tempdir().unwrap();
        let (connection, mut log) = watched(folder.path());
        grow(&connection, ENDED_AFTER);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        log.move_if_due(&connection);
        drop(log.mover.take().expect("a thread was asked"));
        assert!(pages(&folder.path().join("db")) > ENDED_AFTER as u64, "it was moved meanwhile");
        connection.execute_batch("INSERT INTO t VALUES (1); COMMIT").unwrap();
        assert!(log.pages.load(Ordering::Relaxed) > ENDED_AFTER, "which did not end it");
        log.move_if_due(&connection);
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        assert!(log.pages.load(Ordering::Relaxed) < 10, "it begins anew");
    }
}
