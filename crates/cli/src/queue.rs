//! `bell queue`: a work queue that is a folder.

mod item;
mod work;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_locks::folder::name::ItemName;
use bell_locks::folder::queue::{
    Act, Claim, Counts, Fate, FolderQueue, Found, Item, Limits, Mode, Settings, State, Sweep, Syncing,
};
use bell_store::clock::boottime;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{
    ItemState, QueueClaimArgs, QueueCommand, QueueDirArgs, QueueDoneArgs, QueueFailArgs, QueueInitArgs,
    QueueJanitorArgs, QueueLsArgs, QueuePushArgs, QueueRequeueArgs,
};
use crate::folder::open_plain;
use crate::interrupt::Interrupts;
use crate::say::Say;
use crate::span;

/// How long to wait at once; in between, the command listens for being told to stop.
const TURN: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct Done {
    outcome: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<String>,
    message: String,
}

/// Carries out a command. Answers the exit code.
pub(crate) async fn queue(say: &Say, command: &QueueCommand) -> Result<u8, Refusal> {
    match command {
        QueueCommand::Init(args) => init(say, args),
        QueueCommand::Push(args) => push(say, args),
        QueueCommand::Claim(args) => claim(say, args).await,
        QueueCommand::Done(args) => done(say, args),
        QueueCommand::Fail(args) => fail(say, args),
        QueueCommand::Ls(args) => ls(say, args),
        QueueCommand::Stat(args) => stat(say, args),
        QueueCommand::Requeue(args) => requeue(say, args),
        QueueCommand::Janitor(args) => janitor(say, args),
        QueueCommand::Watch(args) => watch(say, args).await,
        QueueCommand::Work(args) => work::work(say, args).await,
    }
}

fn tell(say: &Say, items: Vec<String>, message: String) -> u8 {
    let answer = Done { outcome: Outcome::Written, items, message };
    let _ = say.answer(&answer, || answer.message.clone());
    exit::OK
}

fn init(say: &Say, args: &QueueInitArgs) -> Result<u8, Refusal> {
    let syncing = if args.no_sync { Syncing::Nothing } else { Syncing::Everything };
    let queue = FolderQueue::init(&args.dir, Settings { attempts: args.attempts, syncing })?;
    let message = format!("{} is a queue; an item is tried {} times", queue.path().display(), args.attempts);
    Ok(tell(say, Vec::new(), message))
}

fn push(say: &Say, args: &QueuePushArgs) -> Result<u8, Refusal> {
    let queue = FolderQueue::open(&args.dir)?;
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Refusal::invalid(
            format!("could not give one name to {} items", args.files.len()),
            "Push the files one by one, or leave the name out.",
        ));
    }
    let name = args.name.as_deref().map(utf8).transpose()?;
    let mut items = Vec::new();
    if args.files.is_empty() {
        items.push(queue.push(io::stdin().lock(), name)?.to_string());
    }
    for path in &args.files {
        items.push(queue.push(open_plain(path)?, name)?.to_string());
    }
    let message = items.join("\n");
    Ok(tell(say, items, message))
}

fn utf8(name: &OsStr) -> Result<&str, Refusal> {
    name.to_str().ok_or_else(|| {
        Refusal::invalid(format!("could not use {name:?} as a name: it is not UTF-8"), "Choose another name.")
    })
}

/// A claim as an answer.
#[derive(Serialize)]
struct Claimed<'a> {
    outcome: Outcome,
    item: &'a str,
    path: PathBuf,
    worker: &'a str,
    fence: u64,
    attempt: u64,
    bytes: u64,
}

