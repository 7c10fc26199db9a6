//! Starting a process by way of the stage: the agent itself, and the tools that a run needs before and after.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::cgroup;
use crate::children::{Children, Ended};
use crate::command::{EXEC, this_program};
use crate::env::MARK;
use crate::error::{Error, Kind, Result};
use crate::stage::Stage;

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
    joined: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the step before a program, and moves it into its control group. The kernel takes longer for that than for
/// anything else here, so it is begun early and not waited for. `mark` is how processes of the run are known.
pub(crate) fn ready(children: &mut Children, group: Option<&Path>, mark: Option<&str>) -> Result<Ready> {
    let failed = |error: io::Error| {
        Error::io("start a process", error)
            .hint("Look at the limits of this user (ulimit -u) and the memory of the machine.")
    };
    let (ours, theirs) = Socket::pair().map_err(failed)?;
    let mut command = this_program();
    command.arg(EXEC).stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(nonce) = mark {
        command.env(MARK, nonce);
    }
    let mut child = command.spawn().map_err(failed)?;
    // Otherwise this process would keep the other end open, and never hear the end of it.
    drop(command);
    let pid = Pid::from_child(&child);
    children.watch(pid);
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::new(Kind::Unavailable, "start a process: it has no output"));
    };
    let out = pipe::Receiver::from_owned_fd(out.into()).map_err(failed)?;
    let err = pipe::Receiver::from_owned_fd(err.into()).map_err(failed)?;
    let joined = group.map(|group| {
        let group = group.to_owned();
        spawn_blocking(move || cgroup::join(&group, pid))
    });
    Ok(Ready { started: Started { pid, out, err }, socket: ours, joined })
}

impl Ready {
    /// Becomes what `stage` says. Returns when that program has taken over, or says why it could not.
    pub(crate) async fn start(self, stage: &Stage) -> Result<Started> {
        if let Some(joined) = self.joined {
            let joined = joined.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            joined.map_err(|error| Error::io("join the cgroup of the run", error))?;
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
        Err(Error::new(Kind::Unavailable, format!("{doing}: {}", self.complaint.trim())))
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
    if answer.is_empty() {
        // Nothing is said by who has become the agent, and by who died on the way; the latter shows in its end.
        return told;
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
