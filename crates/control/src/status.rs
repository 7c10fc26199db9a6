//! How a fleet stands, agent by agent. Read from the project and its store, with or without a daemon.

use std::sync::Arc;
use std::time::Duration;

use bell_api::control::status::{
    AgentAnswer, AgentShown, AgentStatus, AgentsAnswer, Attention, AttentionKind, LockStatus, Scaled,
    StatusAnswer, StatusQuery,
};
use bell_api::outcome::Outcome;
use bell_coord::work::wall_now;
use bell_core::inspect::LockState;
use bell_core::work::agent::AgentName;
use bell_core::work::line::{Pool, Slot};
use bell_core::work::run::RunId;
use bell_project::agent::Agent;
use bell_project::cron::Schedule;
use bell_project::load::Loaded;
use bell_project::nearest::nearest;
use bell_project::settings::IsolationLevel;
use bell_runner::isolation::{HINT, Means};
use bell_why::words::timestamp;

use crate::control::{Control, agent_name};
use crate::limits::caps;
use crate::nodes;
use crate::refused::Refused;
use crate::store_history::StoreHistory;

/// The next fires that are told of each agent.
const NEXT: usize = 5;
/// Locks that are told.
const LOCKS: usize = 100;
/// Entries of `attention` in an answer: two screens. `bell check` has every broken file.
const ATTENTION: usize = 100;

/// What runs and what is paused, as the agents are seen beside it.
struct Standing {
    pool: Pool,
    living: Vec<Slot>,
    lost: usize,
}

impl Control {
    /// How the fleet stands.
    ///
    /// # Errors
    /// If there is no such agent, or the store can't be read.
    pub async fn status(&self, query: &StatusQuery) -> Result<StatusAnswer, Refused> {
        let loaded = self.loaded();
        let standing = self.standing().await?;
        let mut agents = Vec::new();
        for agent in wanted(&loaded, query.agent.as_deref())? {
            agents.push(self.agent_status(&loaded, agent, &standing).await?);
        }
        let orphaned = if query.agent.is_none() { self.orphaned(&loaded).await? } else { Vec::new() };
        let of_orphaned: u32 = orphaned.iter().map(|(_, waiting)| waiting).sum();
        let attention = self.attention(&loaded, &orphaned);
        let (locks, more_locks) = match self.held(query.agent.as_deref()).await {
            // A store of locks alone that the daemon does not use: attention says so, and the rest is still of use.
            Err(_) if attention.iter().any(|entry| entry.kind.is_of_store()) => (Vec::new(), false),
            held => held?,
        };
        Ok(StatusAnswer {
            outcome: Outcome::Listed,
            daemons: nodes::count(&self.coord).await?,
            running: standing.living.len(),
            lost: standing.lost,
            scale: loaded.settings.scale,
            waiting: agents.iter().map(|agent| agent.waiting).sum::<u32>() + of_orphaned,
            paused: standing.pool.paused.map(|pause| pause.reason),
            broken: loaded.problems.iter().filter(|problem| problem.is_error()).count(),
            attention,
            agents,
            locks,
            more_locks,
        })
    }

