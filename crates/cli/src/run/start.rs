//! Starting processes: the only place that does.
//!
//! A command is started in two steps. First this program itself, under its hidden name: it asks the kernel
//! for a signal when its parent dies, which only a process can ask for itself. Then it becomes the command.
//! Everything that this program has open is closed on the way, so no command keeps a lock or a store open.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::cli::BecomeArgs;
use crate::say::clean;

/// What shells exit with if a command is not there, or can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// This program again, with these arguments: the very file that runs, whatever is at its path by now.
pub(crate) fn this_program(arguments: &[&str]) -> Command {
    let mut command = command("/proc/self/exe".into());
    command.arg0("bell").args(arguments);
    command
}

/// `command`, to be ended when this process dies.
pub(crate) fn bound_to_this_process(command: &[OsString]) -> Command {
    let parent = std::process::id().to_string();
    let mut bound = this_program(&["__become", "--parent", &parent, "--"]);
    bound.args(command);
    bound
}

/// Becomes the command. Returns only if that fails, with the exit code.
pub(crate) fn become_command(args: &BecomeArgs) -> u8 {
    let Some((program, arguments)) = args.command.split_first() else { return NOT_FOUND };
    if let Err(error) = end_with_parent(args.parent) {
        tell(&format!("bell: could not bind the command to its supervisor: {error}"));
        return NOT_RUNNABLE;
    }
    let error = command(program.clone()).args(arguments).exec();
    tell(&format!("bell: could not run {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}

/// From now on this process gets TERM when its parent dies, the next program included.
fn end_with_parent(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have died before the kernel knew.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) { Ok(()) } else { Err(io::Error::other("it is gone")) }
}

fn tell(line: &str) {
    // Nobody is left to be told that stderr is closed.
    let _ = writeln!(io::stderr(), "{}", clean(line));
}

/// git, in this folder, whatever repository a hook around this process is about.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut git = command("git".into());
    git.current_dir(folder).args(["-c", "core.fsmonitor=false"]).args(arguments).stdin(Stdio::null());
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    git
}

fn command(program: OsString) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is the module that starts processes")]
    Command::new(program)
}
