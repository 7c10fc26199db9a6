//! Ticks of schedules: each nominal time is decided once in the fleet, whoever is awake.
//!
//! What was decided is in the store, so a daemon that was away knows where it left off, and one that is late finds
//! that another was not. Time here is the calendar's: this machine's wall clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::accept::Offer;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{Fire, Fired, Overlap, Tick, Verdict};
use bell_core::work::job::{JobSpec, Trigger};
use bell_project::agent::Agent;
use bell_project::cron::{Schedule, due};
use bell_project::settings;
use jiff::Timestamp;

use crate::site::{Site, caps, room, rules};

/// The longest sleep. A wall clock that was set is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(20);

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decides ticks until dropped.
pub(crate) async fn keep_time(site: Arc<Site>) {
    let mut project = site.project.clone();
    let mut timer = Timer { site, considered: BTreeMap::new() };
    loop {
        let sleep = match timer.tick().await {
            Ok(next) => next.map_or(MAX_SLEEP, |next| until(next).min(MAX_SLEEP)),
            Err(error) => {
                tracing::warn!(%error, "could not decide on schedules");
                RETRY_AFTER
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            changed = project.changed() => if changed.is_err() { return },
        }
    }
}

struct Timer {
    site: Arc<Site>,
    /// Up to when each agent's schedule has been decided.
    considered: BTreeMap<AgentName, Timestamp>,
}

impl Timer {
    /// Decides everything that is due; answers when the next will be.
    async fn tick(&mut self) -> Result<Option<Timestamp>, Denied> {
        let loaded = self.site.loaded();
        self.considered
            .retain(|name, _| loaded.agents.get(name).is_some_and(|agent| agent.schedule().is_some()));
        let mut next: Option<Timestamp> = None;
        for agent in loaded.agents.values() {
            let Some(schedule) = agent.schedule() else { continue };
            let wake = self.decide(agent, &schedule).await?;
            next = [next, wake].into_iter().flatten().min();
        }
        Ok(next)
    }

    async fn decide(&mut self, agent: &Arc<Agent>, schedule: &Schedule) -> Result<Option<Timestamp>, Denied> {
        let considered = self.considered(agent).await?;
        let jitter = agent.settings.jitter.get();
        let late = |nominal: Timestamp| nominal + schedule.delay(&agent.name, nominal, jitter);
        let now = now();
        let first = schedule.next_after(considered);
        if let Some(first) = first.filter(|first| now >= late(*first)) {
            // A tick that is meant to be late is not late.
            let meant = now - schedule.delay(&agent.name, first, jitter);
            let due = due(schedule, considered, meant, agent.settings.catchup.as_ref());
            for missed in &due.missed {
                self.site.coord.miss(&tick(agent, missed.nominal), missed.reason.words()).await?;
            }
            for nominal in &due.fire {
                self.fire(agent, *nominal).await?;
            }
            self.considered.insert(agent.name.clone(), due.considered);
            return Ok(schedule.next_after(due.considered).map(late));
        }
        Ok(first.map(late))
    }

    /// Up to when this agent's schedule has been decided: by this daemon, or by the one before it. For an agent
    /// that never fired, up to now.
    async fn considered(&mut self, agent: &Agent) -> Result<Timestamp, Denied> {
        if let Some(considered) = self.considered.get(&agent.name) {
            return Ok(*considered);
        }
        let last = self.site.coord.fires(&agent.name, None, 1).await?;
        let last = last.rows.first().and_then(|(nominal, _)| timestamp(*nominal));
        let considered = last.unwrap_or_else(now);
        self.considered.insert(agent.name.clone(), considered);
        Ok(considered)
    }

    async fn fire(&self, agent: &Arc<Agent>, nominal: Timestamp) -> Result<(), Denied> {
        let loaded = self.site.loaded();
        let fired = self.site.coord.fire(&tick(agent, nominal), caps(&loaded, agent), room(agent)).await?;
        if let Fired::Now(Fire { verdict, .. }) = fired {
            match verdict {
                Verdict::Job { job } => tracing::info!(agent = %agent.name, %nominal, %job, "schedule fired"),
                Verdict::Skipped { reason } => {
                    tracing::warn!(agent = %agent.name, %nominal, reason, "schedule skipped");
                }
            }
        }
        Ok(())
    }
}

fn tick(agent: &Agent, nominal: Timestamp) -> Tick {
    let nominal_wall = wall(nominal);
    let trigger = Trigger::Cron { nominal: nominal_wall };
    let spec = JobSpec { agent: agent.name.clone(), trigger, rules: rules(agent) };
    let payload = serde_json::json!({ "scheduled": nominal.to_string() }).to_string();
    let overlap = match agent.settings.overlap {
        settings::Overlap::Skip => Overlap::Skip,
        settings::Overlap::QueueOne => Overlap::QueueOne,
        settings::Overlap::Queue => Overlap::Queue,
    };
    let offer = Offer { id: new_job(), spec, payload, once: None, at: wall_now() };
    Tick { agent: agent.name.clone(), nominal: nominal_wall, offer, overlap }
}

fn now() -> Timestamp {
    timestamp(wall_now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn until(moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now())).unwrap_or(Duration::ZERO)
}

fn timestamp(wall: Wall) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(wall.0).ok()?).ok()
}

fn wall(moment: Timestamp) -> Wall {
    Wall(u64::try_from(moment.as_millisecond()).unwrap_or(0))
}
