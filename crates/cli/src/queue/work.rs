//! `bell queue work`: a command for each item, with heartbeat and fence.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_locks::folder::Kind;
use bell_locks::folder::queue::{Claim, Fate, FolderQueue, Pulse, Watch, Worker};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use super::{TURN, item};
use crate::answer::Refusal;
use crate::cli::QueueWorkArgs;
use crate::interrupt::{Interrupts, Stop};
use crate::run::start;
use crate::say::Say;
use crate::span;

const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// How often to look whether the item is still ours.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long to let a file server be that gave no clear answer, and how often to ask it again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const TRIES: usize = 60;

/// What became of the items.
#[derive(Serialize)]
struct Tally {
    outcome: Outcome,
    done: u64,
    failed: u64,
    /// Taken back while they were worked on.
    lost: u64,
}

/// How a command for an item ended.
enum End {
    Exited(ExitStatus),
    Lost,
    Stopped(Stop),
}

/// Works until told to stop, or until nothing is left. Answers the exit code.
pub(super) async fn work(say: &Say, args: &QueueWorkArgs) -> Result<u8, Refusal> {
    let grace = span::wait(args.kill_after.as_deref(), "--kill-after", DEFAULT_GRACE)?;
    check_program(&args.command)?;
    let queue = FolderQueue::open(&args.dir)?;
    let mut interrupts = Interrupts::listen()?;
    let mut worker = queue.worker(args.worker.as_deref(), Pulse::Beating)?;
    let mut watch = queue.watch()?;
    let mut tally = Tally { outcome: Outcome::Ended, done: 0, failed: 0, lost: 0 };
    let stopped = loop {
        if args.max.is_some_and(|max| tally.done + tally.failed + tally.lost >= max) {
            break None;
        }
        let Some(claim) = next(say, &mut worker, &mut watch, args.drain, &mut interrupts).await? else {
            break None;
        };
        let claim = match claim {
            Ok(claim) => claim,
            Err(stop) => break Some(stop),
        };
        let ended = run(&queue, &claim, args, grace, &mut interrupts).await?;
        if let Some(stop) = settle(say, &claim, ended, &mut tally).await? {
            break Some(stop);
        }
    };
    drop(worker);
    let _ = say.answer(&tally, || {
        format!("{} done, {} failed, {} taken back", tally.done, tally.failed, tally.lost)
    });
    let code = if tally.failed + tally.lost == 0 { exit::OK } else { exit::CONFLICT };
    Ok(stopped.map_or(code, Stop::exit))
}

