//! The delegate of a supervisor: a process of the agent's user, started by [sudo](crate::sudo).
//!
//! A supervisor that is not root can't signal processes of another user, and the kernel does not end them with it. The
//! delegate can. It starts the exec shim with what it reads from its standard input, a socket; passes TERM and KILL on to
//! everything below it; and ends everything when the socket closes, which is how it learns that its supervisor died.
//! The agent could kill it, unless it is isolated: then the supervisor starts another one, to end what is left.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use bell_store::clock::boottime;
use rustix::process::{Pid, getpid, set_child_subreaper, setsid, test_kill_process};
use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::acl::share_folders_below;
use crate::children::{Children, Ended};
use crate::error::{Error, Kind, Result};
use crate::process::{Identity, Stat, all};
use crate::stage::{Stage, keep_only_standard_streams};
use crate::supervise::{KILL_AGAIN, KILL_AGAIN_MOST, LEFT_BEHIND_GRACE};
use crate::tool;
use crate::tree::{descendants, kill_below, kill_found, terminate_below};

/// After KILL only a process that hangs in the kernel is still there.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A delegate whose sudo has ended has said its last word, or was killed.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);

/// The first line of a delegate's standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Start this, and stay until nothing of it is left.
    Run(Box<Task>),
    /// End these.
    End(Remains),
}

/// What a delegate is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) stage: Stage,
    /// The user of the supervisor.
    pub(crate) supervisor: u32,
}

/// What is left of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Remains {
    /// How its processes are marked.
    pub(crate) nonce: String,
    /// Those that are known.
    pub(crate) processes: Vec<Identity>,
}

/// Every further line of a delegate's standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Term,
    Kill,
}

/// What a delegate answers, line by line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Report {
    /// The program runs, as this process of its own.
    Started { delegate: i32, program: i32 },
    /// It never will.
    Failed(Error),
    /// Nothing of it is left.
    Ended(Outcome),
}

/// How a delegate's program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// Whether other processes outlived it.
    pub(crate) left_behind: bool,
}

/// A delegate that runs something, as its supervisor has it. Dropped, it ends everything.
#[derive(Debug)]
pub(crate) struct Delegate {
    lines: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    /// Its process. Everything of the run is below it.
    pub(crate) process: Identity,
    /// The program's process.
    pub(crate) program: i32,
    outcome: Option<Outcome>,
}

impl Delegate {
    /// Has a delegate run something. `None`: it hung up without a word, so sudo did not start it.
    pub(crate) async fn run(socket: UnixStream, task: Task) -> Result<Option<Self>> {
        let failed = |error: io::Error| Error::io("tell a delegate what to run", error).of_machine();
        let (from, mut orders) = socket.into_split();
        // sudo may refuse before it has read anything.
        let sent = orders.write_all(&line(&Request::Run(Box::new(task)))?).await;
        let mut lines = BufReader::new(from).lines();
        match next(&mut lines).await {
            None => Ok(None),
            Some(Report::Failed(error)) => Err(error),
            Some(Report::Ended(_)) => {
                Err(Error::new(Kind::Gone, "start the agent: its delegate ended first"))
            }
            Some(Report::Started { delegate, program }) => {
                sent.map_err(failed)?;
                let process = Stat::of(delegate).map(|stat| stat.identity);
                let process =
                    process.ok_or_else(|| Error::new(Kind::Gone, "find the delegate of the run"))?;
                Ok(Some(Self { lines, orders, process, program, outcome: None }))
            }
        }
    }

    /// Has it signal everything below it. One that is gone is not missed: what is left is ended by another.
    pub(crate) fn order(&self, order: Order) {
        if let Ok(line) = line(&order) {
            let _ = self.orders.try_write(&line);
        }
    }

    /// How its program ended, once the delegate is gone; `None` if it was killed. Dropped half-way, it may be asked again.
    pub(crate) async fn outcome(&mut self) -> Option<Outcome> {
        if self.outcome.is_none()
            && let Ok(Some(Report::Ended(outcome))) = timeout(LAST_WORD_LIMIT, next(&mut self.lines)).await
        {
            self.outcome = Some(outcome);
        }
        self.outcome
    }
}

async fn next(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    let line = lines.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// One line of either side.
pub(crate) fn line(of: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(of);
    let mut text =
        text.map_err(|error| Error::new(Kind::Invalid, format!("write down what to run: {error}")))?;
    text.push(b'\n');
    Ok(text)
}

/// Does what standard input says, as the user that this process was started as.
///
/// To be called before this process starts a thread: its session and its privileges are those of all of them.
pub fn main() -> ExitCode {
    let runtime = become_delegate().and_then(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| Error::io("start a delegate", error))
    });
    match runtime.and_then(|runtime| runtime.block_on(serve())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("could not {error}");
            ExitCode::FAILURE
        }
    }
}

