//! `bell stop`: asking the daemon of a project on this machine to stop, and waiting for it.

use std::time::Duration;

use bell_api::control::acts::StopRequest;
use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_client::Client;
use bell_control::Who;
use bell_control::place::Place;
use bell_coord::audit::act;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_why::words::count;
use rustix::process::Signal;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::StopArgs;
use crate::fleet::{Reach, open_work};
use crate::open::Access;
use crate::progress::Progress;
use crate::say::Say;

/// A daemon that takes longer to say that it is there is as good as gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the daemon is gone.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct StopAnswer {
    outcome: Outcome,
    /// The process, of a daemon of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// Jobs that the stop took out of the queues, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cleared: Option<usize>,
}

/// Stops a daemon. Answers the exit code.
///
/// Told to stop itself, it leaves: the daemon goes on stopping.
pub(crate) async fn stop(say: &Say, reach: &Reach, args: &StopArgs) -> Result<u8, Refusal> {
    if let Some(client) = reach.gateway()? {
        return stop_there(say, &client, args).await;
    }
    let project = reach.start.project()?;
    let daemon = Place::of(&project).occupant().ok_or_else(|| {
        Refusal::new(
            Outcome::NotFound,
            format!("could not find a daemon of this machine that runs the project in {}", project.display()),
            "bell stat tells whether one runs elsewhere; stop that one there.",
        )
    })?;
    if let Err(refusal) = record(reach, args).await {
        // Whoever wants to stop a daemon whose store is gone must be able to.
        say.talk(refusal.0.message.as_deref().unwrap_or("could not record who stops the daemon"));
    }
    let began = wall_now();
    daemon.signal(Signal::TERM);
    if args.now {
        // Another signal than the first: the kernel keeps one of each, so neither is lost in the other.
        daemon.signal(Signal::INT);
    }
    let gone = async {
        while daemon.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let mut progress = Progress::new(say);
    let what = if args.now {
        format!("stopping the daemon (pid {}): what runs is being ended", daemon.pid)
    } else {
        format!("stopping the daemon (pid {}): what runs may finish; --now ends it", daemon.pid)
    };
    tokio::select! {
        () = gone => {}
        never = progress.tell(&what) => match never {},
    }
    drop(progress);
    // The store may be gone: the daemon is stopped all the same.
    let cleared = cleared_since(reach, began).await.ok();
    let answer = StopAnswer { outcome: Outcome::Ended, pid: Some(daemon.pid), cleared };
    let _ = say.answer(&answer, || format!("stopped the daemon (pid {})", daemon.pid));
    if let Some(cleared @ 1..) = cleared {
        say.talk(&bring_back(cleared));
    }
    Ok(exit::OK)
}

/// How to bring back what a stop cleared.
pub(crate) fn bring_back(cleared: usize) -> String {
    format!(
        "cleared {} from the queue; to bring back what was cleared: bell jobs replay --cleared (--dry-run shows it); \
         on_stop = \"keep\" in config.toml keeps waiting jobs",
        count(cleared, "waiting job")
    )
}

async fn cleared_since(reach: &Reach, since: Wall) -> Result<usize, Refusal> {
    Ok(open_work(reach, Access::Read).await?.cleared_since(since).await?)
}

/// Stops the daemon behind a gateway, and waits until nobody answers there.
async fn stop_there(say: &Say, client: &Client, args: &StopArgs) -> Result<u8, Refusal> {
    let by = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let done = client.stop(&StopRequest { now: args.now, by }).await?;
    let gone = async {
        while client.admits_me(ANSWER_WITHIN).await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let mut progress = Progress::new(say);
    tokio::select! {
        () = gone => {}
        never = progress.tell(&done.message) => match never {},
    }
    drop(progress);
    let answer = StopAnswer { outcome: Outcome::Ended, pid: None, cleared: None };
    let _ = say.answer(&answer, || format!("stopped the daemon at {}", client.address()));
    // The store is the daemon's: what it said before it stopped is all there is to know.
    say.talk(&done.message);
    Ok(exit::OK)
}

/// Writes down who stops the daemon: a signal does not tell it.
async fn record(reach: &Reach, args: &StopArgs) -> Result<(), Refusal> {
    let who = Who::local(crate::lock::user()).recorded(None);
    let how = if args.now { "now" } else { "gently" };
    let coord = open_work(reach, Access::Read).await?;
    Ok(coord.audit(act(&who, "stop", "the daemon").because(how)).await?)
}
