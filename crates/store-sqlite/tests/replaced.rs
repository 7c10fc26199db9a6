//! A file that is removed, replaced or set back while it is open: nothing is accepted that the next start would not have.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[expect(dead_code, reason = "not every test file needs all of it")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bell_store::{Error, Kind, Store};
use bell_store_sqlite::Sqlite;
use rusqlite::Connection;
use support::{commit, put, runtime, value};

struct Fixture {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), runtime: runtime() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An open store with one record in it.
    fn store(&self) -> Sqlite {
        let store = Sqlite::open(&self.path("bell.db")).unwrap();
        self.runtime.block_on(commit(&store, put("a", "1"))).unwrap();
        store
    }

    fn put(&self, store: &Sqlite, name: &str) -> Result<(), Error> {
        self.runtime.block_on(commit(store, put(name, "2"))).map(drop)
    }

    fn has(&self, store: &Sqlite, name: &str) -> bool {
        self.runtime.block_on(value(store, name)).is_some()
    }

    fn expect_refused(&self, store: &Sqlite, kind: Kind) {
        let written = self.put(store, "b").unwrap_err();
        assert_eq!(written.kind(), kind, "{written}");
        assert!(!written.advice().is_empty(), "it says what to do next");
        let read = self.runtime.block_on(store.read(&["a".into()])).unwrap_err();
        assert_eq!(read.kind(), kind, "{read}");
    }
}

fn remove_all(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        fs::remove_file(name).unwrap();
    }
}

#[test]
fn a_store_whose_file_is_removed_refuses_everything_until_it_is_opened_again() {
    let fixture = Fixture::new();
    let path = fixture.path("bell.db");
    let store = fixture.store();
    fs::rename(&path, fixture.path("away")).unwrap();
    fixture.expect_refused(&store, Kind::Replaced);
    // Meanwhile others may have begun a file of their own under the name: only a new start knows which one counts.
    fs::rename(fixture.path("away"), &path).unwrap();
    fixture.expect_refused(&store, Kind::Replaced);
    drop(store);
    let store = Sqlite::open(&path).unwrap();
    assert!(fixture.has(&store, "a"), "what was answered is there");
    fixture.put(&store, "b").unwrap();
}

#[test]
fn a_store_whose_log_is_removed_refuses_everything() {
    for beside in ["bell.db-wal", "bell.db-shm"] {
        let fixture = Fixture::new();
        let store = fixture.store();
        fs::remove_file(fixture.path(beside)).unwrap();
        fixture.expect_refused(&store, Kind::Replaced);
    }
}

#[test]
fn a_store_that_was_opened_by_a_link_notices_that_the_link_leads_elsewhere() {
    let fixture = Fixture::new();
    fixture.store();
    let link = fixture.path("link.db");
    std::os::unix::fs::symlink(fixture.path("bell.db"), &link).unwrap();
    let store = Sqlite::open(&link).unwrap();
    fixture.put(&store, "b").unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(fixture.path("other.db"), &link).unwrap();
    fixture.expect_refused(&store, Kind::Replaced);
}

#[test]
fn a_store_that_took_the_place_of_another_is_not_harmed_when_the_other_is_closed() {
    let fixture = Fixture::new();
    let old = fixture.store();
    remove_all(&fixture.path("bell.db"));
    let new = fixture.store();
    fixture.put(&new, "b").unwrap();
    fixture.expect_refused(&old, Kind::Replaced);
    drop(old);
    fixture.put(&new, "c").unwrap();
    let beside = Sqlite::open(&fixture.path("bell.db")).unwrap();
    for name in ["a", "b", "c"] {
        assert!(fixture.has(&beside, name), "{name}");
    }
}

#[test]
fn a_store_that_took_the_place_of_another_is_not_harmed_by_a_close_that_is_the_first_to_notice() {
    let fixture = Fixture::new();
    let old = fixture.store();
    remove_all(&fixture.path("bell.db"));
    let new = fixture.store();
    drop(old);
    fixture.put(&new, "b").unwrap();
    assert!(fixture.has(&Sqlite::open(&fixture.path("bell.db")).unwrap(), "b"));
}

#[test]
fn a_commit_during_which_the_file_goes_away_is_not_answered_as_committed() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let other = Connection::open(fixture.path("bell.db")).unwrap();
    let error = fixture.runtime.block_on(async {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut waiting = Box::pin(store.commit(put("b", "1")));
        let pause = Duration::from_millis(100);
        assert!(tokio::time::timeout(pause, &mut waiting).await.is_err(), "it waits for the other process");
        remove_all(&fixture.path("bell.db"));
        other.execute_batch("ROLLBACK").unwrap();
        waiting.await.unwrap_err()
    });
    assert_eq!(error.kind(), Kind::Unknown, "{error}");
    fixture.expect_refused(&store, Kind::Replaced);
}

#[test]
fn a_file_that_is_set_back_while_it_is_open_is_refused_until_its_epoch_is_raised() {
    let fixture = Fixture::new();
    let store = fixture.store();
    for name in ["b", "c"] {
        fixture.put(&store, name).unwrap();
    }
    let other = Connection::open(fixture.path("bell.db")).unwrap();
    other.execute_batch("UPDATE meta SET revision = 1").unwrap();
    fixture.expect_refused(&store, Kind::Rewound);
    let raised = Sqlite::raise_epoch(&fixture.path("bell.db")).unwrap();
    let committed = fixture.runtime.block_on(commit(&store, put("d", "1"))).unwrap();
    assert!(committed.revision > raised);
    assert!(fixture.has(&store, "d"));
}