async fn claim(say: &Say, args: &QueueClaimArgs) -> Result<u8, Refusal> {
    let patience = span::wait(args.wait.as_deref(), "--wait", Duration::ZERO)?;
    let queue = FolderQueue::open(&args.dir)?;
    let mut interrupts = Interrupts::listen()?;
    let mut worker = queue.worker_for(args.worker.as_deref(), args.pid)?;
    let mut watch = queue.watch()?;
    let began = boottime();
    loop {
        let claim = match &args.pattern {
            Some(pattern) => worker.claim_where(|name| item::fits(pattern, name.base()))?,
            None => worker.claim()?,
        };
        if let Some(claim) = claim {
            return Ok(tell_claim(say, &claim));
        }
        let left = patience.saturating_sub(boottime().saturating_sub(began));
        if left.is_zero() {
            let message = format!("nothing waits in {}", args.dir.display());
            return Err(Refusal::new(Outcome::NotFound, message, "Try again later, or wait with --wait."));
        }
        // In slices: the watch blocks, and a signal must be heard.
        watch.wait(left.min(TURN))?;
        tokio::select! {
            biased;
            stop = interrupts.next() => return Ok(stop.exit()),
            () = tokio::task::yield_now() => {}
        }
    }
}

fn tell_claim(say: &Say, claim: &Claim) -> u8 {
    let path = claim.path();
    let path = std::path::absolute(&path).unwrap_or(path);
    let answer = Claimed {
        outcome: Outcome::Granted,
        item: claim.name().base(),
        worker: claim.worker(),
        fence: claim.fence().0,
        attempt: claim.attempt(),
        bytes: claim.size(),
        path,
    };
    let _ = say.answer(&answer, || answer.path.display().to_string());
    exit::OK
}

/// The claim that lies at a path: `QUEUE/claimed/WORKER/NAME`.
fn find(path: &Path) -> Result<(FolderQueue, Claim), Refusal> {
    let refused = || {
        Refusal::invalid(
            format!("could not take {} for a claim", path.display()),
            "Give the path that bell queue claim printed: QUEUE/claimed/WORKER/ITEM.",
        )
    };
    let path = std::path::absolute(path).map_err(|_| refused())?;
    let mut parents = path.ancestors();
    let mut name = || parents.next().and_then(Path::file_name);
    let (item, worker, claimed) = (name(), name(), name());
    let item = item.and_then(ItemName::found).ok_or_else(refused)?;
    let worker = worker.and_then(OsStr::to_str).ok_or_else(refused)?;
    let root = parents.next().filter(|_| claimed == Some(OsStr::new("claimed"))).ok_or_else(refused)?;
    let queue = FolderQueue::open(root)?;
    let claim = queue.claimed(worker, &item)?;
    Ok((queue, claim))
}

fn done(say: &Say, args: &QueueDoneArgs) -> Result<u8, Refusal> {
    let mut items = Vec::new();
    for path in &args.claims {
        let (queue, claim) = find(path)?;
        claim.done()?;
        queue.leave(claim.worker());
        items.push(claim.name().base().to_owned());
    }
    let message = format!("done: {}", items.join(", "));
    Ok(tell(say, items, message))
}

fn fail(say: &Say, args: &QueueFailArgs) -> Result<u8, Refusal> {
    let (queue, claim) = find(&args.claim)?;
    let message = match claim.fail(&args.reason)? {
        Fate::Waits { name } => format!("{} waits for try {}", claim.name().base(), name.attempt()),
        Fate::Failed => format!("{} failed for good, after {} tries", claim.name().base(), claim.attempt()),
    };
    queue.leave(claim.worker());
    Ok(tell(say, vec![claim.name().base().to_owned()], message))
}

#[derive(Serialize)]
struct Listed {
    outcome: Outcome,
    items: Vec<Item>,
}

fn ls(say: &Say, args: &QueueLsArgs) -> Result<u8, Refusal> {
    let state = match args.state {
        ItemState::Waiting => State::Waiting,
        ItemState::Claimed => State::Claimed,
        ItemState::Done => State::Done,
        ItemState::Failed => State::Failed,
    };
    let items = FolderQueue::open(&args.dir)?.items(state, args.limit)?;
    let answer = Listed { outcome: Outcome::Listed, items };
    if answer.items.is_empty() && say.format() == crate::say::Format::Plain {
        return Ok(exit::OK);
    }
    let _ = say.answer(&answer, || answer.items.iter().map(line).collect::<Vec<_>>().join("\n"));
    Ok(exit::OK)
}

