//! What comes from outside: triggers, some of them twice, and what operators do.

use std::sync::Arc;
use std::time::Duration;

use bell_control::limits::{room, rules};
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_coord::{Coord, Denied};
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::job::{JobSpec, Trigger};
use bell_core::work::pause::Extent;
use bell_project::agent::Agent;
use tokio::time::sleep;

use crate::journal::Event;
use crate::process::Process;
use crate::setting::keys;
use crate::world::World;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(700);

/// Sends the triggers of a story, at random moments of the storm.
pub(crate) fn send_triggers(world: &Arc<World>) {
    for n in 0..world.setting.triggers {
        let process = world.process(&world.outside, &format!("trigger{n}"));
        let (world, this) = (Arc::clone(world), Arc::clone(&process));
        process.spawn(async move {
            let storm_ms = u64::try_from(world.setting.storm.as_millis()).unwrap_or(u64::MAX);
            sleep(this.chance.ms(0, storm_ms)).await;
            trigger(&world, &this).await;
        });
    }
}

/// One trigger, or a few together; a delivery may come twice.
async fn trigger(world: &Arc<World>, process: &Arc<Process>) {
    let chance = &process.chance;
    let agents: Vec<&Arc<Agent>> = world.setting.loaded.agents.values().collect();
    let agent = chance.pick(&agents);
    let coord = world.coord(process);
    let count = if chance.one_in(5) { 3 } else { 1 };
    let mut offers: Vec<Offer> = (0..count).map(|_| offer(agent, process)).collect();
    let times = if chance.one_in(3) { 2 } else { 1 };
    for _ in 0..times {
        ask(world, process, &coord, agent, &offers).await;
        for offer in &mut offers {
            // The same delivery, by somebody who does not know that it came before.
            if offer.once.is_some() {
                offer.id = new_job();
            }
        }
    }
}

fn offer(agent: &Agent, process: &Process) -> Offer {
    let delivery = process.chance.next().to_string();
    let (trigger, once) = if process.chance.one_in(2) {
        (Trigger::Manual { by: None }, None)
    } else {
        let (source, once) = ("github".into(), format!("github-{delivery}"));
        (Trigger::Webhook { source, delivery: delivery.into() }, Some(once))
    };
    let spec = JobSpec { agent: agent.name.clone(), trigger, rules: rules(agent) };
    Offer { id: new_job(), spec, payload: "{}".into(), once, at: wall_now() }
}

/// Asks until there is an answer: without one, nobody knows.
async fn ask(world: &Arc<World>, process: &Arc<Process>, coord: &Coord, agent: &Agent, offers: &[Offer]) {
    loop {
        match coord.accept(offers, room(agent)).await {
            Ok(answers) => {
                for (offer, answer) in offers.iter().zip(answers) {
                    let job = match answer {
                        Accepted::Queued { .. } => offer.id.clone(),
                        Accepted::Duplicate(job) => job,
                        Accepted::Full => continue,
                    };
                    world.server.happened(process, &Event::Accepted(job));
                }
                return;
            }
            Err(Denied::Unavailable(_)) => sleep(RETRY_AFTER).await,
            Err(_) => return,
        }
    }
}

/// Something that an operator does now.
pub(crate) fn operate(world: &Arc<World>) {
    let process = world.process(&world.outside, "operator");
    let (world, this) = (Arc::clone(world), Arc::clone(&process));
    process.spawn(async move {
        let coord = world.coord(&this);
        // An operator who is refused, or gets no answer, leaves it at that.
        let _ = act(&world, &this, &coord).await;
        this.kill();
    });
}

async fn act(world: &Arc<World>, process: &Arc<Process>, coord: &Coord) -> Result<(), Denied> {
    let chance = &process.chance;
    match chance.between(0, 4) {
        0 => {
            let agents: Vec<_> = world.setting.loaded.agents.keys().cloned().map(Extent::Agent).collect();
            let extent = if chance.one_in(2) { Extent::Fleet } else { chance.pick(&agents).clone() };
            coord.pause(&extent, "for a while").await?;
            sleep(chance.ms(500, 6_000)).await;
            coord.resume_work(&extent).await.map(drop)
        }
        1 => {
            let slots = coord.pool().await?.slots;
            let Some(slot) = slots.first() else { return Ok(()) };
            coord.kill(&slot.run, "an operator said so").await.map(drop)
        }
        2 => {
            let jobs: Vec<_> = world.server.checker().state().jobs.keys().cloned().collect();
            if jobs.is_empty() { Ok(()) } else { coord.cancel(chance.pick(&jobs)).await.map(drop) }
        }
        3 => {
            let undone = coord.undone(None, 5).await?.rows;
            let Some((_, (job, _))) = undone.first() else { return Ok(()) };
            coord.replay(job, 3).await.map(drop)
        }
        _ => coord.break_lock(chance.pick(&keys()), "it hangs", "operator").await.map(drop),
    }
}

/// What a fresh client finds when the fleet has come to rest: every pause ended, every lock free.
pub(crate) async fn resume_everything(world: &Arc<World>) {
    let process = world.process(&world.outside, "resume");
    let (world, this) = (Arc::clone(world), Arc::clone(&process));
    process.spawn(async move {
        let coord = world.coord(&this);
        let agents = world.setting.loaded.agents.keys().cloned().map(Extent::Agent);
        for extent in agents.chain([Extent::Fleet]) {
            while coord.resume_work(&extent).await.is_err() {
                sleep(RETRY_AFTER).await;
            }
        }
        this.kill();
    });
    process.died().await;
}
