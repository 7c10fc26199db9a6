//! What goes wrong outside: each failure has its kind and its hint, and loses nothing that was answered.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[expect(dead_code, reason = "not every test file needs all of it")]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use bell_store::info::{Durability, Push};
use bell_store::{Error, Kind, Store};
use bell_store_sqlite::Sqlite;
use rusqlite::Connection;
use support::{Other, PATH, command, commit, put, runtime, say, value};

/// Not a test: what a process of another user can do with the store.
#[test]
fn second_process() {
    let Ok(path) = std::env::var(PATH) else { return };
    let done = runtime().block_on(async {
        let store = Sqlite::open(Path::new(&path))?;
        let found = store.read(&["a".into()]).await?;
        say(&format!("read {}", found.records.len()));
        store.commit(put("a", "2")).await
    });
    let error = done.unwrap_err();
    assert!(!error.advice().is_empty(), "{error}");
    say(&format!("{:?}", error.kind()));
}

fn refused(path: &Path) -> Error {
    let error = Sqlite::open(path).unwrap_err();
    assert!(!error.advice().is_empty(), "it says what to do next: {error}");
    error
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    fs::write(&path, "a shopping list, long enough to be looked at".repeat(100)).unwrap();
    assert_eq!(refused(&path).kind(), Kind::Corrupt);
    assert!(fs::read_to_string(&path).unwrap().starts_with("a shopping list"));
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().ends_with("the file belongs to another program"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_by_a_newer_bellwether_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    drop(Sqlite::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(refused(&path).kind(), Kind::TooNew);
}

#[test]
fn a_damaged_file_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let runtime = runtime();
    let store = Sqlite::open(&path).unwrap();
    runtime.block_on(commit(&store, put("a", vec![7; 100_000]))).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    bytes[4_096..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let found = Sqlite::open(&path).and_then(|store| runtime.block_on(store.read(&["a".into()])));
    let error = found.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(!error.advice().is_empty());
}

#[test]
fn a_file_kept_locked_by_another_is_unavailable_and_works_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let store = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    runtime().block_on(async {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.commit(put("a", "1")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert_eq!(value(&store, "a").await, None, "it can be read all the same");
        other.execute_batch("ROLLBACK").unwrap();
        commit(&store, put("a", "2")).await.unwrap();
    });
}

/// What a process of another user says of the store.
fn stranger(path: &Path) -> Vec<String> {
    let setpriv = command("setpriv").arg("--version").output();
    assert!(setpriv.is_ok(), "this test needs setpriv: apt-get install util-linux");
    assert!(
        rustix::process::geteuid().is_root(),
        "this test starts a process of another user: run it as root"
    );
    // A copy, since the folder of the test binary may be closed to strangers.
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let binary = folder.path().join("stranger");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut setpriv = command("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary);
    let mut other = Other::start_as(setpriv, "stranger", path);
    std::iter::from_fn(|| other.heard()).collect()
}

fn open_to_all(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_in_a_closed_folder_is_closed_to_other_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let _store = Sqlite::open(&path).unwrap();
    let said = stranger(&path);
    assert_eq!(said, ["Unauthorized"]);
}

#[test]
fn a_store_that_another_user_may_only_read_can_be_read_while_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    fs::write(&path, "").unwrap();
    open_to_all(folder.path());
    open_to_all(&path);
    let store = Sqlite::open(&path).unwrap();
    runtime().block_on(commit(&store, put("a", "1"))).unwrap();
    assert_eq!(stranger(&path), ["read 1", "ReadOnly"]);
    drop(store);
    assert_eq!(stranger(&path), ["ReadOnly"], "it can't create the index beside it");
}

/// A small file system of its own, for as long as this lives.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted =
            command("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        assert!(is_mounted, "this test mounts a small file system: run it as root");
        Self(folder)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn make_read_only(&self) {
        let done = command("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = command("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_keeps_what_was_answered_and_works_again_once_there_is_space() {
    let disk = Tmpfs::mount("4M");
    let ballast = disk.path("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let path = disk.path("bell.db");
    let runtime = runtime();
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(store.info().durability, Durability::Process, "a file in memory does not survive a power cut");

    let mut answered = Vec::new();
    let error = loop {
        let (left, right) = (format!("left/{}", answered.len()), format!("right/{}", answered.len()));
        let mut both = put(&left, vec![1; 20_000]);
        both.writes.extend(put(&right, vec![2; 20_000]).writes);
        match runtime.block_on(store.commit(both)) {
            Ok(_) => answered.extend([left, right]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert!(!answered.is_empty());
    runtime.block_on(expect_exactly(&store, &answered));

    fs::remove_file(&ballast).unwrap();
    runtime.block_on(commit(&store, put("left/again", vec![1; 20_000]))).unwrap();
    answered.push("left/again".to_owned());
    drop(store);
    runtime.block_on(expect_exactly(&Sqlite::open(&path).unwrap(), &answered));
}

async fn expect_exactly(store: &Sqlite, names: &[String]) {
    let found = store.scan("", "", 1_000).await.unwrap();
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(found.records.keys().map(bell_store::Name::as_str).collect::<Vec<_>>(), names);
    assert!(found.records.values().all(|record| record.value.len() == 20_000));
}

#[test]
fn a_small_commit_goes_through_where_its_large_neighbour_finds_no_space() {
    let disk = Tmpfs::mount("2M");
    let path = disk.path("bell.db");
    let store = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    runtime().block_on(async {
        // While another process writes, the first keeps the writer busy, and the two after it are taken together.
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut first = Box::pin(store.commit(put("first", "1")));
        let pause = Duration::from_millis(100);
        assert!(tokio::time::timeout(pause, &mut first).await.is_err(), "it waits for the other process");
        let mut large = put("large/0", vec![0; 1 << 20]);
        large.writes.extend((1..4).flat_map(|at| put(&format!("large/{at}"), vec![0; 1 << 20]).writes));
        let release = async { other.execute_batch("ROLLBACK").unwrap() };
        let (large, small, (), first) =
            tokio::join!(store.commit(large), store.commit(put("small", "1")), release, first);
        first.unwrap();
        assert_eq!(large.unwrap_err().kind(), Kind::Full);
        small.unwrap();
        assert_eq!(value(&store, "large/0").await, None);
        assert_eq!(value(&store, "small").await.as_deref(), Some(&b"1"[..]));
    });
}

#[test]
fn a_store_on_a_read_only_disk_can_be_read_and_not_written() {
    let disk = Tmpfs::mount("4M");
    let path = disk.path("bell.db");
    let runtime = runtime();
    let store = Sqlite::open(&path).unwrap();
    runtime.block_on(commit(&store, put("a", "1"))).unwrap();
    let before = runtime.block_on(store.now()).unwrap();
    drop(store);
    disk.make_read_only();

    let store = Sqlite::open(&path).unwrap();
    assert!(matches!(store.info().push, Push::Poll { .. }));
    assert!(!store.info().notices_death);
    runtime.block_on(async {
        assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
        assert!(store.now().await.unwrap() >= before);
        let error = store.commit(put("a", "2")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::ReadOnly);
        assert!(!error.advice().is_empty());
    });
}

#[test]
fn a_new_store_on_a_read_only_disk_is_refused() {
    let disk = Tmpfs::mount("1M");
    disk.make_read_only();
    assert_eq!(refused(&disk.path("bell.db")).kind(), Kind::ReadOnly);
    assert_eq!(refused(&disk.path("folder/bell.db")).kind(), Kind::ReadOnly);
}
