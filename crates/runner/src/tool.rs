//! Starting a process by way of the stage: the agent itself, and the tools that a run needs before and after.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, geteuid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::born::born_in;
use crate::cgroup;
use crate::children::{Children, Ended};
use crate::command::{EXEC, NAME, THIS_PROGRAM, this_program};
use crate::delegate::{Delegate, Outcome, Task};
use crate::env::MARK;
use crate::error::{Error, Kind, Result};
use crate::process::Identity;
use crate::stage::{ABOUT_TO_EXEC, Stage};
use crate::sudo;
use crate::user::User;

/// A file system that does not answer keeps a process from starting; longer than this is as good as never.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Tools answer in a few lines.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its process, or the one that stands for it.
    pub(crate) main: Main,
    /// What it prints.
    pub(crate) out: pipe::Receiver,
    /// What it complains about.
    pub(crate) err: pipe::Receiver,
}

/// The main process of a program.
#[derive(Debug)]
pub(crate) struct Main {
    /// The child whose end is the program's: the program itself, or the sudo that started its delegate.
    child: Pid,
    delegate: Option<Delegate>,
}

impl Main {
    /// The program's own process. It leads a session.
    pub(crate) fn program(&self) -> i32 {
        self.delegate.as_ref().map_or(self.child.as_raw_nonzero().get(), |delegate| delegate.program)
    }

    /// The process above everything of the program, if that is not this process.
    pub(crate) fn root(&self) -> Option<Identity> {
        self.delegate.as_ref().map(|delegate| delegate.process)
    }

    /// Who signals the program and all that it started, if this process can't.
    pub(crate) fn delegate(&self) -> Option<&Delegate> {
        self.delegate.as_ref()
    }

    /// Returns when the program has ended; with a delegate, when nothing is left. Dropped half-way, it may be asked again.
    pub(crate) async fn end(&mut self, children: &mut Children) -> Outcome {
        let ended = children.end_of(self.child).await;
        let told = match &mut self.delegate {
            Some(delegate) => delegate.outcome().await,
            None => None,
        };
        told.unwrap_or(Outcome { ended, left_behind: false })
    }
}

/// What a tool had to say.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How it ended.
    pub(crate) ended: Ended,
    /// What it printed.
    pub(crate) text: String,
    /// What it complained about.
    pub(crate) complaint: String,
}

/// A process that is there and can become another. Dropped, it ends without having been one.
#[derive(Debug)]
pub(crate) struct Ready {
    started: Started,
    socket: Socket,
    /// The user that sudo starts it as, if it does.
    by_sudo: Option<User>,
    /// The move into its group, if it was not born there.
    joined: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the step before a program, in its control group. `mark` is how processes of the run are known. What only sudo can
/// start as this user has a delegate before it.
pub(crate) fn ready(
    children: &mut Children,
    group: Option<&Path>,
    mark: Option<&str>,
    user: Option<&User>,
) -> Result<Ready> {
    let by_sudo = user.filter(|user| sudo::is_needed_for(user)).cloned();
    let mut command = match &by_sudo {
        Some(user) => sudo::command(user)?,
        None => shim(mark),
    };
    begin(children, &mut command, group, born_in).map(|ready| Ready { by_sudo, ..ready }).map_err(|error| {
        Error::io("start a process", error)
            .of_machine()
            .hint("Look at the limits of this user (ulimit -u) and the memory of the machine.")
    })
}

fn shim(mark: Option<&str>) -> Command {
    let mut command = this_program();
    command.arg(EXEC);
    if let Some(nonce) = mark {
        command.env(MARK, nonce);
    }
    command
}

/// How a process comes to be in its group without being moved.
type Birth = fn(&Path, &Command, &str, &[OwnedFd; 3]) -> io::Result<Pid>;

/// Where a process can't be born in its group, it is moved there. The kernel takes longer for that than for anything else
/// here, so it is begun at once and not waited for.
fn begin(
    children: &mut Children,
    command: &mut Command,
    group: Option<&Path>,
    birth: Birth,
) -> io::Result<Ready> {
    let (ours, theirs) = Socket::pair()?;
    let ((out, their_out), (err, their_err)) = (io::pipe()?, io::pipe()?);
    let out = pipe::Receiver::from_owned_fd(out.into())?;
    let err = pipe::Receiver::from_owned_fd(err.into())?;
    // They are dropped here: otherwise this process would keep the other ends open, and never hear the end of them.
    let streams = [OwnedFd::from(theirs), their_out.into(), their_err.into()];
    let name = name_of(command);
    let born = group.and_then(|group| birth(group, command, &name, &streams).ok());
    let (pid, joined) = match born {
        Some(pid) => (pid, None),
        None => {
            let [input, output, complaints] = streams;
            let child = command.stdin(input).stdout(output).stderr(complaints).spawn()?;
            let pid = Pid::from_child(&child);
            let group = group.map(Path::to_owned);
            (pid, group.map(|group| spawn_blocking(move || cgroup::join(&group, pid))))
        }
    };
    children.watch(pid);
    let main = Main { child: pid, delegate: None };
    Ok(Ready { started: Started { main, out, err }, socket: ours, by_sudo: None, joined })
}

/// What a process calls itself: its program's name, and ours for this program.
fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().filter(|_| program != Path::new(THIS_PROGRAM));
    name.map_or_else(|| NAME.to_owned(), |name| name.to_string_lossy().into_owned())
}

