//! A command that has started: signals to it, its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::time::Duration;

use bell_core::key::Key;
use bell_locks::Held;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::start;
use crate::answer::Refusal;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command and the processes it started.
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    group: Group,
}

/// Whom a signal reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// The command has a process group of its own: signals reach whatever it started.
    Own,
    /// It shares the group of this process, since it talks to a terminal: only the foreground group may.
    /// The terminal's own signals reach both.
    Shared,
}

impl Group {
    /// For a command that is started here.
    pub(super) fn choose() -> Self {
        if io::stdin().is_terminal() { Self::Shared } else { Self::Own }
    }
}

impl Child {
    /// Starts the command with the fences in its environment.
    pub(super) fn start(
        command: &[OsString],
        group: Group,
        first: &Key,
        held: &[Held],
    ) -> Result<Self, Refusal> {
        let mut bound = start::bound_to_this_process(command);
        let fences: BTreeMap<&str, u64> = held.iter().map(|h| (h.key().as_str(), h.fence().0)).collect();
        let fence = fences.get(first.as_str()).copied().unwrap_or_default();
        bound.env("BELL_LOCK_KEY", first.as_str()).env("BELL_LOCK_FENCE", fence.to_string());
        bound.env("BELL_LOCK_FENCES", serde_json::json!(fences).to_string());
        // A command inside the command is a session of its own, not whoever asked for this one.
        bound.env_remove("BELL_SESSION");
        if group == Group::Own {
            bound.process_group(0);
        }
        let process = tokio::process::Command::from(bound).spawn().map_err(|error| not_started(&error))?;
        let pid = process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| not_started(&io::Error::other("it has no process id")))?;
        Ok(Self { process, pid, group })
    }

    /// Its end. Dropped half-way, it may be asked for again.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Sends a signal. One that finds nobody is not missed.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = match self.group {
            Group::Own => kill_process_group(self.pid, signal),
            // Its number is its own until its end was taken note of.
            Group::Shared if self.process.id().is_some() => kill_process(self.pid, signal),
            Group::Shared => Ok(()),
        };
    }

    /// Returns when nobody of its group is left.
    pub(super) async fn group_end(&self) {
        while self.group == Group::Own && test_kill_process_group(self.pid).is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The exit code by which shells pass on how a command ended.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn not_started(error: &io::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not start a process: {error}"),
        "Look at the limits of this user (ulimit -u) and the memory of the machine.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_shows_in_the_exit_code() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
