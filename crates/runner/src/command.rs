//! Starting processes: the only place of this crate that does.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The hidden name under which this program supervises a run.
pub(crate) const SUPERVISE: &str = "__supervise";
/// The hidden name under which this program becomes an agent.
pub(crate) const EXEC: &str = "__exec";
/// The hidden name under which this program is a supervisor's [delegate](crate::delegate).
pub(crate) const DELEGATE: &str = "__delegate";
/// What this program calls itself when it starts itself again.
pub(crate) const NAME: &str = "bell";

/// This program again: the very file that runs, whatever is at its path by now.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// A program with nothing to read, nobody to write to, and an empty environment.
pub(crate) fn quiet(program: impl AsRef<OsStr>) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is the module that starts processes")]
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// [`THIS_PROGRAM`], under its usual name.
pub(crate) fn this_program() -> Command {
    let mut command = quiet(THIS_PROGRAM);
    command.arg0(NAME);
    command
}
