//! The step between the supervisor and the agent: a process that makes itself small, then becomes the agent.
//!
//! Limits, user, capabilities and landlock can be set safely only by a process for itself. So the supervisor
//! starts this program again under a hidden name; it reads what to become from its standard input,
//! which is a socket, prepares itself, and executes the agent. If anything fails it says so on that socket,
//! and nothing of the agent has run. The socket closes by itself when the agent takes over.

mod limits;
mod mounts;
mod privileges;
mod sandbox;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use landlock::RulesetCreated;
use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid, umask};
use serde::{Deserialize, Serialize};

use crate::command::quiet;
use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::isolation::{Isolation, Means};
use crate::launch::{Landlock, Limits, Privileges};
use crate::user::User;

/// What shells exit with if a command can't be run.
const NOT_RUNNABLE: u8 = 126;

/// Agents are the first to go when the machine runs out of memory, before any supervisor.
const OOM_SCORE: &str = "500";

/// Said right before the agent takes over. Whatever follows it is an error, which reads past white space.
pub(crate) const ABOUT_TO_EXEC: &[u8] = b"\n";

/// What to become, and how.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    /// The process that must be the parent.
    pub(crate) supervisor: u32,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Environment,
    pub(crate) stdin: Input,
    pub(crate) limits: Limits,
    pub(crate) user: Option<User>,
    pub(crate) privileges: Privileges,
    pub(crate) landlock: Option<Landlock>,
    pub(crate) isolation: Option<Isolation>,
    /// Folders of the supervisor's in which a [delegate](crate::delegate) lets it remove everything in the end.
    pub(crate) shared: Vec<PathBuf>,
}

/// Whether agents can be held to [`Landlock`] rules here. The kernel itself is asked, as it is for each of them: the list of
/// its security modules is a file that many machines, containers among them, do not show.
pub fn has_landlock() -> bool {
    sandbox::is_supported()
}

/// What the next program reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Input {
    /// Nothing.
    Null,
    /// A file that the agent's user may read.
    Theirs(PathBuf),
    /// This text.
    Text(String),
}

/// Becomes what standard input says. Returns only if that fails.
///
/// To be called before this process starts a second thread: user and capabilities belong to threads.
pub fn main() -> ExitCode {
    close_inherited();
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return NOT_RUNNABLE.into() };
    let error = match become_next(&socket) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    // Without a supervisor nobody is left to be told.
    let _ = serde_json::to_writer(File::from(socket), &error);
    NOT_RUNNABLE.into()
}

enum Never {}

fn become_next(socket: &OwnedFd) -> Result<Never> {
    let stage = read_stage(socket)?;
    end_with(stage.supervisor)?;
    setsid().map_err(|error| Error::io("lead a session", error))?;
    // Some machines don't let anybody raise it; nothing depends on it.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    umask(Mode::from_raw_mode(0o022));
    limits::apply(&stage.limits)?;
    let rules = isolate(&stage)?;
    privileges::drop_all(stage.privileges)?;
    // The kernel forgets it when the user changes.
    end_with(stage.supervisor)?;
    enter(&stage.cwd)?;
    let input = match &stage.stdin {
        Input::Theirs(path) => Stdio::from(open_input(path)?),
        Input::Text(text) => Stdio::from(text_input(text)?),
        Input::Null => Stdio::null(),
    };
    if let Some(rules) = rules {
        sandbox::enforce(rules)?;
    }
    execute(&stage, input, socket)
}

/// Gives this process its view of the machine and its user. Answers the rules that are to hold from the end on.
///
/// Mounts that root makes are made before it changes its user, those in a user namespace after, since that maps no user but
/// the one that made it. Landlock comes last: it forbids mounts.
fn isolate(stage: &Stage) -> Result<Option<RulesetCreated>> {
    let (landlock, user) = (stage.landlock.as_ref(), stage.user.as_ref());
    let Some(Isolation { means, views }) = &stage.isolation else {
        let rules = landlock.map(sandbox::prepare).transpose()?;
        privileges::switch(stage.privileges, user)?;
        return Ok(rules);
    };
    match means {
        Means::Mounts => {
            mounts::enter()?;
            mounts::make(views)?;
            let rules = landlock.map_or_else(sandbox::apart, sandbox::prepare)?;
            privileges::switch(stage.privileges, user)?;
            Ok(Some(rules))
        }
        Means::UserMounts => {
            privileges::switch(stage.privileges, user)?;
            mounts::enter_with_user()?;
            mounts::make(views)?;
            match landlock {
                Some(landlock) => sandbox::prepare(landlock).map(Some),
                // Its user namespace keeps it apart from others. Where the kernel can it is kept from signalling them too.
                None => Ok(sandbox::apart().ok()),
            }
        }
        Means::Landlock => {
            let rules = sandbox::prepare_around(views, landlock)?;
            privileges::switch(stage.privileges, user)?;
            Ok(Some(rules))
        }
    }
}

