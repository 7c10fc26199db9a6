//! What a supervisor says about itself, so that whoever comes later can tell it from a stranger.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::Identity;

/// The content of `state.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// The run.
    pub(crate) run: String,
    /// The nonce of its launch.
    pub(crate) nonce: String,
    /// Which boot of the machine the processes belong to.
    pub(crate) boot_id: String,
    /// The supervisor.
    pub(crate) supervisor: Identity,
    /// The agent's main process, once it runs. It leads a session.
    pub(crate) agent: Option<Identity>,
    /// When the agent started, in milliseconds since 1970.
    pub(crate) started_ms: Option<u64>,
    /// The run's cgroup, if it has one.
    pub(crate) cgroup: Option<PathBuf>,
}

impl State {
    /// A handle on the supervisor, if it is alive; otherwise why it is not.
    pub(crate) fn open(&self, nonce: &str, boot_id: &str) -> Result<OwnedFd, String> {
        if self.nonce != nonce {
            return Err("its state belongs to another start".to_owned());
        }
        if self.boot_id != boot_id {
            return Err("the machine was started again".to_owned());
        }
        self.supervisor.open().ok_or_else(|| "its supervisor died".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::this;

    fn state() -> State {
        State {
            run: "run-1".into(),
            nonce: "n".into(),
            boot_id: "b".into(),
            supervisor: this().unwrap(),
            agent: None,
            started_ms: None,
            cgroup: None,
        }
    }

    #[test]
    fn a_supervisor_is_alive_only_if_everything_agrees() {
        assert!(state().open("n", "b").is_ok());
        assert!(state().open("other", "b").unwrap_err().contains("another start"));
        assert!(state().open("n", "other").unwrap_err().contains("started again"));
        let mut reused = state();
        reused.supervisor.start_ticks += 1;
        assert!(reused.open("n", "b").unwrap_err().contains("died"));
    }
}