/// Refuses a command that can't be run before anything is claimed for it: a slip of the pen would use up every try of every item.
fn check_program(command: &[OsString]) -> Result<(), Refusal> {
    let Some(program) = command.first() else { return Ok(()) };
    // An item that is itself the program is looked at when it is there.
    let is_item = program.as_bytes().windows(2).any(|pair| pair == b"{}");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    let can_run = if program.as_bytes().contains(&b'/') {
        is_runnable(Path::new(program))
    } else {
        places.any(|place| is_runnable(&place))
    };
    if is_item || can_run {
        return Ok(());
    }
    Err(Refusal::new(
        Outcome::NotFound,
        format!("could not find a program to run as {}", program.display()),
        "Look at its name, its mode and PATH; nothing was claimed.",
    ))
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The next item, or what ended the wait for one; `None` if nothing is left.
async fn next(
    say: &Say,
    worker: &mut Worker,
    watch: &mut Watch,
    drain: bool,
    interrupts: &mut Interrupts,
) -> Result<Option<Result<Claim, Stop>>, Refusal> {
    loop {
        tokio::select! {
            biased;
            stop = interrupts.next() => return Ok(Some(Err(stop))),
            () = tokio::task::yield_now() => {}
        }
        match worker.claim() {
            Ok(Some(claim)) => return Ok(Some(Ok(claim))),
            Ok(None) => {}
            Err(error) if is_passing(&error) => {
                // What did arrive is found by the next claim.
                say.talk(&format!("bell: could not {error}; trying again"));
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if drain {
            return Ok(None);
        }
        // In slices: the watch blocks, and a signal must be heard.
        watch.wait(TURN)?;
    }
}

async fn run(
    queue: &FolderQueue,
    claim: &Claim,
    args: &QueueWorkArgs,
    grace: Duration,
    interrupts: &mut Interrupts,
) -> Result<End, Refusal> {
    let path = std::path::absolute(claim.path()).unwrap_or_else(|_| claim.path());
    let command = item::with_path(&args.command, path.as_os_str());
    let mut bound = start::bound_to_this_process(&command);
    bound.env("BELL_QUEUE", queue.path()).env("BELL_ITEM", &path).env("BELL_ITEM_NAME", claim.name().base());
    bound.env("BELL_ITEM_FENCE", claim.fence().to_string());
    bound.env("BELL_ITEM_ATTEMPT", claim.attempt().to_string());
    bound.process_group(0);
    let mut child = tokio::process::Command::from(bound).spawn().map_err(|error| not_started(&error))?;
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let ended = loop {
        tokio::select! {
            status = child.wait() => return status.map(End::Exited).map_err(|error| not_started(&error)),
            stop = interrupts.next() => break End::Stopped(stop),
            () = tokio::time::sleep(LOOK_EVERY) => {
                // No answer is no reason to end it: the rename at the end decides.
                if !claim.is_ours().unwrap_or(true) {
                    break End::Lost;
                }
            }
        }
    };
    let signal = |signal| group.map(|group| kill_process_group(group, signal));
    signal(Signal::TERM);
    if tokio::time::timeout(grace, child.wait()).await.is_err() {
        signal(Signal::KILL);
        let _ = child.wait().await;
    }
    Ok(ended)
}

/// Marks the item by how its command ended.
async fn settle(say: &Say, claim: &Claim, ended: End, tally: &mut Tally) -> Result<Option<Stop>, Refusal> {
    let name = claim.name().base();
    let marked = match ended {
        End::Exited(status) if status.success() => persist(|| claim.done()).await.map(|()| None),
        End::Exited(status) => persist(|| claim.fail(&words(status))).await.map(Some),
        End::Lost => {
            tally.lost += 1;
            say.talk(&format!("bell: {name} was taken back: its command was ended"));
            return Ok(None);
        }
        End::Stopped(stop) => {
            persist(|| claim.give_back()).await?;
            return Ok(Some(stop));
        }
    };
    match marked {
        Ok(None) => tally.done += 1,
        Ok(Some(fate)) => {
            tally.failed += 1;
            let next = match fate {
                Fate::Waits { name } => format!("it waits for try {}", name.attempt()),
                Fate::Failed => "it is put aside".to_owned(),
            };
            say.talk(&format!("bell: {name} failed at try {}, {next}", claim.attempt()));
        }
        Err(error) if error.kind() == Kind::Stale => {
            tally.lost += 1;
            say.talk(&format!("bell: could not {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(None)
}

/// Asks again while no clear answer comes: marking an item twice marks it once.
async fn persist<T>(act: impl Fn() -> bell_locks::folder::Result<T>) -> bell_locks::folder::Result<T> {
    for _ in 0..TRIES {
        match act() {
            Err(error) if is_passing(&error) => tokio::time::sleep(AGAIN_AFTER).await,
            answered => return answered,
        }
    }
    act()
}

/// Whether a network file system may simply be slow.
fn is_passing(error: &bell_locks::folder::Error) -> bool {
    matches!(error.kind(), Kind::Unknown | Kind::Unavailable)
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its command ended with exit code {code}"),
        (None, Some(signal)) => format!("its command was ended by signal {signal}"),
        (None, None) => "its command ended".to_owned(),
    }
}

fn not_started(error: &io::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not run a command for an item: {error}"),
        "Look at the limits of this user (ulimit -u) and the memory of the machine.",
    )
}