    /// The agents that can be run.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn agents(&self) -> Result<AgentsAnswer, Refused> {
        let loaded = self.loaded();
        let standing = self.standing().await?;
        let mut agents = Vec::new();
        for agent in loaded.agents.values() {
            agents.push(self.agent_shown(&loaded, agent, &standing).await?);
        }
        Ok(AgentsAnswer { outcome: Outcome::Listed, agents })
    }

    /// One agent.
    ///
    /// # Errors
    /// If there is no such agent, or the store can't be read.
    pub async fn agent(&self, name: &str) -> Result<AgentAnswer, Refused> {
        let loaded = self.loaded();
        let agent = find(&loaded, name)?;
        let agent = self.agent_shown(&loaded, agent, &self.standing().await?).await?;
        Ok(AgentAnswer { outcome: Outcome::Listed, agent })
    }

    /// The stores first: nothing else matters as much.
    fn attention(&self, loaded: &Loaded, orphaned: &[(AgentName, u32)]) -> Vec<Attention> {
        let histories = self.store.as_ref().map(|_| StoreHistory::all(&self.place)).unwrap_or_default();
        let of_stores = histories.iter().filter_map(|history| history.attention(&self.place));
        let means = self.isolation.and_then(|probe| probe().ok());
        let enabled = loaded.agents.values().filter(|agent| agent.is_enabled());
        let isolation = enabled.flat_map(|agent| isolation(agent, means));
        of_stores
            .chain(broken_files(loaded))
            .chain(orphaned.iter().map(without_agent))
            .chain(isolation)
            .take(ATTENTION)
            .collect()
    }

    /// Agents that the project lacks and whose jobs wait, with how many.
    async fn orphaned(&self, loaded: &Loaded) -> Result<Vec<(AgentName, u32)>, Refused> {
        let lines = self.coord.lines().await?.into_iter();
        let lacking = lines.filter(|(agent, line)| line.waiting > 0 && !loaded.agents.contains_key(agent));
        Ok(lacking.map(|(agent, line)| (agent, line.waiting)).collect())
    }

    async fn standing(&self) -> Result<Standing, Refused> {
        let pool = self.coord.pool().await?;
        let (living, dead): (Vec<_>, Vec<_>) =
            self.coord.slots().await?.into_iter().partition(|(_, alive)| *alive);
        let living = living.into_iter().map(|(slot, _)| slot).collect();
        Ok(Standing { pool, living, lost: dead.len() })
    }

    async fn agent_shown(
        &self,
        loaded: &Loaded,
        agent: &Agent,
        standing: &Standing,
    ) -> Result<AgentShown, Refused> {
        let mut webhooks: Vec<String> =
            agent.settings.webhooks.iter().map(|rule| rule.0.source.to_string()).collect();
        webhooks.sort();
        webhooks.dedup();
        Ok(AgentShown {
            status: self.agent_status(loaded, agent, standing).await?,
            description: Some(agent.skill.description.clone()).filter(|text| !text.is_empty()),
            timeout_ms: Some(ms(agent.settings.timeout.get())),
            webhooks,
        })
    }

    async fn agent_status(
        &self,
        loaded: &Loaded,
        agent: &Agent,
        standing: &Standing,
    ) -> Result<AgentStatus, Refused> {
        let waiting = self.coord.line(&agent.name).await?.waiting;
        let Standing { pool, living, .. } = standing;
        let scale = caps(loaded, agent).as_scaled(pool, &agent.name).agent;
        let schedule = agent.schedule().filter(|_| scale > 0);
        let fires = schedule.as_ref().zip(timestamp(wall_now())).map(|(plan, now)| plan.next(now, NEXT));
        let fires: Vec<String> = fires.unwrap_or_default().iter().map(ToString::to_string).collect();
        let runs: Vec<RunId> =
            living.iter().filter(|slot| slot.agent == agent.name).map(|slot| slot.run.clone()).collect();
        Ok(AgentStatus {
            agent: agent.name.clone(),
            scale: u32::try_from(scale).unwrap_or(u32::MAX),
            scaled: pool.scales.get(&agent.name).map(|said| Scaled {
                default: agent.settings.scale,
                since_ms: said.since.0,
                reason: said.reason.clone(),
            }),
            running: runs.len(),
            runs,
            waiting,
            queue_size: agent.settings.work_queue_size,
            paused: pool.paused_agents.get(&agent.name).map(|pause| pause.reason.clone()),
            schedule: schedule.as_ref().map(written),
            next: fires.first().cloned(),
            fires,
        })
    }

    /// Keys that are held or waited for; with an agent, those that its runs have to do with.
    async fn held(&self, agent: Option<&str>) -> Result<(Vec<LockStatus>, bool), Refused> {
        let listing = self.locks.list("", None, LOCKS).await?;
        let is_its = |state: &LockState| {
            let mut holders = state.holders.iter().map(|holder| &holder.who);
            let mut waiting = state.waiting.iter().map(|waiter| &waiter.who);
            agent.is_none()
                || holders.any(|who| who.agent.as_deref() == agent)
                || waiting.any(|who| who.agent.as_deref() == agent)
        };
        let shown = listing.locks.iter().filter(|state| !state.key.is_reserved() && is_its(state));
        Ok((shown.map(lock_status).collect(), listing.next.is_some()))
    }
}

