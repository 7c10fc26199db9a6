//! Other processes, as the suite sees them: started, told what to do, stopped, killed.

#![expect(clippy::disallowed_methods, reason = "cases about several processes have to start them")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;

use super::ground::{PATIENCE, Stop};
use super::worker::{ANSWER, WORKER, WORKING};

/// How this program is started once more, to be a worker.
#[derive(Clone, Debug)]
pub(super) struct Program {
    arguments: Vec<String>,
}

impl Program {
    /// A program whose `main` looks whether it is a worker.
    pub(super) fn itself() -> Self {
        Self { arguments: Vec::new() }
    }

    /// A program of tests, of which one looks whether it is a worker.
    pub(super) fn this_test(path: &str) -> Self {
        // The name of a test is its path without the crate.
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        let arguments = ["--exact", name, "--nocapture", "--test-threads=1"];
        Self { arguments: arguments.map(str::to_owned).to_vec() }
    }

    fn command(&self, through: &[&str]) -> Result<Command, Stop> {
        let program = std::env::current_exe()?;
        let mut command = match through {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.args(&self.arguments).env(WORKER, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }
}

/// Another process that obeys. Killed when dropped.
pub(super) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: mpsc::UnboundedReceiver<String>,
}

impl Worker {
    pub(super) fn start(program: &Program) -> Result<Self, Stop> {
        Self::spawn(program.command(&[])?)
    }

    /// A worker whose wall clock is off by this much.
    pub(super) fn start_with_clock(program: &Program, offset: &str) -> Result<Self, Stop> {
        let found = Command::new("faketime").arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(Stop::failed("this case needs the program faketime: apt-get install faketime"));
        }
        let mut command = program.command(&["faketime", "-m", "-f", offset])?;
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, Stop> {
        let mut child = command.spawn()?;
        let no_pipe = || Stop::failed("a worker was started without pipes");
        let orders = child.stdin.take().ok_or_else(no_pipe)?;
        let said = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
        let (sender, answers) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("conformance-worker".to_owned()).spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                // The test harness talks on the same line.
                let answer = line.split_once(ANSWER).map(|(_, answer)| answer.to_owned());
                if answer.is_some_and(|answer| sender.send(answer).is_err()) {
                    return;
                }
            }
        })?;
        Ok(Self { child, orders, answers })
    }

    /// Gives an order without waiting for the answer.
    pub(super) fn order(&mut self, order: &str) -> Result<(), Stop> {
        writeln!(self.orders, "{order}")?;
        Ok(self.orders.flush()?)
    }

    /// The next answer.
    pub(super) async fn answer(&mut self) -> Result<String, Stop> {
        loop {
            // Some orders take long; a worker that is stuck is told from one that works by its silence.
            match tokio::time::timeout(PATIENCE * 6, self.answers.recv()).await {
                Ok(Some(answer)) if answer == WORKING => {}
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => return Err(Stop::failed("a worker ended before it had answered")),
                Err(_) => return Err(Stop::failed("a worker did not answer")),
            }
        }
    }

    /// Gives an order whose answer must start with this word; gives the rest of it.
    pub(super) async fn answers(&mut self, order: &str, word: &str) -> Result<String, Stop> {
        self.order(order)?;
        self.must_say(word).await
    }

    /// The next answer, which must start with this word; gives the rest of it.
    pub(super) async fn must_say(&mut self, word: &str) -> Result<String, Stop> {
        let answer = self.answer().await?;
        let rest = answer.strip_prefix(word).map(|rest| rest.trim().to_owned());
        rest.ok_or_else(|| Stop::failed(format!("a worker should have said {word:?}, said {answer:?}")))
    }

    /// As `kill -9` does.
    pub(super) fn kill(&mut self) -> Result<(), Stop> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// As `kill -STOP` does: it does not even notice.
    pub(super) fn pause(&self) -> Result<(), Stop> {
        self.signal(Signal::STOP)
    }

    /// As `kill -CONT` does.
    pub(super) fn resume(&self) -> Result<(), Stop> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Stop> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| Stop::failed(format!("could not signal a worker: {error}")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Best effort: it may have ended, and it ends by itself when its orders end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
