//! What the tests of this crate share: short ways to commit and read, and second processes.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use bell_store::{Committed, Expect, Outcome, Result, Stamp, Store, Txn, Version, Write};
use bell_store_sqlite::Sqlite;

const ROLE: &str = "BELL_TEST_ROLE";
/// Names the store to a second process.
pub(crate) const PATH: &str = "BELL_TEST_PATH";

/// The transaction that puts one record, whatever was there.
pub(crate) fn put(name: &str, value: impl Into<Vec<u8>>) -> Txn {
    Txn { writes: vec![(name.into(), Write::Put(value.into(), Stamp::New))], ..Txn::default() }
}

/// The same, if the record is still at this version.
pub(crate) fn replace(name: &str, seen: Version, value: impl Into<Vec<u8>>) -> Txn {
    Txn { expect: vec![(name.into(), Expect::seen(seen))], ..put(name, value) }
}

/// Commits what can't conflict.
pub(crate) async fn commit(store: &dyn Store, txn: Txn) -> Result<Committed> {
    match store.commit(txn).await? {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Conflict(found) => panic!("a conflict: {found:?}"),
    }
}

/// The value of a record.
pub(crate) async fn value(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
    let found = store.read(&[name.into()]).await.unwrap();
    found.records.get(name).map(|record| record.value.clone())
}

/// A runtime like the daemon's.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A program to start.
#[expect(clippy::disallowed_methods, reason = "these tests are about processes")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// In a second process: its role and the store it opened. `None` in the process of the tests.
pub(crate) fn role() -> Option<(String, Sqlite)> {
    let role = std::env::var(ROLE).ok()?;
    let path = std::env::var(PATH).unwrap();
    Some((role, Sqlite::open(Path::new(&path)).unwrap()))
}

/// Tells the process of the tests.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n>{line}").and_then(|()| out.flush()).unwrap();
}

/// Waits until the process of the tests lets go: then none is left behind.
pub(crate) fn until_input_ends() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// This same test binary, started again with a role: its test `second_process` plays it.
pub(crate) struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(role: &str, path: &Path) -> Self {
        Self::start_as(command(std::env::current_exe().unwrap()), role, path)
    }

    /// As [`Other::start`], by a command line that ends in the test binary.
    pub(crate) fn start_as(mut command: Command, role: &str, path: &Path) -> Self {
        let command =
            command.args(["second_process", "--exact", "--nocapture"]).env(ROLE, role).env(PATH, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next thing it says; `None` once it has ended.
    pub(crate) fn heard(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A killed process may have been in the middle of a word.
            if let Some(said) = line.strip_prefix('>').and_then(|said| said.strip_suffix('\n')) {
                return Some(said.to_owned());
            }
        }
    }

    /// Lets it go on.
    pub(crate) fn nudge(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