fn without_agent((agent, waiting): &(AgentName, u32)) -> Attention {
    let jobs = if *waiting == 1 { "1 job waits".to_owned() } else { format!("{waiting} jobs wait") };
    Attention {
        kind: AttentionKind::JobsWithoutAgent,
        subject: agent.to_string(),
        message: format!("{jobs} for an agent that the project does not have"),
        hint: Some("Put the agent's folder back, or mend its files; its jobs run then.".to_owned()),
    }
}

fn broken_files(loaded: &Loaded) -> Vec<Attention> {
    let errors = loaded.problems.iter().filter(|problem| problem.is_error()).take(ATTENTION);
    errors
        .map(|problem| Attention {
            kind: AttentionKind::BrokenFile,
            subject: problem.place.to_string(),
            message: match &problem.nearest {
                Some(name) => format!("{} (did you mean {name:?}?)", problem.message),
                None => problem.message.clone(),
            },
            hint: problem.hint.clone(),
        })
        .collect()
}

/// What an operator should know of the isolation of an agent's runs. `means` is what the machine has for it, if that is
/// known.
fn isolation(agent: &Agent, means: Option<Option<Means>>) -> Vec<Attention> {
    let settings = &agent.settings;
    let about = |kind, message: String, hint: &str| Attention {
        kind,
        subject: agent.name.to_string(),
        message,
        hint: Some(hint.to_owned()),
    };
    let mut attention = Vec::new();
    if settings.edits_project {
        let message = "its runs may change what defines the fleet".to_owned();
        attention.push(about(AttentionKind::EditsProject, message, "Leave `edits_project` out."));
    }
    attention.extend(match (settings.isolation, means) {
        (IsolationLevel::None, _) => {
            let message =
                "its runs are not isolated: they can read keys, secrets and the runs of others".to_owned();
            Some(about(AttentionKind::NotIsolated, message, "Leave `isolation` out."))
        }
        _ if settings.container.is_some() => None,
        (_, Some(None)) => {
            let message = "this machine can't isolate its runs, so they are not started".to_owned();
            Some(about(AttentionKind::CanNotIsolate, message, HINT))
        }
        (_, Some(Some(means))) => means.lacks().map(|lacks| {
            let message = format!("this machine isolates its runs only in part: {lacks}");
            about(AttentionKind::IsolatedInPart, message, "Let the daemon's user make user namespaces.")
        }),
        (_, None) => None,
    });
    attention
}

/// The agent that was named, or all.
fn wanted<'a>(loaded: &'a Loaded, name: Option<&str>) -> Result<Vec<&'a Agent>, Refused> {
    match name {
        Some(name) => Ok(vec![find(loaded, name)?]),
        None => Ok(loaded.agents.values().map(|agent| &**agent).collect()),
    }
}

/// The agent of this name.
pub(crate) fn find<'a>(loaded: &'a Loaded, name: &str) -> Result<&'a Arc<Agent>, Refused> {
    loaded.agents.get(&agent_name(name)?).ok_or_else(|| {
        let near = nearest(name, loaded.agents.keys().map(|name| name.as_str()));
        let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Refused::new(
            Outcome::NotFound,
            format!("could not find an agent called {name}{meant}"),
            "bell stat lists the agents; bell check says what is wrong with broken ones.",
        )
    })
}

fn written(schedule: &Schedule) -> String {
    format!("{} ({})", schedule.expression().as_str(), schedule.zone().name())
}

fn lock_status(state: &LockState) -> LockStatus {
    let first = state.holders.first();
    LockStatus {
        key: state.key.to_string(),
        holder: first.map(|holder| holder.who.to_string()),
        run: first.and_then(|holder| holder.who.run.clone()),
        fence: first.and_then(|holder| holder.fence).map(|fence| fence.0),
        held_ms: first.map(|holder| ms(holder.held)),
        shared_with: state.holders.len().saturating_sub(1),
        waiting: state.waiting.len(),
    }
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