fn line(item: &Item) -> String {
    let worker = item.worker.as_ref().map(|worker| format!("  {worker}")).unwrap_or_default();
    let reason = item.reason.as_ref().map(|reason| format!("  {}", first_line(reason))).unwrap_or_default();
    format!("{:40} fence {:<3} try {}{worker}{reason}", item.name, item.fence, item.attempt)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[derive(Serialize)]
struct Counted {
    outcome: Outcome,
    #[serde(flatten)]
    counts: Counts,
}

fn stat(say: &Say, args: &QueueDirArgs) -> Result<u8, Refusal> {
    let counts = FolderQueue::open(&args.dir)?.counts()?;
    let _ = tell_counts(say, counts);
    Ok(exit::OK)
}

fn tell_counts(say: &Say, counts: Counts) -> io::Result<()> {
    say.answer(&Counted { outcome: Outcome::Listed, counts }, || {
        let Counts { waiting, claimed, workers, done, failed, unfit } = counts;
        let unfit = if unfit > 0 { format!(", {unfit} that can't be items") } else { String::new() };
        format!(
            "{waiting} waiting, {claimed} claimed by {workers} workers, {done} done, {failed} failed{unfit}"
        )
    })
}

async fn watch(say: &Say, args: &QueueDirArgs) -> Result<u8, Refusal> {
    let queue = FolderQueue::open(&args.dir)?;
    let mut interrupts = Interrupts::listen()?;
    let mut last = None;
    loop {
        let began = boottime();
        let counts = queue.counts()?;
        if last != Some(counts) && tell_counts(say, counts).is_err() {
            return Ok(exit::OK);
        }
        last = Some(counts);
        // Counting a large queue takes a while; it must not take all the time.
        let pause = (boottime().saturating_sub(began) * 20).max(TURN);
        tokio::select! {
            stop = interrupts.next() => return Ok(stop.exit()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn requeue(say: &Say, args: &QueueRequeueArgs) -> Result<u8, Refusal> {
    let queue = FolderQueue::open(&args.dir)?;
    let mut items = Vec::new();
    for name in &args.names {
        let name = ItemName::found(name.as_ref()).ok_or_else(|| {
            Refusal::invalid(format!("could not take {name:?} for an item"), "Give a name that ls shows.")
        })?;
        items.push(queue.requeue(&name, args.worker.as_deref())?.to_string());
    }
    let message = items.join("\n");
    Ok(tell(say, items, message))
}

#[derive(Serialize)]
struct Swept {
    outcome: Outcome,
    dry_run: bool,
    #[serde(flatten)]
    sweep: Sweep,
}

fn janitor(say: &Say, args: &QueueJanitorArgs) -> Result<u8, Refusal> {
    let default = Limits::default();
    let limits = Limits {
        silent: span::wait(args.silent.as_deref(), "--silent", default.silent)?,
        unattended: span::wait(args.unattended.as_deref(), "--unattended", default.unattended)?,
        window: span::wait(args.window.as_deref(), "--window", default.window)?,
    };
    let mode = if args.yes { Mode::Act } else { Mode::Look };
    let sweep = FolderQueue::open(&args.dir)?.sweep(limits, mode)?;
    let answer = Swept { outcome: Outcome::Written, dry_run: !args.yes, sweep };
    let _ = say.answer(&answer, || sweep_lines(&answer));
    Ok(exit::OK)
}

fn sweep_lines(swept: &Swept) -> String {
    let mut lines: Vec<String> =
        swept.sweep.found.iter().map(|found| found_line(found, swept.dry_run)).collect();
    let Sweep { found, alive, drafts } = &swept.sweep;
    let next = if swept.dry_run && !found.is_empty() { "; --yes does it" } else { "" };
    lines.push(format!("{} items of dead workers, {alive} workers live, {drafts} drafts{next}", found.len()));
    lines.join("\n")
}

fn found_line(found: &Found, dry_run: bool) -> String {
    let act = match (found.act, dry_run) {
        (Act::Requeued, true) => "would wait again",
        (Act::Requeued, false) => "waits again",
        (Act::Failed, true) => "would be put aside",
        (Act::Failed, false) => "is put aside",
        (Act::Moved, _) => "was moved by its worker",
    };
    format!("{} of {} {act}: {}", found.item, found.worker, found.why)
}
