//! The process that watches over one run, from before the agent starts until nothing of it is left.
//!
//! It is started by [`spawn`](crate::spawn::spawn) and then on its own: neither the death of the daemon nor a signal
//! to the daemon's group reaches it. The order of work is in `run`; starting is in `begin`, the reasons to end in
//! `orders` and `watch`, ending in `end`.

mod begin;
mod detach;
mod end;
mod orders;
mod output;
mod watch;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use bell_store::clock;
use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::{sleep, timeout};

use crate::cgroup::Group;
use crate::children::Children;
use crate::env::{Environment, MARK, RUN};
use crate::error::{Error, Kind, Result};
use crate::exit::{Exit, Reason, Usage};
use crate::hooks::Hooks;
use crate::launch::Launch;
use crate::logs::Writer;
use crate::process;
use crate::run_dir::{COVERS, RunDir};
use crate::state::State;
use crate::worktree;

pub(crate) use detach::Report;
use end::{Course, Outcome};
pub(crate) use end::{KILL_AGAIN, KILL_AGAIN_MOST, LEFT_BEHIND_GRACE};
pub(crate) use orders::KillRequest;
use orders::{Order, Orders};
use output::Pump;

/// A run that can't be begun by then had better not be: its claim lapses soon after.
const STARTING_LIMIT: Duration = Duration::from_secs(10);

/// A store that does not answer by then is not waited for: the agent's end is more urgent.
const HOOK_LIMIT: Duration = Duration::from_secs(1);

/// Once nothing runs any more there is time: what is not recorded now has to be found out by others.
const ENDED_LIMIT: Duration = Duration::from_secs(30);

/// Whatever was printed is in the pipe when the last process is gone; a stranger may still hold it open.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Supervises the run of this directory; returns when it is over. `hooks` are made once the run is its own.
///
/// To be called before this process starts a thread: its session is that of all of them.
pub fn main<H: Hooks>(run_dir: &Path, hooks: impl FnOnce() -> H) -> ExitCode {
    let runtime = detach::this_process().and_then(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| Error::io("start a supervisor", error))
    });
    finish(runtime.and_then(|runtime| runtime.block_on(run(run_dir, hooks))))
}

fn finish(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Report::Failed(error).tell();
            ExitCode::FAILURE
        }
    }
}

async fn run<H: Hooks>(run_dir: &Path, hooks: impl FnOnce() -> H) -> Result<()> {
    let dir = RunDir::open(run_dir).map_err(Error::of_machine)?;
    let mut launch = dir.launch().map_err(Error::of_machine)?;
    let claim = dir.claim().map_err(Error::of_machine)?;
    if claim.is_none() || dir.exit()?.is_some() {
        let message = format!("supervise {}: it is supervised already, or over", launch.run);
        return Err(Error::new(Kind::Gone, message));
    }
    let mut children = Children::listen().map_err(Error::of_machine)?;
    let mut orders = Orders::listen(&dir).map_err(Error::of_machine)?;
    dir.reserve().map_err(Error::of_machine)?;
    let mut log = Writer::create(&dir, launch.limits.output_bytes).map_err(Error::of_machine)?;
    let group = Group::make(&launch);
    let mut state = first_state(&launch, group.as_ref()).map_err(Error::of_machine)?;
    dir.set_state(&state).map_err(Error::of_machine)?;

    let hooks = hooks();
    let start = async {
        // Meanwhile the process that will be the agent gets ready.
        let ready = begin::ready(&mut children, &launch, group.as_ref())?;
        // And while the store is opened by others, there is time for files: where many have just been removed, as always
        // when runs end, a file system looks long for a free place for each of them.
        let taken = timeout(STARTING_LIMIT, hooks.starting());
        let (taken, prepared) = tokio::join!(taken, async { begin::prepare(&dir, &launch) });
        launch.env = launch.env.clone().and(taken.map_err(|_| too_late())??);
        prepared?;
        begin::begin(&mut children, &dir, &launch, &mut state, ready).await
    };
    let begun = tokio::select! {
        begun = start => begun,
        order = orders.next() => Err(ended_first(&order)),
    };
    let done = match begun {
        Ok(mut begun) => {
            Report::Started.tell();
            let group = group.as_ref();
            let course = Course {
                launch: &launch,
                main: &mut begun.main,
                group,
                hooks: &hooks,
                children: &mut children,
                orders: &mut orders,
            };
            let pump = Pump::new(begun.out, begun.err, &mut log);
            let outcome = follow(course, pump).await;
            let exit = exit(&launch, &state, outcome, &log);
            conclude(&dir, &exit, &hooks).await
        }
        Err(error) => {
            hooks.killing();
            end::kill_until_empty(&mut children, &launch, group.as_ref()).await;
            // Once it was about to take over, nobody can say that it did nothing.
            let (reason, error) = match state.started_ms {
                None => (Reason::NotStarted { error: error.clone() }, error),
                Some(_) => (Reason::Lost { why: error.to_string() }, error.unclear()),
            };
            let exit = exit(&launch, &state, Outcome::of(reason), &log);
            conclude(&dir, &exit, &hooks).await.and(Err(error))
        }
    };
    tidy_up(&mut children, &dir, &launch, group).await;
    drop(claim);
    done
}

