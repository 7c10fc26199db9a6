//! Another process of this program, from the outside: started, told what to do, paused, killed.
//!
//! Orders and answers are JSON, a line each, over its standard input and output.

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// What answers start with, so that they are told from whatever else is printed.
const ANSWER: &str = "bell-actor: ";

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a process may take to end by itself.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// A process that follows orders. Dropped, it is killed.
pub struct Actor {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    pid: u32,
}

impl Actor {
    /// Starts a process that calls [`follow_orders`].
    ///
    /// # Errors
    /// If it can't be started.
    pub fn enter(mut program: Command) -> io::Result<Self> {
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(program).kill_on_drop(true).spawn()?;
        match (child.stdin.take(), child.stdout.take(), child.id()) {
            (Some(orders), Some(answers), Some(pid)) => {
                Ok(Self { child, orders, answers: BufReader::new(answers).lines(), pid })
            }
            _ => Err(io::Error::other("a process was started without pipes")),
        }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Gives an order, without waiting for the answer.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn order(&mut self, order: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(order)?;
        self.orders.write_all(format!("{line}\n").as_bytes()).await
    }

    /// The answer to the oldest order that has none yet.
    ///
    /// # Errors
    /// If it has ended, or answers something else.
    pub async fn answer<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        while let Some(line) = self.answers.next_line().await? {
            // A test harness talks on the same line.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return Ok(serde_json::from_str(answer)?);
            }
        }
        Err(io::Error::other(format!("process {} ended before it had answered", self.pid)))
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// If it has ended.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.start_kill()
    }

    /// Pauses it, and returns when it stands still.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        while !self.stands_still() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Has no more orders for it, and waits until it has ended; one that does not end is killed.
    pub async fn leave(mut self) {
        drop(self.orders);
        let _ = tokio::time::timeout(LEAVE_WITHIN, self.child.wait()).await;
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }

    /// Also true of one that is gone, which will never move again.
    fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state stands behind the name, which may hold anything.
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['T', 'Z']))
    }
}

/// Such a process, from the inside: does what it is told until there are no more orders. It dies with whoever
/// started it, also while it is paused.
///
/// # Errors
/// If the kernel does not bind it to its parent.
pub async fn follow_orders<O: DeserializeOwned, A: Serialize>(
    mut follow: impl AsyncFnMut(O) -> A,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for line in io::stdin().lock().lines() {
        let Ok(order) = serde_json::from_str(&line?) else { break };
        let answer = serde_json::to_string(&follow(order).await)?;
        let mut out = io::stdout().lock();
        // Who gave the orders is gone if it can't be told, and they will end too.
        if writeln!(out, "{ANSWER}{answer}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}
