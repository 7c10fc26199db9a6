//! Large values lie apart from their names: nothing of one is left behind, and files from before are taken over.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "not every test file needs all of it")]
mod support;

use bell_store::{Store, Txn, Write};
use bell_store_sqlite::Sqlite;
use rusqlite::Connection;
use support::{commit, put, runtime, value};

const LARGE: usize = 100_000;

fn bodies(path: &std::path::Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT count(*) FROM bodies", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_large_value_that_is_replaced_or_deleted_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let store = Sqlite::open(&path).unwrap();
    runtime().block_on(async {
        for fill in [1, 2] {
            commit(&store, put("a", vec![fill; LARGE])).await.unwrap();
            assert_eq!(value(&store, "a").await, Some(vec![fill; LARGE]));
            assert_eq!(bodies(&path), 1);
        }
        commit(&store, put("a", "small")).await.unwrap();
        assert_eq!(value(&store, "a").await.as_deref(), Some(&b"small"[..]));
        assert_eq!(bodies(&path), 0);
        commit(&store, put("a", vec![3; LARGE])).await.unwrap();
        let page = store.scan("", "", 10).await.unwrap();
        assert_eq!(page.records["a"].value, vec![3; LARGE]);
        let delete = Txn { writes: vec![("a".into(), Write::Delete)], ..Txn::default() };
        commit(&store, delete).await.unwrap();
        assert_eq!((value(&store, "a").await, bodies(&path)), (None, 0));
    });
}

/// What a file of the first version was made of.
const FIRST_VERSION: &str = "
    PRAGMA application_id = 0x62656C6C;
    PRAGMA user_version = 1;
    CREATE TABLE records (
        name     TEXT    NOT NULL PRIMARY KEY,
        value    BLOB    NOT NULL,
        version  INTEGER NOT NULL,
        stamp    INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE meta (
        id        INTEGER PRIMARY KEY CHECK (id = 1),
        store     TEXT    NOT NULL,
        revision  INTEGER NOT NULL,
        boot      TEXT    NOT NULL,
        base_ms   INTEGER NOT NULL,
        last_ms   INTEGER NOT NULL
    ) STRICT;
    INSERT INTO meta VALUES (1, 'a-store', 7, '', 0, 0);
    INSERT INTO records VALUES ('large', zeroblob(100000), 6, 5), ('small', x'31', 7, 7);
";

#[test]
fn a_file_of_the_first_version_keeps_its_records_and_who_had_it_open_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let older = Connection::open(&path).unwrap();
    older.execute_batch(FIRST_VERSION).unwrap();
    let mut insert = older.prepare("INSERT INTO records VALUES ('x', x'', 8, 8)").unwrap();
    let store = Sqlite::open(&path).unwrap();
    runtime().block_on(async {
        let found = store.read(&["large".into(), "small".into()]).await.unwrap();
        assert_eq!((found.revision, found.records["large"].version, found.records["large"].stamp), (7, 6, 5));
        assert_eq!(found.records["large"].value, vec![0; LARGE]);
        assert_eq!(found.records["small"].value, b"1");
        assert!(
            insert.execute([]).is_err(),
            "an older process writes nothing that a newer one would misread"
        );
        let committed = commit(&store, put("large", vec![1; LARGE])).await.unwrap();
        assert_eq!(committed.revision, 8);
        assert_eq!((value(&store, "large").await, bodies(&path)), (Some(vec![1; LARGE]), 1));
    });
}