/// A run that ends before its agent started. One whose supervisor has to go can be run by another.
fn ended_first(order: &Order) -> Error {
    let kind = match order {
        Order::Stop => Kind::Unavailable,
        Order::Kill(_) => Kind::Denied,
    };
    Error::new(kind, "start it: it was told to end first").hint("Run it again if its end was not meant.")
}

fn too_late() -> Error {
    Error::new(Kind::Unavailable, "start it: the store did not answer in time")
        .hint("Look whether the store can be reached (bell doctor).")
}

/// From the agent's start to the end of its last process. Its output is read all the while.
async fn follow<H: Hooks>(mut course: Course<'_, H>, mut pump: Pump<'_>) -> Outcome {
    let (hooks, program) = (course.hooks, course.main.program());
    let told = async {
        let _ = timeout(HOOK_LIMIT, hooks.started(program)).await;
    };
    let whole = async {
        let cause = beside(course.cause(), told).await;
        course.end(cause).await
    };
    let outcome = beside(whole, pump.run()).await;
    let _ = timeout(DRAIN_LIMIT, pump.run()).await;
    pump.finish();
    outcome
}

async fn tidy_up(children: &mut Children, dir: &RunDir, launch: &Launch, group: Option<Group>) {
    // Once more, for what was written for the engine of a container. What can't be forgotten only its owner can read.
    let _ = dir.forget_environment(launch);
    if launch.container.is_some() {
        let _ = std::fs::remove_dir_all(dir.path(COVERS));
    }
    if let Some(group) = group {
        group.remove();
    }
    if let Some(worktree) = &launch.worktree {
        // What can't be removed stays, as it does when it holds changes.
        let _ = worktree::remove(children, launch, worktree).await;
    }
}

async fn beside<T>(main: impl Future<Output = T>, side: impl Future<Output = ()>) -> T {
    let (mut main, mut side) = (pin!(main), pin!(side));
    let mut is_over = false;
    loop {
        tokio::select! {
            done = &mut main => return done,
            () = &mut side, if !is_over => is_over = true,
        }
    }
}

fn first_state(launch: &Launch, group: Option<&Group>) -> Result<State> {
    let failed = |error| Error::io("find out who supervises", error);
    Ok(State {
        run: launch.run.clone(),
        nonce: launch.nonce.clone(),
        boot_id: clock::boot_id().map_err(failed)?,
        supervisor: process::this().map_err(failed)?,
        agent: None,
        started_ms: None,
        cgroup: group.map(|group| group.path().to_owned()),
    })
}

fn exit(launch: &Launch, state: &State, outcome: Outcome, log: &Writer) -> Exit {
    let (code, signal) = outcome.status();
    Exit {
        run: launch.run.clone(),
        nonce: launch.nonce.clone(),
        reason: outcome.reason,
        code,
        signal,
        started_ms: state.started_ms,
        ended_ms: now_ms(),
        usage: usage(),
        output_bytes: log.seen_bytes(),
        truncated: log.is_truncated(),
        left_behind: outcome.left_behind,
        unconfirmed: outcome.unconfirmed,
        isolation: launch.isolation.as_ref().map(|isolation| isolation.means),
    }
}

/// Writes down how the run ended, then says so.
async fn conclude(dir: &RunDir, exit: &Exit, hooks: &impl Hooks) -> Result<()> {
    record(dir, exit).await?;
    let _ = timeout(ENDED_LIMIT, hooks.ended(exit)).await;
    Ok(())
}

/// Nobody else can tell how the run ended, so a disk that fails for a moment is tried again.
async fn record(dir: &RunDir, exit: &Exit) -> Result<()> {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        if dir.set_exit(exit).is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    dir.set_exit(exit)
}

/// What the kernel counted for all processes that were waited for.
fn usage() -> Usage {
    let Ok(used) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Usage::default() };
    let ms = |time: nix::sys::time::TimeVal| {
        time.tv_sec().unsigned_abs() * 1000 + time.tv_usec().unsigned_abs() / 1000
    };
    Usage {
        cpu_ms: ms(used.user_time()) + ms(used.system_time()),
        peak_memory_bytes: used.max_rss().unsigned_abs() * 1024,
    }
}

/// The environment with the marks by which every process of the run is known.
pub(crate) fn marked(env: Environment, launch: &Launch) -> Environment {
    env.with(RUN, &launch.run).with(MARK, &launch.nonce)
}

/// The wall clock in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX)
}
