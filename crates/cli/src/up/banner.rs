//! What `bell up` shows once it is ready: what runs here, what the store promises, what is due next, how to stop it.

use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::line::Pool;
use bell_daemon::flow::Daemon;
use bell_locks::open::redacted;
use bell_project::agent::Agent;
use bell_project::problem::Problem;
use bell_store::info::{Durability, FailOver, Info, Scope};
use bell_why::words::{count, timestamp};
use serde::Serialize;

use crate::stop::bring_back;

/// Agents that are shown one by one: more would push everything else off the screen.
const AGENTS: usize = 20;

/// A daemon that is ready.
#[derive(Serialize)]
pub(super) struct Ready {
    project: String,
    store: String,
    /// What the store promises, in words.
    promise: String,
    /// What the operator should know of the store.
    warnings: Vec<String>,
    agents: Vec<String>,
    /// When each of them fires next, in the same order.
    next: Vec<Option<String>>,
    /// Agents that don't run: paused or disabled, with the reason.
    idle: Vec<(String, String)>,
    /// Why nothing may start, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    /// Mistakes in the files of the project.
    broken: usize,
    /// Each of them, with its file and line. An agent that one of them is about does not run.
    problems: Vec<Problem>,
    /// Jobs that were cleared from a queue, by a stop or by hand, and not replayed since.
    cleared: usize,
    /// Where it answers over HTTP.
    url: String,
    /// Where the output of runs is.
    logs: String,
    pid: u32,
}

impl Ready {
    /// What there is to say about a daemon. Pauses are told as far as the store can be read.
    pub(super) async fn of(daemon: &Daemon) -> Self {
        let site = daemon.site();
        let loaded = site.loaded();
        let pool = site.coord.pool().await.unwrap_or_default();
        let cleared = site.coord.cleared_since(Wall(0)).await.unwrap_or_default();
        let info = daemon.store_info();
        Self {
            project: site.folder.path().display().to_string(),
            store: redacted(&site.store_url),
            promise: promise(info),
            warnings: info.warnings.iter().map(|warning| warning.words.clone()).collect(),
            agents: loaded.agents.keys().map(ToString::to_string).collect(),
            next: loaded.agents.values().map(|agent| next_fire(agent)).collect(),
            idle: loaded.agents.values().filter_map(|agent| idle(agent, &pool)).collect(),
            paused: pool.paused.as_ref().map(|pause| pause.reason.clone()),
            broken: loaded.problems.iter().filter(|problem| problem.is_error()).count(),
            problems: loaded.problems.iter().filter(|problem| problem.is_error()).cloned().collect(),
            cleared,
            url: daemon.url(),
            logs: site.place.runs().display().to_string(),
            pid: std::process::id(),
        }
    }

    /// The banner.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("project  {}", self.project),
            format!("store    {}", self.store),
            format!("         {}", self.promise),
        ];
        lines.extend(self.warnings.iter().map(|warning| format!("warning  {warning}")));
        lines.push(format!("agents   {}", self.agents.len()));
        for (name, next) in self.agents.iter().zip(&self.next).take(AGENTS) {
            let idle = self.idle.iter().find(|(idle, _)| idle == name).map(|(_, why)| why.as_str());
            let state = match (idle, next) {
                (Some(why), _) => why.to_owned(),
                (None, Some(next)) => format!("next at {next}"),
                (None, None) => "on demand".to_owned(),
            };
            lines.push(format!("         {name:24} {state}"));
        }
        if self.agents.len() > AGENTS {
            lines.push(format!("         and {} more: bell stat", self.agents.len() - AGENTS));
        }
        if let Some(reason) = &self.paused {
            lines.push(format!("paused   nothing starts until bell resume: {reason}"));
        }
        if self.broken > 0 {
            lines.push(format!(
                "broken   {}; an agent with a problem does not run:",
                count(self.broken, "problem")
            ));
            lines.extend(self.problems.iter().flat_map(problem_lines).map(|line| format!("         {line}")));
        }
        if self.cleared > 0 {
            lines.push(format!("cleared  {}", bring_back(self.cleared)));
        }
        lines.push(format!("gateway  {} (the key is in .bell/api-key)", self.url));
        lines.push(format!("logs     {}, or bell logs -f AGENT", self.logs));
        lines.push(format!("stop     Ctrl-C, bell stop, or kill {}; twice to end what runs", self.pid));
        lines
    }
}

/// A problem in full: where, what, and what to do.
pub(super) fn problem_lines(problem: &Problem) -> Vec<String> {
    let hint = problem.hint.iter().map(|hint| format!("  {hint}"));
    std::iter::once(problem.to_string()).chain(hint).collect()
}

/// What an answered commit survives, and who shares it.
fn promise(info: &Info) -> String {
    let survives = match info.durability {
        Durability::Volatile => "what was accepted is gone with the process",
        Durability::Process => "what was accepted survives any process, but no power cut",
        Durability::Power => "what was accepted survives a power cut",
    };
    let shared = match info.scope {
        Scope::Process => "for this process alone",
        Scope::Host => "shared by the processes of this machine",
        Scope::Distributed => "shared by machines",
    };
    let loses = match info.fail_over {
        FailOver::None | FailOver::Kept => "",
        FailOver::Loses => "; a fail-over may lose what was accepted last",
    };
    format!("{survives}; {shared}{loses}")
}

fn next_fire(agent: &Agent) -> Option<String> {
    let schedule = agent.schedule().filter(|_| agent.is_enabled())?;
    Some(schedule.next_after(timestamp(wall_now())?)?.to_string())
}

fn idle(agent: &Agent, pool: &Pool) -> Option<(String, String)> {
    if !agent.is_enabled() {
        return Some((agent.name.to_string(), "disabled: its scale is 0".to_owned()));
    }
    let pause = pool.paused_agents.get(&agent.name)?;
    Some((agent.name.to_string(), format!("paused: {}", pause.reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Ready {
        Ready {
            project: "/p".to_owned(),
            store: "sqlite:/p/.bell/bell.db".to_owned(),
            promise: "what was accepted survives a power cut".to_owned(),
            warnings: Vec::new(),
            agents: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            next: vec![Some("2026-11-16T10:00:00Z".to_owned()), None, None],
            idle: vec![("c".to_owned(), "disabled: its scale is 0".to_owned())],
            paused: None,
            broken: 0,
            problems: Vec::new(),
            cleared: 0,
            url: "http://127.0.0.1:8080".to_owned(),
            logs: "/p/.bell/runs".to_owned(),
            pid: 7,
        }
    }

    #[test]
    fn each_agent_is_shown_with_what_it_waits_for() {
        let text = ready().lines().join("\n");
        for (name, state) in [("a", "next at 2026-11-16T10:00:00Z"), ("b", "on demand"), ("c", "disabled")] {
            let line = text.lines().find(|line| line.trim().starts_with(&format!("{name} "))).unwrap();
            assert!(line.contains(state), "{line}");
        }
        assert!(text.contains("bell stop, or kill 7"), "{text}");
    }

    #[test]
    fn a_thousand_agents_do_not_hide_the_rest() {
        let agents: Vec<String> = (0..1_000).map(|number| format!("agent-{number}")).collect();
        let next = vec![None; agents.len()];
        let many = Ready { agents, next, paused: Some("lunch".to_owned()), ..ready() };
        let lines = many.lines();
        assert!(lines.len() < 40);
        assert!(lines.iter().any(|line| line.contains("and 980 more")));
        assert!(lines.iter().any(|line| line.contains("until bell resume: lunch")));
    }
}
