//! A process that serves a test.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;

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
        let child = spawn(command).unwrap_or_else(|error| panic!("could not start setpriv: {error}"));
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

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Sends it a signal: STOP, CONT, KILL, TERM. After STOP it returns when the process stands still.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self::signal(self.child.id(), signal)
    }
}

/// Sends a process a signal. STOP takes effect thread by thread, and one that runs may answer a request meanwhile:
/// after it this returns when all of them stand still.
pub(crate) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    kill_process(Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?, signal)?;
    while signal == Signal::STOP && !stands_still(pid)? {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether every thread of it is stopped, or has ended.
fn stands_still(pid: u32) -> io::Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has ended meanwhile runs no more.
        let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if !matches!(state, None | Some('T' | 'Z' | 'X')) {
            return Ok(false);
        }
    }
    Ok(true)
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

/// Starts it from a thread that never ends. A process with `--pdeathsig` is killed when the *thread* that started
/// it ends, and each test is a thread: a server that tests share would go with the first of them.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                // Nobody listens: the child ends with its value.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = mpsc::channel();
    let ended = |_| io::Error::other("the thread that starts servers has ended");
    STARTER.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).map_err(|_| ended(()))?;
    answered.recv().map_err(|_| ended(()))?
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts the servers of tests")]
pub(crate) fn command(program: &str) -> Command {
    Command::new(program)
}

fn find(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists())
}
