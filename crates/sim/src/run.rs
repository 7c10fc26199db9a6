//! A run and its supervisor: it takes the session over, takes what it must have, begins, works, and records its end.

use std::sync::Arc;
use std::time::Duration;

use bell_control::limits::{room, rules};
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_coord::{Ask, Coord, Denied, Session, Token};
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::agent::AgentName;
use bell_core::work::claim::Begun;
use bell_core::work::job::{JobSpec, Trigger};
use bell_core::work::run::{End, RunId};
use bell_core::work::speak::Word;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::holding::Holder;
use crate::journal::Event;
use crate::process::Process;
use crate::setting::keys;
use crate::world::World;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What a supervisor needs to act for its run.
pub(crate) struct Warrant {
    pub(crate) agent: AgentName,
    pub(crate) run: RunId,
    pub(crate) token: Token,
    /// Tells the daemon how it ended; dropped with the process.
    pub(crate) exit: oneshot::Sender<End>,
}

/// A run from its start to its end.
pub(crate) async fn supervise(world: Arc<World>, process: Arc<Process>, warrant: Warrant) {
    let Warrant { agent, run, token, exit } = warrant;
    let slow = process.chance.one_in(16);
    sleep(if slow { process.chance.ms(5_000, 18_000) } else { process.chance.ms(2, 120) }).await;
    let coord = world.coord(&process);
    let end = match coord.take_over(&token).await {
        Err(Denied::Lost(_)) => End::Lost,
        Err(denied) => unstartable(&denied),
        Ok(session) => {
            let playing = Playing { world, process: Arc::clone(&process), coord, session, agent, run };
            let end = playing.to_the_end().await;
            while playing.coord.finish(&playing.run, &end).await.is_err() {
                sleep(RETRY_AFTER).await;
            }
            end
        }
    };
    // Nobody may be there to hear it.
    let _ = exit.send(end);
    process.kill();
}

struct Playing {
    world: Arc<World>,
    process: Arc<Process>,
    coord: Coord,
    session: Session,
    agent: AgentName,
    run: RunId,
}

impl Playing {
    async fn to_the_end(&self) -> End {
        if let Err(end) = self.begin().await {
            return end;
        }
        tokio::select! {
            biased;
            () = self.session.over() => End::Lost,
            end = self.told_to_end() => end,
            end = self.work() => end,
        }
    }

    /// Takes the locks that the agent must have before it starts, and then the run itself.
    async fn begin(&self) -> Result<(), End> {
        if self.agent.as_str() == "clock"
            && let Some(key) = keys().into_iter().next()
        {
            self.coord.acquire(&self.session, &Ask::new(key)).await.map_err(|denied| match denied {
                Denied::Busy(_) => End::Busy { reason: denied.to_string() },
                other => unstartable(&other),
            })?;
        }
        match self.coord.begin(&self.run, None).await.map_err(|denied| unstartable(&denied))? {
            Begun::Now => Ok(()),
            Begun::TooLate => Err(End::Lost),
            Begun::Killed(reason) => Err(End::Killed { reason }),
        }
    }

    async fn told_to_end(&self) -> End {
        loop {
            match self.coord.kill_wanted(&self.run).await {
                Ok(Some(reason)) => return End::Killed { reason },
                Ok(None) => return End::Lost,
                Err(_) => sleep(RETRY_AFTER).await,
            }
        }
    }

    /// What the agent does: something at random, a few times, each a little later.
    async fn work(&self) -> End {
        let chance = &self.process.chance;
        for _ in 0..chance.between(1, 3) {
            if !self.session.is_over() {
                self.world.server.happened(&self.process, &Event::Worked(self.run.clone()));
            }
            let Self { world, process, coord, session, .. } = self;
            // Whatever an agent is refused, it goes on with something else.
            match chance.between(0, 7) {
                0..=3 => drop(Holder { world, process, coord, session }.use_some().await),
                4 => drop(coord.speak(&self.run, session, &Word::Status("at it".to_owned())).await),
                5 if chance.one_in(2) => drop(coord.speak(&self.run, session, &Word::Rerun).await),
                6 if self.agent.as_str() == "desk" => self.call().await,
                _ => {}
            }
            sleep(chance.ms(30, 1_500)).await;
        }
        match chance.between(0, 9) {
            0 => End::Failed { code: 1 },
            1 => End::Crashed { signal: 11 },
            2 => End::Timeout,
            _ => End::Completed,
        }
    }

    /// Calls the helper, once, however often it has to ask.
    async fn call(&self) {
        let Some(helper) = self.world.setting.loaded.agents.values().find(|a| a.name.as_str() == "helper")
        else {
            return;
        };
        let trigger = Trigger::Call { caller: self.run.clone(), depth: 1 };
        let spec = JobSpec { agent: helper.name.clone(), trigger, rules: rules(helper) };
        let once = Some(format!("call-{}-{}", self.run, self.process.chance.between(0, 1)));
        let offer = Offer { id: new_job(), spec, payload: "{}".into(), once, at: wall_now() };
        for _ in 0..5 {
            match self.coord.accept(std::slice::from_ref(&offer), room(helper)).await.as_deref() {
                Ok([Accepted::Queued { .. }]) => {
                    return self.world.server.happened(&self.process, &Event::Accepted(offer.id));
                }
                Ok(_) => return,
                Err(_) => sleep(RETRY_AFTER).await,
            }
        }
    }
}

fn unstartable(denied: &Denied) -> End {
    match denied {
        Denied::Unavailable(_) => End::not_started(denied.to_string()),
        _ => End::unstartable(denied.to_string()),
    }
}
