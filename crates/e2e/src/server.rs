//! A process that serves a test.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running server. Dropped, it is killed and waited for, and its folder is removed.
pub struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts `program` from Debian's `package` with a new folder, which `arguments` are made for. Its output
    /// goes to `log` in that folder.
    ///
    /// # Panics
    /// If it can't be started: with the command that installs it.
    pub fn start(program: &Path, package: &str, arguments: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = std::fs::File::create(folder.path().join("log")).expect("a log file");
        // The kernel ends it if the test's process dies before it can.
        let mut command = command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments(folder.path()));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log file")).stderr(log);
        assert!(
            program.is_absolute() && program.exists() || find(program).is_some(),
            "{} is not installed: apt-get install {package}",
            program.display()
        );
        let child = command.spawn().unwrap_or_else(|error| panic!("could not start setpriv: {error}"));
        Self { child, folder }
    }

    /// The server's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has printed, for the message of a failed test.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Sends it a signal: STOP, CONT, KILL, TERM.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is just as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine that nobody listens on. Somebody else may take it before it is used: a server
/// that finds it taken ends at once, and the caller starts another.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts the servers of tests")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn find(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists())
}
