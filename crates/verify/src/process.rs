//! Other processes of this machine, as a run sees them: told what to do, paused, killed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bell_store::clock::boottime;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::orders::{ANSWER, Answer, Order};
use crate::verdict::Stop;

/// How long a stopped process may take to stand still. Only a failure takes this long.
const STILL_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What installs the library that gives a process another clock.
pub(crate) const INSTALL_FAKETIME: &str = "apt-get install faketime";

/// How this program is started once more, to call [`crate::work`].
#[derive(Clone)]
pub struct Program(Arc<dyn Fn() -> Command + Send + Sync>);

impl Program {
    /// The program that `command` starts.
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self(Arc::new(command))
    }
}

/// Another process that obeys. Killed when dropped.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    pid: Pid,
}

impl Worker {
    /// Starts one.
    pub(crate) fn start(program: &Program) -> Result<Self, Stop> {
        Self::spawn((program.0)())
    }

    /// Starts one whose wall clock is off by this much, as in `+1h`.
    pub(crate) fn start_with_clock(program: &Program, offset: &str) -> Result<Self, Stop> {
        let Some(library) = faketime() else {
            return Err(Stop::not_applicable(format!(
                "a process with a wrong clock needs libfaketime: {INSTALL_FAKETIME}"
            )));
        };
        let mut command = (program.0)();
        command.env("LD_PRELOAD", library).env("FAKETIME", offset);
        // Only the wall clock is wrong, and what is stored on the disk is left alone.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, Stop> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        match (child.stdin.take(), child.stdout.take(), pid) {
            (Some(orders), Some(answers), Some(pid)) => {
                Ok(Self { child, orders, answers: BufReader::new(answers).lines(), pid })
            }
            _ => Err(io::Error::other("a process was started without pipes").into()),
        }
    }

    /// Gives an order without waiting for the answer.
    pub(crate) async fn order(&mut self, order: &Order) -> Result<(), Stop> {
        let line = serde_json::to_string(order).map_err(io::Error::from)?;
        Ok(self.orders.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// The answer to the oldest order that has none yet.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Stop> {
        while let Some(line) = self.answers.next_line().await? {
            // A test harness talks on the same line.
            let Some((_, text)) = line.split_once(ANSWER) else { continue };
            return match serde_json::from_str(text).map_err(io::Error::from)? {
                Answer::Failed(why) => Err(Stop::failed(why)),
                Answer::Unavailable(why) => Err(Stop::unavailable(why)),
                Answer::NotRun(why) => Err(Stop::not_run(why)),
                answer => Ok(answer),
            };
        }
        Err(Stop::not_run("another process of this run ended before it had answered"))
    }

    /// Gives an order and waits for the answer.
    pub(crate) async fn ask(&mut self, order: &Order) -> Result<Answer, Stop> {
        self.order(order).await?;
        self.answer().await
    }

    /// As `kill -9` does; returns when it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Stop> {
        Ok(self.child.kill().await?)
    }

    /// As `kill -STOP` does; returns when it stands still.
    pub(crate) async fn pause(&self) -> Result<(), Stop> {
        self.signal(Signal::STOP)?;
        let give_up = boottime() + STILL_WITHIN;
        while !self.stands_still() {
            if boottime() > give_up {
                return Err(Stop::not_run("a process that was sent SIGSTOP did not stop"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// As `kill -CONT` does.
    pub(crate) fn resume(&self) -> Result<(), Stop> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Stop> {
        Ok(kill_process(self.pid, signal).map_err(io::Error::from)?)
    }

    fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        // The state stands behind the name, which may hold anything.
        stat.unwrap_or_default().rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'))
    }
}

/// An answer of this kind; any other means that this program talks past itself.
macro_rules! expect_answer {
    ($answer:expr, $pattern:pat => $found:expr) => {
        match $answer {
            $pattern => $found,
            other => {
                return Err($crate::verdict::Stop::not_run(format!("a process answered {other:?}")));
            }
        }
    };
}
pub(crate) use expect_answer;

/// Where Debian and others put the library.
fn faketime() -> Option<PathBuf> {
    let below = |folder: &Path| folder.join("faketime/libfaketimeMT.so.1");
    let of_machine = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = ["/usr/local/lib", "/usr/lib", "/usr/lib64"].map(PathBuf::from).into_iter();
    folders.chain(of_machine).map(|folder| below(&folder)).find(|library| library.is_file())
}
