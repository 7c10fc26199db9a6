//! Which means of isolation this machine has for this user: each is tried, on a process that becomes nothing.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Isolation, Means, View, Views};
use crate::command::{EXEC, this_program};
use crate::env::Environment;
use crate::launch::{Limits, Privileges};
use crate::stage::{ABOUT_TO_EXEC, Input, Stage};

/// A few system calls; a machine that needs longer is out of order.
const LIMIT: Duration = Duration::from_secs(10);

/// A folder that every machine has.
const COVERED: &str = "/etc";

/// What was found. That nothing was is asked again: a process may have failed to start.
static FOUND: OnceLock<Means> = OnceLock::new();

/// The strongest means that works here, if any does. The first time it starts up to three short processes of this program.
pub fn probe() -> Option<Means> {
    FOUND.get().copied().or_else(|| {
        let found = Means::ALL.into_iter().find(|means| works(*means).unwrap_or(false))?;
        Some(*FOUND.get_or_init(|| found))
    })
}

/// The process says that it is about to run its program when all has worked. The program is a folder, so nothing runs.
fn works(means: Means) -> Option<bool> {
    let (mut ours, theirs) = UnixStream::pair().ok()?;
    ours.set_read_timeout(Some(LIMIT)).ok()?;
    let mut child = this_program().arg(EXEC).stdin(OwnedFd::from(theirs)).spawn().ok()?;
    let mut answer = Vec::new();
    let asked = stage(means).to_text().ok().and_then(|text| ours.write_all(&text).ok());
    if asked.and_then(|()| ours.shutdown(Shutdown::Write).ok()).is_some() {
        let _ = ours.read_to_end(&mut answer);
    }
    let _ = child.kill();
    child.wait().ok()?;
    Some(answer.starts_with(ABOUT_TO_EXEC))
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
    }
}