fn become_delegate() -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("become a delegate", error);
    keep_only_standard_streams();
    // A signal to the group of sudo is not meant for it.
    match setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(failed(error)),
    }
    set_no_new_privs(true).map_err(failed)?;
    set_child_subreaper(Some(getpid())).map_err(failed)
}

async fn serve() -> Result<()> {
    let failed = |error: io::Error| Error::io("hear what to do", error);
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true).map_err(failed)?;
    let (from, to) = UnixStream::from_std(socket).map_err(failed)?.into_split();
    let mut lines = BufReader::new(from).lines();
    // Nothing to do is a check whether sudo starts this.
    let Some(request) = lines.next_line().await.map_err(failed)? else { return Ok(()) };
    let request = serde_json::from_str(&request)
        .map_err(|error| Error::new(Kind::Invalid, format!("understand what to do: {error}")))?;
    match request {
        Request::Run(task) => run(*task, lines, to).await,
        Request::End(remains) => {
            end_remains(&remains).await;
            Ok(())
        }
    }
}

async fn run(task: Task, mut lines: Lines<BufReader<OwnedReadHalf>>, mut to: OwnedWriteHalf) -> Result<()> {
    let mut children = Children::listen()?;
    let stage = Stage { supervisor: std::process::id(), ..task.stage };
    let started = tool::start_here(&mut children, &stage).await;
    let (report, started) = match started {
        Ok(pid) => {
            let (delegate, program) = (getpid().as_raw_nonzero().get(), pid.as_raw_nonzero().get());
            (Report::Started { delegate, program }, Some(pid))
        }
        Err(error) => (Report::Failed(error), None),
    };
    let told = to.write_all(&line(&report)?).await;
    let Some(pid) = started else { return Ok(()) };
    let left_behind = match told {
        Ok(()) => follow(&mut children, pid, &mut lines).await,
        Err(_) => false,
    };
    let mut pause = KILL_AGAIN;
    while !children.is_empty() {
        kill_below(this());
        let _ = timeout(pause, children.none_left()).await;
        pause = (pause * 2).min(KILL_AGAIN_MOST);
    }
    let ended = children.end_of(pid).await;
    for folder in &stage.shared {
        share_folders_below(folder, task.supervisor);
    }
    // A supervisor that is gone does not read it.
    let _ = to.write_all(&line(&Report::Ended(Outcome { ended, left_behind }))?).await;
    Ok(())
}

/// Passes signals on. Returns when everything has ended or is to be killed; answers whether the program was outlived.
async fn follow(children: &mut Children, pid: Pid, lines: &mut Lines<BufReader<OwnedReadHalf>>) -> bool {
    // sudo passes on what it is sent; unhandled, it would end this process and leave the agent alone.
    let Ok(mut term) = signal(SignalKind::terminate()) else { return false };
    let mut was_told = false;
    let mut left_behind_since: Option<Duration> = None;
    loop {
        let patience = async {
            match left_behind_since {
                Some(since) if !was_told => {
                    sleep((since + LEFT_BEHIND_GRACE).saturating_sub(boottime())).await
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            order = lines.next_line() => match order {
                Ok(Some(order)) if serde_json::from_str(&order).ok() == Some(Order::Term) => {
                    was_told = true;
                    terminate_below(this());
                }
                // The socket closes when the supervisor dies.
                _ => return left_behind_since.is_some(),
            },
            _ = term.recv() => terminate_below(this()),
            () = ends(children, pid, left_behind_since.is_some()) => {
                if children.is_empty() {
                    return left_behind_since.is_some();
                }
                left_behind_since = Some(boottime());
                terminate_below(this());
            }
            () = patience => return true,
        }
    }
}

/// Returns when the program has ended; once it has, when nothing is left.
async fn ends(children: &mut Children, pid: Pid, has_ended: bool) {
    if has_ended {
        children.none_left().await;
    } else {
        children.end_of(pid).await;
    }
}

async fn end_remains(remains: &Remains) {
    let until = boottime() + END_LIMIT;
    let find = || found(remains);
    while boottime() < until && !find().is_empty() {
        kill_found(find);
        sleep(KILL_AGAIN).await;
    }
}

/// Processes of this user that are known or marked, and what they started.
fn found(remains: &Remains) -> Vec<Stat> {
    let processes = all();
    let is_root = |process: &&Stat| {
        remains.processes.contains(&process.identity) || process.identity.has_mark(&remains.nonce)
    };
    let roots: Vec<Stat> = processes.iter().filter(is_root).copied().collect();
    let numbers: Vec<i32> = roots.iter().map(|process| process.identity.pid).collect();
    let below = descendants(&numbers, &processes);
    let can_be_ended = |process: &Stat| {
        let pid = Pid::from_raw(process.identity.pid).filter(|_| process.identity.pid != this());
        process.is_alive() && pid.is_some_and(|pid| test_kill_process(pid).is_ok())
    };
    roots.into_iter().chain(below).filter(can_be_ended).collect()
}

fn this() -> i32 {
    std::process::id().cast_signed()
}
