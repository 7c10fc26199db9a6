//! Ticks of schedules: each nominal time is decided once in the fleet, whoever is awake.
//!
//! What was decided is in the store, so a daemon that was away knows where it left off, and one that is late finds
//! that another was not. Time here is the calendar's: this machine's wall clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bell_control::limits::{caps, room, rules};
use bell_coord::Denied;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::accept::Offer;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{Fire, Fired, Overlap, SET_AHEAD_OVER, Tick, Verdict};
use bell_core::work::job::{JobSpec, Trigger};
use bell_project::agent::Agent;
use bell_project::cron::{Reason, Schedule, due};
use bell_project::settings;
use bell_store::clock::boottime;
use jiff::Timestamp;

use crate::outage_log::OutageLog;
use crate::site::Site;
use crate::wall_watch::{Wall as WallClock, WallWatch};

/// The longest sleep. A wall clock that was set is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(20);

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decides ticks until dropped.
pub async fn keep_time(site: Arc<Site>) {
    let mut project = site.project.clone();
    let watch = WallWatch::new(now(), boottime());
    let mut timer = Timer { site, considered: BTreeMap::new(), wakes: BTreeMap::new(), watch };
    let mut outage = OutageLog::new("decide on schedules");
    loop {
        let sleep = match timer.tick().await {
            Ok(next) => {
                outage.worked();
                next.map_or(MAX_SLEEP, |next| until(next).min(MAX_SLEEP))
            }
            Err(error) => {
                outage.failed(&error);
                RETRY_AFTER
            }
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(sleep) => {}
            changed = project.changed() => if changed.is_err() { return },
        }
    }
}

struct Timer {
    site: Arc<Site>,
    /// Up to when each agent's schedule has been decided.
    considered: BTreeMap<AgentName, Timestamp>,
    /// When each agent's next tick comes, as the agent was then: a calendar is not searched again for what is known.
    wakes: BTreeMap<AgentName, (Arc<Agent>, Timestamp)>,
    watch: WallWatch,
}

/// Up to when ticks are decided.
#[derive(Clone, Copy)]
enum Until {
    /// Time went on to this moment.
    Elapsed(Timestamp),
    /// The wall clock was set ahead to it: what lies between did not elapse.
    SetAhead(Timestamp),
}

impl Until {
    fn moment(self) -> Timestamp {
        match self {
            Self::Elapsed(moment) | Self::SetAhead(moment) => moment,
        }
    }

    /// Why a tick up to here does not fire.
    fn words(self, reason: Reason) -> &'static str {
        match (self, reason) {
            (Self::SetAhead(_), Reason::NotCaughtUp) => SET_AHEAD_OVER,
            _ => reason.words(),
        }
    }
}

impl Timer {
    /// Decides everything that is due; answers when the next will be.
    async fn tick(&mut self) -> Result<Option<Timestamp>, Denied> {
        let now = now();
        let WallClock::Set { expected } = self.watch.look(now, boottime()) else {
            return self.decide_all(Until::Elapsed(now)).await;
        };
        tracing::warn!(%expected, %now, "the wall clock was set");
        self.wakes.clear();
        // What elapsed before it was set is due whatever it shows now.
        let elapsed = self.decide_all(Until::Elapsed(expected)).await;
        self.wakes.clear();
        if now < expected {
            self.considered.values_mut().for_each(|considered| *considered = now.min(*considered));
        }
        elapsed?;
        self.decide_all(Until::SetAhead(now)).await
    }

    async fn decide_all(&mut self, until: Until) -> Result<Option<Timestamp>, Denied> {
        let loaded = self.site.loaded();
        self.considered
            .retain(|name, _| loaded.agents.get(name).is_some_and(|agent| agent.schedule().is_some()));
        let mut next: Option<Timestamp> = None;
        let known = std::mem::take(&mut self.wakes);
        for agent in loaded.agents.values() {
            let wake = match known.get(&agent.name) {
                Some((before, wake)) if Arc::ptr_eq(before, agent) && until.moment() < *wake => Some(*wake),
                _ => match agent.schedule() {
                    Some(schedule) => self.decide(agent, &schedule, until).await?,
                    None => None,
                },
            };
            if let Some(wake) = wake {
                self.wakes.insert(agent.name.clone(), (Arc::clone(agent), wake));
            }
            next = [next, wake].into_iter().flatten().min();
        }
        Ok(next)
    }

    async fn decide(
        &mut self,
        agent: &Arc<Agent>,
        schedule: &Schedule,
        until: Until,
    ) -> Result<Option<Timestamp>, Denied> {
        let considered = self.considered(agent).await?;
        let jitter = agent.settings.jitter.get();
        let late = |nominal: Timestamp| nominal + schedule.delay(&agent.name, nominal, jitter);
        let now = until.moment();
        let first = schedule.next_after(considered);
        if let Some(first) = first.filter(|first| now >= late(*first)) {
            // A tick that is meant to be late is not late.
            let meant = now - schedule.delay(&agent.name, first, jitter);
            let due = due(schedule, considered, meant, agent.settings.catchup.as_ref());
            for missed in &due.missed {
                let words = until.words(missed.reason);
                match self.site.coord.miss(&tick(agent, missed.nominal), words).await? {
                    Fired::Now(fire) if words == SET_AHEAD_OVER => self.site.metrics.fired(&fire.verdict),
                    Fired::Now(_) => self.site.metrics.missed(),
                    Fired::Before(_) | Fired::Occupied(_) => {}
                }
            }
            for nominal in &due.fire {
                self.fire(agent, *nominal).await?;
            }
            self.considered.insert(agent.name.clone(), due.considered);
            return Ok(schedule.next_after(due.considered).map(late));
        }
        Ok(first.map(late))
    }

    /// Up to when this agent's schedule has been decided: by this daemon, or by the one before it. A schedule that
    /// nobody has seen before counts from now on.
    async fn considered(&mut self, agent: &Agent) -> Result<Timestamp, Denied> {
        if let Some(considered) = self.considered.get(&agent.name) {
            return Ok(*considered);
        }
        let last = self.site.coord.fires(&agent.name, None, 1).await?;
        let last = last.rows.first().and_then(|(nominal, fire)| timestamp(fire.decided_until(*nominal)));
        let considered = match last {
            // A clock that was set back since has ticks before it that are not decided yet.
            Some(last) => last.min(now()),
            None => {
                let first = now();
                match self.site.coord.first_seen(&agent.name, wall(first)).await? {
                    // Another node saw it in the same moment, and counts from its own.
                    Fired::Before(fire) => timestamp(fire.at).unwrap_or(first),
                    Fired::Now(_) | Fired::Occupied(_) => first,
                }
            }
        };
        self.considered.insert(agent.name.clone(), considered);
        Ok(considered)
    }

    async fn fire(&self, agent: &Arc<Agent>, nominal: Timestamp) -> Result<(), Denied> {
        let loaded = self.site.loaded();
        let fired = self.site.coord.fire(&tick(agent, nominal), caps(&loaded, agent), room(agent)).await?;
        if let Fired::Now(Fire { verdict, .. }) = fired {
            self.site.metrics.fired(&verdict);
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
    let offer = Offer { id: new_job(), spec, payload: payload.into(), once: None, at: wall_now() };
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
