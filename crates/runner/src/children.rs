//! The children of a supervisor: who has ended, and whether anybody is left.
//!
//! All of them are waited for here and nowhere else, orphans that the kernel hands over included.

use std::collections::HashMap;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::{Error, Result};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The children of this process.
#[derive(Debug)]
pub(crate) struct Children {
    signal: unix::Signal,
    /// Those whose end somebody will ask for.
    watched: HashMap<Pid, Option<Ended>>,
}

/// What is left after a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    Nobody,
    Somebody,
}

impl Children {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        let signal = signal(SignalKind::child());
        let signal = signal.map_err(|error| Error::io("listen for the ends of processes", error))?;
        Ok(Self { signal, watched: HashMap::new() })
    }

    /// Keeps the end of this child until it is asked for. To be called before the next await after its start.
    pub(crate) fn watch(&mut self, pid: Pid) {
        self.watched.insert(pid, None);
    }

    /// Returns when a child that is watched has ended. Dropped half-way, it may be asked for again.
    pub(crate) async fn end_of(&mut self, pid: Pid) -> Ended {
        loop {
            self.look();
            if let Some(Some(ended)) = self.watched.get(&pid) {
                return *ended;
            }
            self.signal.recv().await;
        }
    }

    /// Returns when this process has no child, and so nobody below it lives. Dropped half-way, it may be
    /// asked for again.
    pub(crate) async fn none_left(&mut self) {
        while self.look() == Left::Somebody {
            self.signal.recv().await;
        }
    }

    /// Whether nobody below this process lives.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.look() == Left::Nobody
    }

    fn look(&mut self) -> Left {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let ended = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ended::Code(code),
                        (None, Some(signal)) => Ended::Signal(signal),
                        (None, None) => continue,
                    };
                    if let Some(kept) = self.watched.get_mut(&pid) {
                        *kept = Some(ended);
                    }
                }
                Ok(None) => return Left::Somebody,
                Err(Errno::INTR) => {}
                // Without children there is nothing to wait for, which is the kernel's own word for an empty tree.
                Err(_) => return Left::Nobody,
            }
        }
    }
}