/// From now on this process is killed when the supervisor dies, the next program included.
fn end_with(supervisor: u32) -> Result<()> {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    bound.map_err(|error| Error::io("bind the agent to its supervisor", error))?;
    // It may have died before the kernel knew.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent == Some(supervisor) {
        return Ok(());
    }
    Err(Error::new(Kind::Gone, "bind the agent to its supervisor: it is gone"))
}

fn read_stage(socket: &OwnedFd) -> Result<Stage> {
    let failed = |error: io::Error| Error::io("read what to run", error);
    let mut text = Vec::new();
    File::from(socket.try_clone().map_err(failed)?).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::new(Kind::Invalid, format!("understand what to run: {error}")))
}

/// What the daemon was started with and never meant to pass on. What this program opens closes by itself.
fn close_inherited() {
    for number in inherited() {
        let _ = nix::unistd::close(number);
    }
}

fn inherited() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| *number > 2).collect()
}

/// For the other process that must not keep what it was started with: the supervisor.
pub(crate) fn keep_only_standard_streams() {
    close_inherited();
}

fn open_input(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).open(path);
    opened.map_err(|error| {
        Error::io(format!("open {} for the agent to read", path.display()), error)
            .hint("Look whether the file is there and readable by the agent's user.")
    })
}

/// A file that is in memory only, to be read from its start.
fn text_input(text: &str) -> Result<File> {
    let failed = |error: io::Error| Error::io("make the text for the agent to read", error).of_machine();
    let file = memfd_create("stdin", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}

fn enter(cwd: &Path) -> Result<()> {
    std::env::set_current_dir(cwd).map_err(|error| {
        Error::io(format!("enter the working folder {}", cwd.display()), error)
            .hint("Look whether the folder is there and open to the agent's user.")
    })
}

fn execute(stage: &Stage, input: Stdio, socket: &OwnedFd) -> Result<Never> {
    let not_said = |error: io::Error| Error::io("say that the agent is about to run", error);
    let Some((program, arguments)) = stage.argv.split_first() else {
        return Err(Error::new(Kind::Invalid, "run nothing: no program is named"));
    };
    let mut command = quiet(program);
    command.args(arguments).envs(stage.env.iter()).stdin(input);
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // Nothing is said by a process that has become the agent. This tells it from one that was killed on the way.
    File::from(socket.try_clone().map_err(not_said)?).write_all(ABOUT_TO_EXEC).map_err(not_said)?;
    let error = command.exec();
    let failed =
        Error::new(Kind::of_io(&error), format!("run {program:?}: {}", io::Error::from(error.kind())));
    Err(failed.hint(advice(program, stage.env.get("PATH"), &error)))
}

fn advice(program: &str, path: Option<&str>, error: &io::Error) -> String {
    let is_path = program.contains('/');
    match error.kind() {
        io::ErrorKind::NotFound if is_path && Path::new(program).exists() => {
            "The file is there, but the interpreter in its first line is not.".to_owned()
        }
        io::ErrorKind::NotFound if is_path => "Look whether the path is right.".to_owned(),
        io::ErrorKind::NotFound => {
            format!(
                "Install it, or give its path; looked in {}.",
                path.unwrap_or("no folder: PATH is not set")
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("Make it executable (chmod +x {program}), and open to the agent's user.")
        }
        io::ErrorKind::ArgumentListTooLong => "Give long data by file or on standard input.".to_owned(),
        io::ErrorKind::OutOfMemory => "Raise the agent's memory limit.".to_owned(),
        _ => format!("The system says: {error}."),
    }
}

impl Stage {
    /// Says what to become to the other end of the socket.
    pub(crate) fn to_text(&self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        serde_json::to_writer(&mut text, self)
            .map_err(|error| Error::new(Kind::Invalid, format!("write down what to run: {error}")))?;
        text.flush().map_err(|error| Error::io("write down what to run", error))?;
        Ok(text)
    }
}
