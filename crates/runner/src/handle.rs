//! A run that is under way, as the daemon or a command sees it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::adopt;
use crate::error::{Error, Kind, Result};
use crate::exit::Exit;
use crate::readiness::readable;
use crate::run_dir::RunDir;
use crate::state::State;
use crate::supervise::KillRequest;

/// With how much patience a run is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// TERM first, and KILL after the run's grace.
    Gently,
    /// KILL.
    AtOnce,
}

/// A living supervisor, proved to be the one of its run. Dropping it changes nothing for the run.
#[derive(Debug)]
pub struct SupervisorHandle {
    dir: RunDir,
    state: State,
    /// `None` if it was over before anybody could look.
    process: Option<OwnedFd>,
}

impl SupervisorHandle {
    pub(crate) fn new(dir: RunDir, state: State, process: Option<OwnedFd>) -> Self {
        Self { dir, state, process }
    }

    /// The run.
    pub fn run(&self) -> &str {
        &self.state.run
    }

    /// Its directory.
    pub fn run_dir(&self) -> &Path {
        self.dir.root()
    }

    /// The supervisor's process.
    pub fn pid(&self) -> i32 {
        self.state.supervisor.pid
    }

    /// The agent's main process, and when it started in milliseconds since 1970; `None` before it has.
    pub fn agent(&self) -> Option<(i32, u64)> {
        let now = self.dir.state().ok().flatten();
        let state = now.as_ref().unwrap_or(&self.state);
        Some((state.agent?.pid, state.started_ms?))
    }

    /// Returns when the run is over and its supervisor is gone.
    ///
    /// If the supervisor was killed, what it left behind is ended first, and the run is lost. Dropped
    /// half-way, it may be asked for again.
    pub async fn wait(&self) -> Result<Exit> {
        let failed = |error: std::io::Error| Error::io(format!("wait for {}", self.state.run), error);
        if let Some(process) = &self.process {
            let process = process.try_clone().map_err(failed)?;
            let process = readable(process).map_err(failed)?;
            // The handle of a process can be read when the process is over.
            process.readable().await.map_err(failed)?.retain_ready();
        }
        adopt::conclude(&self.dir, "its supervisor died").await
    }

    /// Asks for the run's end. Returns at once; [`SupervisorHandle::wait`] tells when it is over.
    pub fn kill(&self, why: &str, how: How) -> Result<()> {
        if self.state.supervisor.is_alive() {
            self.dir.set_kill_request(&KillRequest { why: why.to_owned(), how })?;
        }
        self.signal(Signal::USR1)
    }

    /// Tells the supervisor to stop: the run ends as interrupted.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // A process that nobody has waited for yet takes signals, but does nothing about them.
        let alive = self.process.as_ref().filter(|_| self.state.supervisor.is_alive());
        let sent = alive.map_or(Err(Errno::SRCH), |process| pidfd_send_signal(process, signal));
        sent.map_err(|error| {
            let message = format!("reach the supervisor of {}: {error}", self.state.run);
            Error::new(Kind::Gone, message).hint("Look how the run ended: it is probably over.")
        })
    }
}
