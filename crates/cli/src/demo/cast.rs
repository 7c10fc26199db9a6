//! A process of the story, as the demonstration sees it.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::role::Order;
use crate::run::start::this_program;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process that follows orders. Dropped, it is killed.
pub(super) struct Actor {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    pub(super) pid: u32,
}

impl Actor {
    /// Starts a process on the store at `url`.
    pub(super) fn enter(name: &str, url: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("could not start a process: {error}");
        let mut program = this_program(&["--store", url, "__actor", "--name", name]);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = tokio::process::Command::from(program);
        let mut child = program.kill_on_drop(true).spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take(), child.id()) {
            (Some(orders), Some(answers), Some(pid)) => {
                Ok(Self { child, orders, answers: BufReader::new(answers).lines(), pid })
            }
            _ => Err(failed(io::Error::other("it has no pipes"))),
        }
    }

    /// Gives an order, without waiting for the answer.
    pub(super) async fn order(&mut self, order: &Order) -> Result<(), String> {
        let line = serde_json::to_string(order).map_err(|error| error.to_string())?;
        let sent = self.orders.write_all(format!("{line}\n").as_bytes()).await;
        sent.map_err(|error| format!("process {} can't be told anything: {error}", self.pid))
    }

    /// The answer to the oldest order that has none yet.
    pub(super) async fn answer(&mut self) -> Result<LockAnswer, String> {
        let line = self.answers.next_line().await.ok().flatten();
        let answer = line.and_then(|line| serde_json::from_str(&line).ok());
        answer.ok_or_else(|| format!("process {} did not answer", self.pid))
    }

    /// Gives an order whose answer must be `expected`.
    pub(super) async fn must(&mut self, order: &Order, expected: Outcome) -> Result<LockAnswer, String> {
        self.order(order).await?;
        self.must_answer(expected).await
    }

    /// The answer to the oldest order, which must be `expected`.
    pub(super) async fn must_answer(&mut self, expected: Outcome) -> Result<LockAnswer, String> {
        let answer = self.answer().await?;
        if answer.outcome == expected {
            return Ok(answer);
        }
        let message = answer.message.unwrap_or_default();
        Err(format!(
            "process {} should have been told {expected}, not {}: {message}",
            self.pid, answer.outcome
        ))
    }

    /// Kills it, as a crash would.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        self.child.start_kill().map_err(|error| format!("could not kill process {}: {error}", self.pid))
    }

    /// Pauses it, and returns when it stands still.
    pub(super) async fn pause(&self) -> Result<(), String> {
        self.signal(Signal::STOP)?;
        while !self.is_stopped() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> Result<(), String> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = Pid::from_raw(self.pid.cast_signed()).ok_or("a process has no id")?;
        kill_process(pid, signal).map_err(|error| format!("could not signal process {}: {error}", self.pid))
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state stands behind the name, which may hold anything.
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'))
    }
}
