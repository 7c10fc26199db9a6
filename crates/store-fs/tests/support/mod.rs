//! Processes that use one folder: this test program, started again with a role to play.
//!
//! A child tells on stderr, a line each, what it was answered; the parent believes nothing else.

#![expect(dead_code, reason = "each test program uses a part of it")]
#![expect(clippy::disallowed_methods, reason = "tests of several processes have to start them")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bell_store::record::{Name, Revision};
use bell_store::txn::{Committed, Expect, Outcome, Stamp, Txn, Write};
use bell_store::{Error, Kind, Result, Store};
use bell_store_fs::Folder;

const ROLE: &str = "BELL_TEST_ROLE";
const FOLDER: &str = "BELL_TEST_FOLDER";

/// This program again, running only its test `child`.
pub(crate) fn child(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    dress(&mut command, role, folder);
    command
}

/// The same below strace, which lets the `point`-th `call` go wrong in this way. The second answer tells, once the
/// child has ended, whether it came to that.
pub(crate) fn child_with_fault(
    role: &str,
    folder: &Path,
    fault: &Fault<'_>,
) -> (Command, impl Fn() -> bool + use<>) {
    let found = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    assert!(found.is_ok(), "this test needs strace: apt-get install strace");
    let trace = tempfile::NamedTempFile::new().unwrap();
    let Fault { call, point, way } = fault;
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(trace.path());
    command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:{way}:when={point}")]);
    command.arg(std::env::current_exe().unwrap());
    dress(&mut command, role, folder);
    let was_met = move || {
        let trace = std::fs::read_to_string(trace.path()).unwrap();
        trace.contains("(INJECTED)") || trace.contains("killed by SIGKILL")
    };
    (command, was_met)
}

/// Something that goes wrong in a child.
pub(crate) struct Fault<'a> {
    /// A call to the system.
    pub(crate) call: &'a str,
    /// Which of these calls, from one.
    pub(crate) point: usize,
    /// What happens, in strace's words.
    pub(crate) way: &'a str,
}

/// Another program, found by its name.
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}

fn dress(command: &mut Command, role: &str, folder: &Path) {
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::piped());
}

/// The role and the folder, if this process is a child.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// Runs on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// What a child was told to be committed: names and revisions.
pub(crate) fn acknowledged(lines: &str) -> BTreeMap<Name, Revision> {
    lines.lines().filter_map(acknowledgement).collect()
}

/// One line of what a child was told.
pub(crate) fn acknowledgement(line: &str) -> Option<(Name, Revision)> {
    let (name, revision) = line.strip_prefix("ack ")?.split_once(' ')?;
    Some((name.into(), revision.parse().ok()?))
}

/// Those of the acknowledged records that the store does not have as they were.
pub(crate) fn missing(store: &dyn Store, acknowledged: &BTreeMap<Name, Revision>) -> Vec<Name> {
    let mut missing = Vec::new();
    for (name, revision) in acknowledged {
        let seen = block_on(store.read(std::slice::from_ref(name))).unwrap();
        if seen.version(name.as_str()) != *revision || seen.revision < *revision {
            missing.push(name.clone());
        }
    }
    missing
}

/// Puts a record that must not be there yet.
pub(crate) async fn create(store: &dyn Store, name: &str, value: &[u8]) -> Result<Committed> {
    let txn = Txn {
        expect: vec![(name.into(), Expect::Absent)],
        writes: vec![(name.into(), Write::Put(value.to_vec(), Stamp::New))],
        ..Txn::default()
    };
    commit(store, txn).await
}

/// Puts a record, whatever is there.
pub(crate) async fn put(store: &dyn Store, name: &str, value: &[u8]) -> Result<Committed> {
    let writes = vec![(name.into(), Write::Put(value.to_vec(), Stamp::New))];
    commit(store, Txn { writes, ..Txn::default() }).await
}

/// Adds one to a number, as often as it takes.
pub(crate) async fn increment(store: &dyn Store, name: &str) {
    let mut seen = store.read(&[name.into()]).await.unwrap();
    loop {
        let value = seen.records.get(name).map_or(0, |record| number(&record.value)) + 1;
        let txn = Txn {
            expect: vec![(name.into(), Expect::seen(seen.version(name)))],
            writes: vec![(name.into(), Write::Put(value.to_string().into_bytes(), Stamp::Keep))],
            ..Txn::default()
        };
        match patiently(store, txn).await.unwrap() {
            Outcome::Committed(_) => return,
            Outcome::Conflict(current) => seen = current,
        }
    }
}

/// A number as [`increment`] stores it.
pub(crate) fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Opens a folder that must open.
pub(crate) fn open(folder: &Path) -> Folder {
    loop {
        match Folder::open(folder) {
            Ok(store) => return store,
            Err(error) if is_busy(&error) => {}
            Err(error) => panic!("could not {error}; {}", error.advice()),
        }
    }
}

async fn commit(store: &dyn Store, txn: Txn) -> Result<Committed> {
    match patiently(store, txn).await? {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Conflict(seen) => panic!("unexpected conflict: {seen:?}"),
    }
}

/// A disk that does not answer for a minute is no reason for a test to fail: another process holds the lock for as
/// long as its sync takes.
async fn patiently(store: &dyn Store, txn: Txn) -> Result<Outcome> {
    loop {
        match store.commit(txn.clone()).await {
            Err(error) if is_busy(&error) => {}
            answer => return answer,
        }
    }
}

fn is_busy(error: &Error) -> bool {
    error.kind() == Kind::Unavailable && error.to_string().contains("does not let go")
}
