//! What is left of a journal that was cut short or changed: exactly what was committed, or an error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;

use bell_store::{Kind, Store};
use bell_store_fs::Folder;
use support::{block_on, create, open};

/// A folder with three commits, as it is on the disk before and after the last of them.
struct Written {
    head_before: Vec<u8>,
    head_after: Vec<u8>,
    journal: Vec<u8>,
    length_before: usize,
}

fn written() -> Written {
    let temp = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read(temp.path().join(name)).unwrap();
    let store = open(temp.path());
    block_on(create(&store, "one", b"1")).unwrap();
    block_on(create(&store, "two", b"2")).unwrap();
    let (head_before, length_before) = (read("bell-store"), read("journal.1").len());
    block_on(create(&store, "three", b"3")).unwrap();
    Written { head_before, head_after: read("bell-store"), journal: read("journal.1"), length_before }
}

fn lay_out(head: &[u8], journal: &[u8]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("bell-store"), head).unwrap();
    fs::write(temp.path().join("journal.1"), journal).unwrap();
    temp
}

fn refusal(folder: &Path) -> Option<Kind> {
    Folder::open(folder).err().map(|error| error.kind())
}

#[test]
fn a_last_batch_torn_at_any_byte_leaves_exactly_what_was_committed_before() {
    let written = written();
    for length in written.length_before..=written.journal.len() {
        let is_whole = length == written.journal.len();
        let temp = lay_out(&written.head_before, &written.journal[..length]);
        let store = open(temp.path());
        let seen = block_on(store.scan("", "", 10)).unwrap();
        let names: Vec<_> = seen.records.keys().map(|name| name.as_str()).collect();
        let (expected, revision): (&[_], _) =
            if is_whole { (&["one", "three", "two"], 3) } else { (&["one", "two"], 2) };
        assert_eq!((names.as_slice(), seen.revision), (expected, revision), "cut at {length}");
        assert_eq!(block_on(create(&store, "next", b"")).unwrap().revision, revision + 1);
        drop(store);
        assert_eq!(block_on(open(temp.path()).read(&[])).unwrap().revision, revision + 1, "cut at {length}");
    }
}

#[test]
fn rubbish_behind_the_last_batch_is_cut_off() {
    let written = written();
    for rubbish in [vec![0; 10_000], vec![0xff; 100], written.journal.clone()] {
        let temp = lay_out(&written.head_after, &[written.journal.clone(), rubbish].concat());
        let store = open(temp.path());
        assert_eq!(block_on(create(&store, "next", b"")).unwrap().revision, 4);
        drop(store);
        assert_eq!(block_on(open(temp.path()).read(&[])).unwrap().revision, 4);
    }
}

#[test]
fn an_answered_batch_that_is_missing_is_corruption_and_not_a_torn_tail() {
    let written = written();
    for length in 0..written.journal.len() {
        let temp = lay_out(&written.head_after, &written.journal[..length]);
        assert_eq!(refusal(temp.path()), Some(Kind::Corrupt), "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_journal_is_corruption() {
    let written = written();
    for byte in 0..written.journal.len() {
        let mut flipped = written.journal.clone();
        flipped[byte] ^= 1 << (byte % 8);
        let temp = lay_out(&written.head_after, &flipped);
        assert_eq!(refusal(temp.path()), Some(Kind::Corrupt), "byte {byte}");
    }
}

#[test]
fn a_lost_head_never_loses_what_the_journal_has() {
    let written = written();
    let temp = lay_out(&[], &written.journal);
    assert_eq!(refusal(temp.path()), Some(Kind::Corrupt), "emptied");
    let temp = lay_out(&written.head_before[..512], &written.journal);
    assert_eq!(refusal(temp.path()), Some(Kind::Corrupt), "only the notice is left");
    let temp = lay_out(&written.head_after, &written.journal);
    fs::remove_file(temp.path().join("journal.1")).unwrap();
    assert_eq!(refusal(temp.path()), Some(Kind::Corrupt), "no journal");
}

#[test]
fn a_refusal_says_what_to_do_next() {
    let written = written();
    let temp = lay_out(&written.head_after, b"not a journal");
    let error = Folder::open(temp.path()).map(|_| ()).unwrap_err();
    assert!(error.advice().contains("backup"), "{error}: {}", error.advice());
}

#[test]
fn a_store_set_back_to_an_older_copy_while_in_use_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let store = open(temp.path());
    block_on(create(&store, "one", b"")).unwrap();
    let (marker, journal) = (temp.path().join("bell-store"), temp.path().join("journal.1"));
    let older = (fs::read(&marker).unwrap(), fs::read(&journal).unwrap());
    block_on(create(&store, "two", b"")).unwrap();
    fs::write(&marker, older.0).unwrap();
    fs::write(&journal, older.1).unwrap();
    assert_eq!(block_on(store.read(&[])).unwrap_err().kind(), Kind::Rewound);
    assert_eq!(block_on(create(&store, "three", b"")).unwrap_err().kind(), Kind::Rewound);
}

#[test]
fn a_removed_marker_stops_the_store_instead_of_splitting_it() {
    let temp = tempfile::tempdir().unwrap();
    let store = open(temp.path());
    fs::remove_file(temp.path().join("bell-store")).unwrap();
    assert_eq!(block_on(create(&store, "one", b"")).unwrap_err().kind(), Kind::Replaced);
    assert_eq!(block_on(store.read(&[])).unwrap_err().kind(), Kind::Replaced);
    assert_eq!(refusal(temp.path()), Some(Kind::Unsupported), "it is no store any more");
}

#[test]
fn a_folder_that_is_replaced_as_a_whole_stops_the_store() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("store");
    let store = open(&path);
    block_on(create(&store, "one", b"")).unwrap();
    fs::rename(&path, temp.path().join("away")).unwrap();
    assert_eq!(block_on(create(&store, "two", b"")).unwrap_err().kind(), Kind::Replaced);
    let other = open(&path);
    block_on(create(&other, "one", b"")).unwrap();
    assert_eq!(block_on(create(&store, "two", b"")).unwrap_err().kind(), Kind::Replaced);
    assert_eq!(block_on(store.read(&[])).unwrap_err().kind(), Kind::Replaced);
}
