//! Links and pipes in the place of the store's files: refused, never followed, never waited for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bell_store::{Kind, Store};
use bell_store_fs::Folder;
use support::{block_on, create, open, put};

fn plant_pipe(path: &Path) {
    assert!(support::program("mkfifo").arg(path).status().unwrap().success());
}

fn refusal(folder: &Path) -> Option<Kind> {
    Folder::open(folder).err().map(|error| error.kind())
}

#[test]
fn a_store_with_a_planted_file_is_refused() {
    for name in ["bell-store", "turn", "journal.1"] {
        let temp = tempfile::tempdir().unwrap();
        let (folder, aside) = (temp.path().join("store"), temp.path().join("aside"));
        block_on(create(&open(&folder), "one", b"")).unwrap();
        let path = folder.join(name);
        fs::rename(&path, &aside).unwrap();

        symlink(&aside, &path).unwrap();
        assert_eq!(refusal(&folder), Some(Kind::Corrupt), "{name} is a symbolic link");
        fs::remove_file(&path).unwrap();

        fs::hard_link(&aside, &path).unwrap();
        assert_eq!(refusal(&folder), Some(Kind::Corrupt), "{name} has a second name");
        fs::remove_file(&path).unwrap();

        plant_pipe(&path);
        assert_eq!(refusal(&folder), Some(Kind::Corrupt), "{name} is a pipe");
        fs::remove_file(&path).unwrap();

        fs::create_dir(&path).unwrap();
        assert_eq!(refusal(&folder), Some(Kind::Corrupt), "{name} is a folder");
        fs::remove_dir(&path).unwrap();

        fs::rename(&aside, &path).unwrap();
        assert_eq!(block_on(open(&folder).read(&[])).unwrap().revision, 1, "{name}: nothing was harmed");
    }
}

#[test]
fn a_link_planted_where_the_next_journal_will_be_is_not_written_to() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, precious) = (temp.path().join("store"), temp.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    let store = open(&folder);
    symlink(&precious, folder.join("journal.2")).unwrap();
    for _ in 0..30 {
        block_on(put(&store, "large", &[b'x'; 100_000])).unwrap();
    }
    drop(store);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(block_on(open(&folder).read(&[])).unwrap().revision, 30);
}
