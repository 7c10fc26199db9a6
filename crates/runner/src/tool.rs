//! Starting a process by way of the stage: the agent itself, and the tools that a run needs before and after.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::born::born_in;
use crate::cgroup;
use crate::children::{Children, Ended};
use crate::command::{EXEC, NAME, this_program};
use crate::env::MARK;
use crate::error::{Error, Kind, Result};
use crate::stage::{ABOUT_TO_EXEC, Stage};

/// A file system that does not answer keeps a process from starting; longer than this is as good as never.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Tools answer in a few lines.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its number; it leads a session.
    pub(crate) pid: Pid,
    /// What it prints.
    pub(crate) out: pipe::Receiver,
    /// What it complains about.
    pub(crate) err: pipe::Receiver,
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
    /// The move into its group, if it was not born there.
    joined: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the step before a program, in its control group. `mark` is how processes of the run are known.
pub(crate) fn ready(children: &mut Children, group: Option<&Path>, mark: Option<&str>) -> Result<Ready> {
    let mut command = this_program();
    command.arg(EXEC);
    if let Some(nonce) = mark {
        command.env(MARK, nonce);
    }
    begin(children, command, group, born_in).map_err(|error| {
        Error::io("start a process", error)
            .of_machine()
            .hint("Look at the limits of this user (ulimit -u) and the memory of the machine.")
    })
}

/// How a process comes to be in its group without being moved.
type Birth = fn(&Path, &Command, &str, &[OwnedFd; 3]) -> io::Result<Pid>;

/// Where a process can't be born in its group, it is moved there. The kernel takes longer for that than for anything else
/// here, so it is begun at once and not waited for.
fn begin(
    children: &mut Children,
    mut command: Command,
    group: Option<&Path>,
    birth: Birth,
) -> io::Result<Ready> {
    let (ours, theirs) = Socket::pair()?;
    let ((out, their_out), (err, their_err)) = (io::pipe()?, io::pipe()?);
    let out = pipe::Receiver::from_owned_fd(out.into())?;
    let err = pipe::Receiver::from_owned_fd(err.into())?;
    // They are dropped here: otherwise this process would keep the other ends open, and never hear the end of them.
    let streams = [OwnedFd::from(theirs), their_out.into(), their_err.into()];
    let born = group.and_then(|group| birth(group, &command, NAME, &streams).ok());
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
    Ok(Ready { started: Started { pid, out, err }, socket: ours, joined })
}

impl Ready {
    /// Becomes what `stage` says. Returns when that program has taken over, or says why it could not.
    pub(crate) async fn start(self, stage: &Stage) -> Result<Started> {
        if let Some(joined) = self.joined {
            let joined = joined.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            joined.map_err(|error| Error::io("join the cgroup of the run", error).of_machine())?;
        }
        match timeout(START_LIMIT, hand_over(self.socket, stage)).await {
            Ok(handed) => handed?,
            Err(_) => return Err(Error::new(Kind::Unavailable, "start a process within a minute")),
        }
        Ok(self.started)
    }
}

/// Runs a tool to its end. Whoever drops this half-way ends the tool with the rest of the tree.
pub(crate) async fn run(children: &mut Children, stage: &Stage, limit: Duration) -> Result<Answer> {
    let name = stage.argv.first().cloned().unwrap_or_default();
    let whole = async {
        let started = ready(children, None, stage.env.get(MARK))?.start(stage).await?;
        let (text, complaint) = tokio::join!(read_all(started.out), read_all(started.err));
        let ended = children.end_of(started.pid).await;
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
        begin(children, quiet("/bin/cat"), Some(group.path()), birth).unwrap()
    }

    fn is_in(group: &TestGroup, process: &Ready) -> bool {
        let listed = fs::read_to_string(group.path().join("cgroup.procs")).unwrap();
        listed.lines().any(|pid| pid == process.started.pid.as_raw_nonzero().to_string())
    }

    /// Has it say something, and waits for its end.
    async fn says_and_ends(children: &mut Children, mut process: Ready) {
        process.socket.write_all(b"hello").unwrap();
        drop(process.socket);
        assert_eq!(read_all(process.started.out).await, "hello");
        assert_eq!(read_all(process.started.err).await, "");
        assert_eq!(children.end_of(process.started.pid).await, Ended::Code(0));
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
        let mut reason =
            |group| begin(&mut children, quiet("/nowhere/at/all"), group, born_in).unwrap_err().to_string();
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
        };
        let mut children = Children::listen().unwrap();
        let process = begin(&mut children, quiet("/bin/false"), None, born_in).unwrap();
        assert_eq!(process.start(&stage).await.unwrap_err().kind(), Kind::Unavailable);
    }
}
