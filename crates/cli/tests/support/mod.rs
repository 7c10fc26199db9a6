//! A place of its own for each test: a store, a home, and the real binary.

#![expect(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for a machine under any load: only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test's own surroundings may have set.
const OF_OTHERS: [&str; 9] = [
    "BELL_STORE",
    "BELL_PROJECT",
    "BELL_GATEWAY",
    "BELL_SESSION",
    "BELL_LOCK_FENCE",
    "BELL_LOG",
    "USER",
    "SUDO_UID",
    "XDG_CONFIG_HOME",
];

/// A store and a home.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::with(|folder| format!("sqlite:{}", folder.join("bell.db").display()))
    }

    pub(crate) fn folder() -> Self {
        Self::with(|folder| format!("file:{}", folder.join("store").display()))
    }

    /// One of each kind that processes can share.
    pub(crate) fn each() -> [Self; 2] {
        [Self::sqlite(), Self::folder()]
    }

    fn with(url: impl Fn(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        Self { folder, url }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command on this store, with nothing of the surroundings in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command();
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("state"));
        command.env("BELL_STORE", &self.url).current_dir(self.folder.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[&["--json"], arguments].concat());
        ran.json()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        start(self.command(arguments))
    }

    pub(crate) fn show(&self, key: &str) -> Value {
        self.json(&["lock", "show", key])
    }

    pub(crate) fn is_free(&self, key: &str) -> bool {
        self.show(key)["outcome"] == "free"
    }

    pub(crate) fn until_waiting(&self, key: &str, count: u64) {
        eventually(&format!("{count} wait for {key}"), || self.show(key)["waiting"] == count);
    }

    pub(crate) fn until_file(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(name, || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        std::fs::read_to_string(path).unwrap()
    }
}

/// The binary, without anything that would change what it does.
pub(crate) fn bare_command() -> Command {
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_bell"));
    for name in OF_OTHERS {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The one object on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

pub(crate) fn finish(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: code(output.status), out: text(output.stdout), err: text(output.stderr) }
}

/// As above, with something on stdin.
pub(crate) fn finish_with(mut command: Command, input: &str) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: code(output.status), out: text(output.stdout), err: text(output.stderr) }
}

/// A command that runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    /// What it writes to stderr, read as it comes: a daemon whose log fills the pipe would stand still.
    complaints: Option<JoinHandle<String>>,
}

pub(crate) fn start(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let complaints = spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    Running { child, complaints: Some(complaints) }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Pauses it, and returns when it stands still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        eventually("it stands still", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    }

    /// Kills it, and returns when the kernel has let go of everything it had.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its end. What it said is read to the end too, so whatever it started must have closed its streams.
    pub(crate) fn end(mut self) -> Ran {
        eventually("the command ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        Ran { code: code(status), out, err: self.complaints.take().unwrap().join().unwrap() }
    }

    /// The next line on stdout.
    pub(crate) fn line(&mut self) -> String {
        let out = self.child.stdout.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        let patience = rustix::event::Timespec::try_from(PATIENCE).unwrap();
        loop {
            let mut wanted = [rustix::event::PollFd::new(out, rustix::event::PollFlags::IN)];
            let said = rustix::event::poll(&mut wanted, Some(&patience)).unwrap();
            assert!(said > 0, "gave up waiting for a line after {:?}", String::from_utf8_lossy(&line));
            if out.read(&mut byte).unwrap() == 0 || byte[0] == b'\n' {
                break;
            }
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Waits for something that must come to be.
pub(crate) fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    eventually_or_show(what, is_so, String::new);
}

/// As above. `show` says how things are if it does not.
pub(crate) fn eventually_or_show(what: &str, mut is_so: impl FnMut() -> bool, show: impl FnOnce() -> String) {
    let began = bell_store::clock::boottime();
    while !is_so() {
        if bell_store::clock::boottime() - began >= PATIENCE {
            panic!("gave up waiting until {what}\n{}", show());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
