//! Becoming a process that nobody's end ends: twice started, in a session of its own.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior, setsid, umask};
use serde::{Deserialize, Serialize};

use crate::command::{SUPERVISE, this_program};
use crate::error::{Error, Kind, Result};
use crate::stage;

/// Set for the second of the two processes.
const DETACHED: &str = "BELL_SUPERVISOR";

/// What this process has to do.
pub(super) enum Step {
    /// End: the supervisor is another process now.
    Leave,
    /// Supervise.
    Stay,
}

/// Makes this process a supervisor, or starts the one that will be.
pub(super) fn this_process(run_dir: &Path) -> Result<Step> {
    let is_second = std::env::var_os(DETACHED).is_some();
    let failed = |error: rustix::io::Errno| Error::io("leave the daemon's session", error);
    // A leader of a session can't lead another, which is as good.
    match setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(failed(error)),
    }
    if !is_second {
        stage::keep_only_standard_streams();
        let mut second = this_program();
        second.arg(SUPERVISE).arg(run_dir).envs(std::env::vars_os()).env(DETACHED, "1");
        // Nobody waits for the second: it belongs to whoever takes in orphans.
        let started = second.stdout(Stdio::inherit()).spawn();
        return started.map(|_| Step::Leave).map_err(|error| Error::io("start a supervisor", error));
    }
    umask(Mode::from_raw_mode(0o077));
    set_child_subreaper(Some(getpid())).map_err(|error| Error::io("take in the agent's orphans", error))?;
    // An agent of the same user could otherwise read the supervisor's memory, or take it over.
    let closed = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    closed.map_err(|error| Error::io("protect the supervisor", error))?;
    std::env::set_current_dir("/").map_err(|error| Error::io("leave the daemon's folder", error))?;
    Ok(Step::Stay)
}

/// The one thing that a supervisor says to whoever started it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The agent runs.
    Started,
    /// It never will.
    Failed(Error),
}

impl Report {
    /// Says it and hangs up. Whoever asked may be gone; then nobody misses it.
    pub(crate) fn tell(&self) {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        let _ = std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush());
        if let Ok(nowhere) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(nowhere);
        }
    }

    /// What was said before the line went dead; `None` if nothing was.
    pub(crate) fn heard(mut from: impl Read) -> Result<Option<Self>> {
        let mut text = Vec::new();
        from.read_to_end(&mut text).map_err(|error| Error::io("hear from a supervisor", error))?;
        if text.is_empty() {
            return Ok(None);
        }
        let said = serde_json::from_slice(&text);
        said.map(Some).map_err(|error| {
            let message = format!("understand a supervisor: {error}");
            Error::new(Kind::Unavailable, message).hint("Look whether the program is Bellwether itself.")
        })
    }
}
