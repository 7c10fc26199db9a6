//! Becoming a process that nobody's end ends: with nothing that the daemon was given, in a session of its own.
//!
//! It stays a child of the daemon, which hears of its end so; if the daemon ends first, it belongs to whoever takes in
//! orphans.

use std::io::{Read, Write};

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior, setsid, umask};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::stage;

/// Makes this process a supervisor.
pub(super) fn this_process() -> Result<()> {
    stage::keep_only_standard_streams();
    // A leader of a session can't lead another, which is as good.
    match setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(Error::io("leave the daemon's session", error)),
    }
    umask(Mode::from_raw_mode(0o077));
    set_child_subreaper(Some(getpid())).map_err(|error| Error::io("take in the agent's orphans", error))?;
    // An agent of the same user could otherwise read the supervisor's memory, or take it over.
    let closed = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    closed.map_err(|error| Error::io("protect the supervisor", error))?;
    std::env::set_current_dir("/").map_err(|error| Error::io("leave the daemon's folder", error))
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
