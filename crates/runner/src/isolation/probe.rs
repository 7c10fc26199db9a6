//! Which means of isolation this machine has for this user: each is tried, on a process that becomes nothing.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Isolation, Means, View, Views};
use crate::command::{EXEC, this_program};
use crate::env::Environment;
use crate::error::{Error, Result};
use crate::launch::{Limits, Privileges};
use crate::stage::{ABOUT_TO_EXEC, Input, Stage};

/// A few system calls; a machine that needs longer is out of order.
const LIMIT: Duration = Duration::from_secs(10);

/// A folder that every machine has.
const COVERED: &str = "/etc";

/// What was found. A failure is not kept: a process may have failed to start.
static FOUND: OnceLock<Means> = OnceLock::new();

/// The strongest means that works here, if any does. The first time it starts up to three short processes of this program.
///
/// # Errors
/// If the machine lacks what a process needs at this moment: a weaker means is not taken for that.
pub fn probe() -> Result<Option<Means>> {
    if let Some(found) = FOUND.get() {
        return Ok(Some(*found));
    }
    for means in Means::ALL {
        if works(means)? {
            return Ok(Some(*FOUND.get_or_init(|| means)));
        }
    }
    Ok(None)
}

/// The process says that it is about to run its program when all has worked. The program is a folder, so nothing runs.
fn works(means: Means) -> Result<bool> {
    let failed = |error: io::Error| Error::io("find out how runs can be isolated", error).of_machine();
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    ours.set_read_timeout(Some(LIMIT)).map_err(failed)?;
    let mut child = this_program().arg(EXEC).stdin(OwnedFd::from(theirs)).spawn().map_err(failed)?;
    let mut answer = Vec::new();
    let asked = ours.write_all(&stage(means).to_text()?).and_then(|()| ours.shutdown(Shutdown::Write));
    let heard = asked.and_then(|()| ours.read_to_end(&mut answer));
    let _ = child.kill();
    child.wait().and(heard).map_err(failed)?;
    if answer.starts_with(ABOUT_TO_EXEC) {
        return Ok(true);
    }
    match serde_json::from_slice::<Error>(&answer) {
        Ok(error) if !error.kind().is_transient() => Ok(false),
        Ok(error) => Err(error),
        Err(_) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn stage(means: Means) -> Stage {
    let views: Views = [(COVERED.into(), View::Hidden)].into_iter().collect();
    Stage {
        supervisor: std::process::id(),
        argv: vec!["/".to_owned()],
        cwd: "/".into(),
        env: Environment::empty(),
        stdin: Input::Null,
        limits: Limits::default(),
        user: None,
        privileges: Privileges::None,
        landlock: None,
        isolation: Some(Isolation { means, views }),
        shared: Vec::new(),
    }
}
