//! `bell lock run`: a command that runs only while its locks are held.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `start` | starting processes: the only place that does |
//! | `child` | a command that has started: signals to it, its end |
//! | `supervise` | watching over the command and its leases |
//! | `flock` | a real flock beside the leases |
//! | `unlocked` | a command that may run without its locks, if its store is away |
//! | `leases` | leases that somebody else keeps: the supervisor of a run, or a gateway |

mod child;
mod flock;
mod leases;
pub(crate) mod start;
mod supervise;
mod unlocked;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bell_api::ask::SessionRequest;
use bell_coord::Denied;
use bell_core::lock::Ttl;
use bell_core::session::SESSION_TTL;
use bell_locks::{Ask, Held, Identity, Locks};

use crate::answer::Refusal;
use crate::cli::RunArgs;
use crate::desk::Desk;
use crate::interrupt::{Interrupts, Stop};
use crate::lock::{ask, first_key, who};
use crate::progress::Progress;
use crate::span::{self, WITHOUT_LIMIT};

use child::{Child, Group};
use flock::Flocked;
use supervise::{Signals, supervise};

/// It is renewed as long as the command runs, so this is only how long it outlives a machine that dies.
const DEFAULT_TTL_S: u64 = 60;

/// The longest ttl of a lease through a gateway. A process that dies is noticed there by its silence alone, so this is how
/// long its locks outlive it: less than a session without heartbeats lasts, with time to grant them to the next in line.
const GATEWAY_TTL_MAX: Duration = Duration::from_secs(14);
const _: () = assert!(GATEWAY_TTL_MAX.as_millis() < SESSION_TTL.as_millis());

const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// How a wait for locks ended.
enum Waited {
    Held(Vec<Held>),
    Stopped(Stop),
}

pub(crate) async fn run(desk: &Desk, mut args: RunArgs) -> Result<u8, Refusal> {
    flock::name_key(&mut args)?;
    let first = first_key(&args.keys)?;
    let grace = span::wait(args.kill_after.as_deref(), "--kill-after", DEFAULT_GRACE)?;
    let ask = read(desk, &args)?;
    let (mode, patience) = (ask.mode, ask.wait);
    let who = who(args.label.take(), command_name(&args.command), Some(std::process::id()))?;
    // Both before the first wait: a signal that comes just after the grant is the command's.
    let group = Group::choose();
    let (mut interrupts, signals) = (Interrupts::listen()?, Signals::listen(group)?);
    let locks = match session(desk, who).await {
        Err(refusal) if unlocked::is_allowed(&args, &refusal) => {
            return unlocked::run(desk, &args, &first, group, grace, signals).await;
        }
        locks => locks?,
    };
    let held = match wait(desk, &locks, ask, &mut interrupts).await {
        Ok(Waited::Held(held)) => held,
        Ok(Waited::Stopped(stop)) => {
            locks.end().await?;
            desk.say.talk(&format!("bell: interrupted: no longer waiting for {first}"));
            return Ok(stop.exit());
        }
        Err(denied) => {
            let in_the_way = matches!(denied, Denied::Busy(_) | Denied::TimedOut(_));
            let refusal = Refusal::about(&first)(denied);
            let _ = locks.end().await;
            if unlocked::is_allowed(&args, &refusal) {
                return unlocked::run(desk, &args, &first, group, grace, signals).await;
            }
            if !in_the_way {
                return Err(refusal);
            }
            desk.say.refuse(&refusal);
            return Ok(args.conflict_exit_code);
        }
    };
    let flocked = flock::take(args.flock.as_deref(), mode, patience, &mut interrupts).await;
    let code = match flocked {
        Ok(Flocked::Held(_flock)) => match Child::start(&args.command, group, &first, &held) {
            Ok(child) => supervise(&desk.say, child, &held, grace, signals).await,
            Err(refusal) => Err(refusal),
        },
        Ok(Flocked::Busy(refusal)) => {
            desk.say.refuse(&refusal);
            Ok(args.conflict_exit_code)
        }
        Ok(Flocked::Stopped(stop)) => Ok(stop.exit()),
        Err(refusal) => Err(refusal),
    };
    give_back(desk, locks, held).await;
    code
}

fn read(desk: &Desk, args: &RunArgs) -> Result<Ask, Refusal> {
    let default = Ttl::new(Duration::from_secs(DEFAULT_TTL_S)).unwrap_or(Ttl::DEFAULT);
    let asked = span::ttl(args.ttl.as_deref(), default)?;
    let ttl = if desk.gateway().is_some() { through_gateway(asked) } else { asked };
    let default = if args.nonblock { Duration::ZERO } else { WITHOUT_LIMIT };
    let wait = span::wait(args.wait.as_deref(), "--wait", default)?;
    ask(&args.keys, args.mode(), ttl, wait)
}

/// The ttl of a lease that is renewed through a gateway: renewals keep it for as long as the command runs, whatever the ttl.
fn through_gateway(asked: Ttl) -> Ttl {
    Ttl::new(asked.length().min(GATEWAY_TTL_MAX)).unwrap_or(asked)
}

/// A session of this command's own, so that two commands exclude each other, also inside one run.
async fn session(desk: &Desk, who: Identity) -> Result<Locks, Refusal> {
    let request = SessionRequest { label: who.label.clone(), pid: who.pid, ..SessionRequest::default() };
    if let Some(client) = desk.run() {
        let leases = leases::Leases::of_run(client.session(&request).await?);
        return Ok(Locks::new(Arc::new(leases), who)?);
    }
    if let Some(key) = desk.gateway() {
        let request = SessionRequest { node: who.node.clone(), ..request };
        let leases = leases::Leases::of_gateway(key.session(&request).await?);
        return Ok(Locks::new(Arc::new(leases), who)?);
    }
    Ok(Locks::new(desk.store().await?.backend.clone(), who)?)
}

async fn wait(desk: &Desk, locks: &Locks, ask: Ask, interrupts: &mut Interrupts) -> Result<Waited, Denied> {
    let keys = ask.keys.clone();
    let mut progress = Progress::new(&desk.say);
    let follow = async {
        match desk.store().await {
            Ok(opened) => progress.follow(&opened.coord, locks.session().id(), &keys).await,
            Err(_) => progress.tell("waiting for the lock").await,
        }
    };
    tokio::select! {
        held = locks.lock_all(ask) => Ok(Waited::Held(held?)),
        stop = interrupts.next() => Ok(Waited::Stopped(stop)),
        never = follow => match never {},
    }
}

/// Ends the session: every lock is free, whoever of the command's processes still lives.
async fn give_back(desk: &Desk, locks: Locks, held: Vec<Held>) {
    // Without renewals, and without a release for each: the end of the session is one commit.
    held.into_iter().for_each(|held| drop(held.forget()));
    if let Err(denied) = locks.end().await {
        desk.say.talk(&format!("bell: could not give the lock back, it ends with its ttl: {denied}"));
    }
}

fn command_name(command: &[std::ffi::OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.map_or_else(|| "bell".to_owned(), |name| name.to_string_lossy().into_owned())
}
