//! `bell lock run`: a command that runs only while its locks are held.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `start` | starting processes: the only place that does |
//! | `child` | a command that has started: signals to it, its end |
//! | `supervise` | watching over the command and its leases |

mod child;
pub(crate) mod start;
mod supervise;

use std::path::Path;
use std::time::Duration;

use bell_coord::Denied;
use bell_core::lock::Ttl;
use bell_locks::{Ask, Held, Locks};

use crate::answer::Refusal;
use crate::cli::RunArgs;
use crate::interrupt::{Interrupts, Stop};
use crate::lock::{ask, first_key, who};
use crate::open::{Opened, Scene};
use crate::progress::Progress;
use crate::span::{self, WITHOUT_LIMIT};

use child::{Child, Group};
use supervise::{Signals, supervise};

/// It is renewed as long as the command runs, so this is only how long it outlives a machine that dies.
const DEFAULT_TTL_S: u64 = 60;
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// How a wait for locks ended.
enum Waited {
    Held(Vec<Held>),
    Stopped(Stop),
}

pub(crate) async fn run(scene: &Scene, args: RunArgs) -> Result<u8, Refusal> {
    let first = first_key(&args.keys)?;
    let grace = span::wait(args.kill_after.as_deref(), "--kill-after", DEFAULT_GRACE)?;
    let ask = read(&args)?;
    let who = who(args.label, command_name(&args.command), Some(std::process::id()))?;
    // Both before the first wait: a signal that comes just after the grant is the command's.
    let group = Group::choose();
    let (mut interrupts, signals) = (Interrupts::listen()?, Signals::listen(group)?);
    let opened = scene.open().await?;
    let locks = Locks::new(opened.backend.clone(), who)?;
    let held = match wait(scene, &opened, &locks, ask, &mut interrupts).await {
        Ok(Waited::Held(held)) => held,
        Ok(Waited::Stopped(stop)) => {
            locks.end().await?;
            scene.say.talk(&format!("bell: interrupted: no longer waiting for {first}"));
            return Ok(stop.exit());
        }
        Err(denied) => {
            let in_the_way = matches!(denied, Denied::Busy(_) | Denied::TimedOut(_));
            let refusal = Refusal::about(&first)(denied);
            let _ = locks.end().await;
            if !in_the_way {
                return Err(refusal);
            }
            scene.say.refuse(&refusal);
            return Ok(args.conflict_exit_code);
        }
    };
    let code = match Child::start(&args.command, group, &first, &held) {
        Ok(child) => supervise(scene, child, &held, grace, signals).await,
        Err(refusal) => Err(refusal),
    };
    give_back(scene, locks, held).await;
    code
}

fn read(args: &RunArgs) -> Result<Ask, Refusal> {
    let default = Ttl::new(Duration::from_secs(DEFAULT_TTL_S)).unwrap_or(Ttl::DEFAULT);
    let ttl = span::ttl(args.ttl.as_deref(), default)?;
    let default = if args.nonblock { Duration::ZERO } else { WITHOUT_LIMIT };
    let wait = span::wait(args.wait.as_deref(), "--wait", default)?;
    ask(&args.keys, args.mode(), ttl, wait)
}

async fn wait(
    scene: &Scene,
    opened: &Opened,
    locks: &Locks,
    ask: Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited, Denied> {
    let keys = ask.keys.clone();
    let mut progress = Progress::new(&scene.say);
    tokio::select! {
        held = locks.lock_all(ask) => Ok(Waited::Held(held?)),
        stop = interrupts.next() => Ok(Waited::Stopped(stop)),
        never = progress.follow(&opened.coord, locks.session().id(), &keys) => match never {},
    }
}

/// Ends the session: every lock is free, whoever of the command's processes still lives.
async fn give_back(scene: &Scene, locks: Locks, held: Vec<Held>) {
    // Without renewals, and without a release for each: the end of the session is one commit.
    held.into_iter().for_each(|held| drop(held.forget()));
    if let Err(denied) = locks.end().await {
        scene.say.talk(&format!("bell: could not give the lock back, it ends with its ttl: {denied}"));
    }
}

fn command_name(command: &[std::ffi::OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.map_or_else(|| "bell".to_owned(), |name| name.to_string_lossy().into_owned())
}