impl Ready {
    /// Becomes what `stage` says. Returns when that program has taken over, or says why it could not.
    pub(crate) async fn start(self, stage: Stage) -> Result<Started> {
        if let Some(joined) = self.joined {
            let joined = joined.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            joined.map_err(|error| Error::io("join the cgroup of the run", error).of_machine())?;
        }
        let Started { mut main, out, mut err } = self.started;
        let handed = async {
            match &self.by_sudo {
                Some(user) => main.delegate = Some(delegate(self.socket, stage, user, &mut err).await?),
                None => hand_over(self.socket, &stage).await?,
            }
            Ok(Started { main, out, err })
        };
        let late = || Err(Error::new(Kind::Unavailable, "start a process within a minute"));
        timeout(START_LIMIT, handed).await.unwrap_or_else(|_| late())
    }
}

async fn delegate(
    socket: Socket,
    stage: Stage,
    user: &User,
    complaint: &mut pipe::Receiver,
) -> Result<Delegate> {
    let failed = |error: io::Error| Error::io("say what to run", error).of_machine();
    socket.set_nonblocking(true).map_err(failed)?;
    let socket = UnixStream::from_std(socket).map_err(failed)?;
    let task = Task { stage, supervisor: geteuid().as_raw() };
    match Delegate::run(socket, task).await? {
        Some(delegate) => Ok(delegate),
        None => Err(sudo::refused(user, &read_all(complaint).await)),
    }
}

/// Starts a program with this process's own streams.
pub(crate) async fn start_here(children: &mut Children, stage: &Stage) -> Result<Pid> {
    let failed = |error: io::Error| Error::io("start a process", error).of_machine();
    let (ours, theirs) = Socket::pair().map_err(failed)?;
    let mut command = shim(stage.env.get(MARK));
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let child = command.spawn().map_err(failed)?;
    drop(command);
    let pid = Pid::from_child(&child);
    children.watch(pid);
    hand_over(ours, stage).await?;
    Ok(pid)
}

/// Runs a tool to its end. Whoever drops this half-way ends the tool with the rest of the tree.
pub(crate) async fn run(children: &mut Children, stage: Stage, limit: Duration) -> Result<Answer> {
    let name = stage.argv.first().cloned().unwrap_or_default();
    let whole = async {
        let ready = ready(children, None, stage.env.get(MARK), stage.user.as_ref())?;
        let mut started = ready.start(stage).await?;
        let (text, complaint) = tokio::join!(read_all(&mut started.out), read_all(&mut started.err));
        let Outcome { ended, .. } = started.main.end(children).await;
        Ok(Answer { ended, text, complaint })
    };
    timeout(limit, whole).await.unwrap_or_else(|_| {
        Err(Error::new(Kind::Unavailable, format!("get an answer from {name} within {} s", limit.as_secs())))
    })
}

impl Answer {
    /// What the tool printed, if it was content.
    pub(crate) fn checked(self, doing: &str) -> Result<String> {
        if self.ended == Ended::Code(0) {
            return Ok(self.text);
        }
        // A tool that says no has been asked for the wrong thing; one that was killed says nothing about that.
        let kind = if matches!(self.ended, Ended::Code(_)) { Kind::Invalid } else { Kind::Unavailable };
        Err(Error::new(kind, format!("{doing}: {}", self.complaint.trim())))
    }
}

