//! `bell stat`: how a fleet stands, agent by agent. Read from the project and its store, with or without a daemon.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::work::agent::AgentName;
use bell_core::work::line::Pool;
use bell_project::agent::Agent;
use bell_project::cron::Timestamp;
use bell_store::clock::wall;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::StatArgs;
use crate::say::Say;
use crate::span::ms;
use crate::work::open;

#[derive(Serialize)]
struct Stat {
    outcome: Outcome,
    /// Daemons that are there.
    daemons: usize,
    /// What runs, in the whole fleet.
    running: usize,
    /// How many may run; `None`: as many as the agents allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<u32>,
    /// Why nothing may start, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    agents: Vec<AgentStat>,
}

#[derive(Serialize)]
struct AgentStat {
    agent: AgentName,
    scale: u32,
    running: usize,
    waiting: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    /// When its schedule fires next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Shows how the fleet stands. Answers the exit code.
pub(crate) async fn stat(say: &Say, store: Option<&str>, args: &StatArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let pool = project.coord.pool().await?;
    let mut agents = Vec::new();
    for agent in project.loaded.agents.values() {
        let waiting = project.coord.line(&agent.name).await?.waiting;
        agents.push(agent_stat(agent, &pool, waiting));
    }
    let stat = Stat {
        outcome: Outcome::Listed,
        daemons: bell_daemon::flow::nodes(&project.coord).await?,
        running: pool.slots.len(),
        scale: project.loaded.settings.scale,
        paused: pool.paused.map(|pause| pause.reason),
        agents,
    };
    let _ = say.answer(&stat, || lines(&stat));
    Ok(exit::OK)
}

fn agent_stat(agent: &Agent, pool: &Pool, waiting: u32) -> AgentStat {
    let now = i64::try_from(ms(wall())).ok().and_then(|now| Timestamp::from_millisecond(now).ok());
    let schedule = agent.schedule().filter(|_| agent.is_enabled());
    AgentStat {
        agent: agent.name.clone(),
        scale: agent.settings.scale,
        running: pool.slots_of(&agent.name).count(),
        waiting,
        paused: pool.paused_agents.get(&agent.name).map(|pause| pause.reason.clone()),
        next: schedule
            .zip(now)
            .and_then(|(schedule, now)| schedule.next_after(now))
            .map(|next| next.to_string()),
    }
}

fn lines(stat: &Stat) -> String {
    let daemons = match stat.daemons {
        0 => "no daemon runs: bell up".to_owned(),
        1 => "1 daemon".to_owned(),
        many => format!("{many} daemons"),
    };
    let of = stat.scale.map(|scale| format!(" of {scale}")).unwrap_or_default();
    let paused = stat.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
    let mut lines = vec![format!("{daemons}, {}{of} running{paused}", stat.running)];
    for agent in &stat.agents {
        let paused = agent.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
        let next = agent.next.as_ref().map(|next| format!(", next at {next}")).unwrap_or_default();
        let name = agent.agent.as_str();
        lines.push(format!(
            "{name:24} {} of {} running, {} waiting{paused}{next}",
            agent.running, agent.scale, agent.waiting
        ));
    }
    lines.join("\n")
}