async fn hand_over(socket: Socket, stage: &Stage) -> Result<()> {
    let failed = |error: io::Error| Error::io("say what to run", error);
    socket.set_nonblocking(true).map_err(failed)?;
    let mut socket = UnixStream::from_std(socket).map_err(failed)?;
    let told = async {
        socket.write_all(&stage.to_text()?).await.map_err(failed)?;
        socket.shutdown().await.map_err(failed)
    };
    let told = told.await;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.map_err(failed)?;
    if answer == ABOUT_TO_EXEC {
        return told;
    }
    if answer.is_empty() {
        told?;
        let killed =
            Error::new(Kind::Unavailable, "start a process: it was killed before it became the program");
        return Err(killed.hint("Look in the system's log for what killed it (out of memory?)."));
    }
    Err(serde_json::from_slice(&answer)
        .unwrap_or_else(|error| Error::new(Kind::Unavailable, format!("start a process: {error}"))))
}

async fn read_all(from: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    let mut bounded = from.take(MAX_ANSWER_BYTES);
    let _ = bounded.read_to_end(&mut text).await;
    // The rest is not wanted, but a full pipe would hold the tool up.
    let _ = tokio::io::copy(&mut bounded.into_inner(), &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use rustix::io::Errno;

    use super::*;
    use crate::cgroup::testing::TestGroup;
    use crate::command::quiet;

    /// A program that says what it reads, started in a group.
    fn echo(children: &mut Children, group: &TestGroup, birth: Birth) -> Ready {
        begin(children, &mut quiet("/bin/cat"), Some(group.path()), birth).unwrap()
    }

    fn is_in(group: &TestGroup, process: &Ready) -> bool {
        let listed = fs::read_to_string(group.path().join("cgroup.procs")).unwrap();
        listed.lines().any(|pid| pid == process.started.main.program().to_string())
    }

    /// Has it say something, and waits for its end.
    async fn says_and_ends(children: &mut Children, mut process: Ready) {
        process.socket.write_all(b"hello").unwrap();
        drop(process.socket);
        assert_eq!(read_all(&mut process.started.out).await, "hello");
        assert_eq!(read_all(&mut process.started.err).await, "");
        assert_eq!(process.started.main.end(children).await.ended, Ended::Code(0));
    }

    #[tokio::test]
    async fn a_process_that_is_ready_is_in_its_group_and_was_not_moved_there() {
        let Some(group) = TestGroup::make() else { return };
        let mut children = Children::listen().unwrap();
        let process = echo(&mut children, &group, born_in);
        assert!(process.joined.is_none() && is_in(&group, &process));
        says_and_ends(&mut children, process).await;
    }

    #[tokio::test]
    async fn where_nothing_can_be_born_in_a_group_it_is_moved_there() {
        let Some(group) = TestGroup::make() else { return };
        let refusals: [Birth; 3] = [
            |_, _, _, _| Err(Errno::NOSYS.into()),
            |_, _, _, _| Err(Errno::PERM.into()),
            |_, _, _, _| Err(Errno::BUSY.into()),
        ];
        let mut children = Children::listen().unwrap();
        for refused in refusals {
            let mut process = echo(&mut children, &group, refused);
            process.joined.take().unwrap().await.unwrap().unwrap();
            assert!(is_in(&group, &process));
            says_and_ends(&mut children, process).await;
        }
    }

    #[tokio::test]
    async fn a_program_that_can_not_be_run_is_told_as_it_is_without_a_group() {
        let Some(group) = TestGroup::make() else { return };
        let mut children = Children::listen().unwrap();
        let mut reason = |group| {
            begin(&mut children, &mut quiet("/nowhere/at/all"), group, born_in).unwrap_err().to_string()
        };
        assert_eq!(reason(Some(group.path())), reason(None));
    }

    #[tokio::test]
    async fn a_process_that_dies_before_it_becomes_the_program_was_not_started() {
        let stage = Stage {
            supervisor: std::process::id(),
            argv: vec!["true".to_owned()],
            cwd: "/".into(),
            env: crate::env::Environment::empty(),
            stdin: crate::stage::Input::Null,
            limits: crate::launch::Limits::default(),
            user: None,
            privileges: crate::launch::Privileges::None,
            landlock: None,
            isolation: None,
            shared: Vec::new(),
        };
        let mut children = Children::listen().unwrap();
        let process = begin(&mut children, &mut quiet("/bin/false"), None, born_in).unwrap();
        assert_eq!(process.start(stage).await.unwrap_err().kind(), Kind::Unavailable);
    }
}
