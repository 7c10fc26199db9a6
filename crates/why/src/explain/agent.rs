//! Why an agent runs, waits, or does nothing.

use std::time::Duration;

use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, JobId};
use bell_core::work::line::{Caps, Line, Pool, Slot};
use jiff::Timestamp;

use crate::answer::{Answer, Kind};
use crate::words::{between, count, fate, length, names, told, when};

/// What the project says of an agent.
#[derive(Clone, PartialEq, Debug)]
pub enum Known {
    /// It can be run.
    Yes(Settings),
    /// It is there, and its files are broken, in these words.
    Broken(Vec<String>),
    /// Nobody knows it: only records of it are left.
    Gone,
    /// There is no project here to ask.
    NoProject,
}

/// What matters of an agent's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// How many may run at once, as an operator has said or the settings say.
    pub caps: Caps,
    /// How many the settings say.
    pub written: u32,
    /// How many may wait.
    pub queue_size: u32,
    /// Its schedule, as written.
    pub schedule: Option<String>,
    /// The next times it fires.
    pub next: Vec<Timestamp>,
}

/// Why a job does not start although a runner is free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeldJob {
    /// It waits for the locks that its agent declares.
    Locks(Vec<Key>),
    /// It could not be started, and is tried again after so long.
    Retry(Duration),
}

/// What is known about an agent.
#[derive(Clone, Debug)]
pub struct AgentSeen {
    /// Its name.
    pub name: AgentName,
    /// What the project says.
    pub known: Known,
    /// Everything that runs in the fleet, and what is paused.
    pub pool: Pool,
    /// Those of the pool whose session has ended.
    pub dead: Vec<Slot>,
    /// Its queue.
    pub line: Line,
    /// The first jobs in it.
    pub first: Vec<JobId>,
    /// Those of them that would not start now although a runner is free.
    pub held: Vec<HeldJob>,
    /// The last ticks that did not become a job: when they were due, and why not.
    pub skips: Vec<(Wall, String)>,
    /// The last jobs that were not done.
    pub undone: Vec<(Wall, JobId, Fate)>,
    /// Daemons that are there.
    pub daemons: usize,
    /// Now.
    pub now: Wall,
}

impl AgentSeen {
    /// Its runs that live.
    fn running(&self) -> Vec<&Slot> {
        self.pool.slots_of(&self.name).filter(|slot| !self.dead.contains(slot)).collect()
    }

    /// Why a job of it would not start now, if so: the words read after its name.
    pub fn in_the_way(&self) -> Option<String> {
        let settings = match &self.known {
            Known::Yes(settings) => Some(settings),
            Known::Broken(problems) => {
                let first = problems.first().map_or("something is wrong with them", String::as_str);
                return Some(format!("can't be run from its files as they are: {first}"));
            }
            Known::Gone => {
                return Some("is no agent of this project: only records of it are left".to_owned());
            }
            Known::NoProject => None,
        };
        if settings.is_some_and(|settings| settings.caps.agent == 0) {
            return Some("is disabled: its scale is 0".to_owned());
        }
        if let Some(pause) = self.pool.pause_of(&self.name) {
            let what =
                if self.pool.paused.is_some() { "is paused with the whole fleet" } else { "is paused" };
            return Some(format!("{what} since {}: {}", told(pause.since, self.now), pause.reason));
        }
        if self.daemons == 0 {
            return Some("has nobody to start it: no daemon runs".to_owned());
        }
        settings.and_then(|settings| self.taken(settings.caps))
    }

    /// Which runs take all the runners, if they do.
    fn taken(&self, caps: Caps) -> Option<String> {
        let living = Pool {
            slots: self.pool.slots.iter().filter(|slot| !self.dead.contains(slot)).cloned().collect(),
            scales: self.pool.scales.clone(),
            ..Pool::default()
        };
        let occupants = caps.in_the_way(&living, &self.name)?;
        let runs = names(occupants.iter().map(|slot| &slot.run));
        Some(if self.running().len() >= caps.agent {
            format!("is at its cap: {} of {} run ({runs})", occupants.len(), caps.agent)
        } else {
            format!("is held up by the cap of the project: {} run ({runs})", occupants.len())
        })
    }

    fn says(&self) -> String {
        let name = &self.name;
        let waiting = usize::try_from(self.line.waiting).unwrap_or(usize::MAX);
        match (self.in_the_way(), waiting, self.running().len()) {
            (Some(why), 0, _) => format!("{name} {why}"),
            (Some(why), waiting, _) => format!("{name} {why}; {} for it", waits(waiting)),
            (None, 0, 0) => format!("{name} is free: nothing runs and nothing waits"),
            (None, 0, running) => format!("{name} runs: {}, and nothing waits", count(running, "run")),
            (None, waiting, _) => {
                let why = if self.held.len() == waiting { self.held.first() } else { None };
                match why {
                    None => format!("{name} has a free runner, and {}: it starts now", waits(waiting)),
                    Some(HeldJob::Locks(keys)) => {
                        format!("{name} has a free runner; {} for locks: {}", waits(waiting), names(keys))
                    }
                    Some(HeldJob::Retry(left)) => {
                        let left = length(*left);
                        format!(
                            "{name} has a free runner; {}, and could not be started: tried again in {left}",
                            waits(waiting)
                        )
                    }
                }
            }
        }
    }
}

fn waits(count: usize) -> String {
    if count == 1 { "1 job waits".to_owned() } else { format!("{count} jobs wait") }
}

/// Says how an agent stands, and why.
pub fn explain(seen: &AgentSeen) -> Answer {
    let mut answer = Answer::new(Kind::Agent, seen.name.as_str(), seen.says());
    tell_settings(seen, &mut answer);
    if let Some(pause) = seen.pool.pause_of(&seen.name) {
        answer.fact_because("paused", format!("since {}", told(pause.since, seen.now)), &*pause.reason);
    }
    let daemons = if seen.daemons == 0 { "none runs".to_owned() } else { count(seen.daemons, "daemon") };
    answer.fact("daemons", daemons);
    let running = seen.running();
    if !running.is_empty() {
        answer.fact("running", names(running.iter().map(|slot| &slot.run)));
    }
    for slot in seen.dead.iter().filter(|slot| slot.agent == seen.name) {
        let why = "its supervisor or its machine died; the next daemon that looks ends it as lost";
        answer.fact_because("lost", slot.run.to_string(), why);
    }
    tell_queue(seen, &mut answer);
    for (nominal, reason) in &seen.skips {
        answer.fact_because("skipped", format!("the tick of {}", when(*nominal)), reason);
    }
    for (at, job, what) in &seen.undone {
        answer.fact_because("not done", format!("{job}, {} ago", between(*at, seen.now)), fate(what));
    }
    advise(seen, &mut answer);
    answer
}

fn tell_settings(seen: &AgentSeen, answer: &mut Answer) {
    match &seen.known {
        Known::Yes(settings) => {
            let fleet =
                settings.caps.fleet.map(|cap| format!("; {cap} in the whole project")).unwrap_or_default();
            let value = format!("{}{fleet}", settings.caps.agent);
            match seen.pool.scales.get(&seen.name) {
                Some(said) => {
                    let since = told(said.since, seen.now);
                    let because = format!(
                        "an operator said so at {since}: {}; its settings say {}",
                        said.reason, settings.written
                    );
                    answer.fact_because("scale", value, because);
                }
                None => answer.fact("scale", value),
            }
            if let Some(schedule) = &settings.schedule {
                let next = match settings.next.as_slice() {
                    [] => "it does not fire again".to_owned(),
                    next => format!("next at {}", names(next)),
                };
                answer.fact("schedule", format!("{schedule}: {next}"));
            }
        }
        Known::Broken(problems) => {
            for problem in problems {
                answer.fact_because(
                    "broken",
                    problem,
                    "a daemon that had loaded it before keeps the last good version",
                );
            }
        }
        Known::Gone => answer.fact("project", "it has no agent of this name"),
        Known::NoProject => answer.fact("project", "none is here: its settings are not known"),
    }
}

fn tell_queue(seen: &AgentSeen, answer: &mut Answer) {
    let of = match &seen.known {
        Known::Yes(settings) => format!(" of {}", settings.queue_size),
        Known::Broken(_) | Known::Gone | Known::NoProject => String::new(),
    };
    let jobs = if seen.first.is_empty() { String::new() } else { format!(": {}", names(&seen.first)) };
    answer.fact("waiting", format!("{}{of}{jobs}", seen.line.waiting));
    for held in &seen.held {
        if let HeldJob::Locks(keys) = held {
            keys.iter().for_each(|key| answer.next(format!("see who has {key}: bell why {key}")));
        }
    }
}

fn advise(seen: &AgentSeen, answer: &mut Answer) {
    match &seen.known {
        Known::Broken(_) => answer.next("mend its files: bell check says everything that is wrong"),
        Known::Gone => answer.next("look at the name; bell check lists the agents"),
        Known::Yes(_) if seen.pool.scales.contains_key(&seen.name) => {
            answer.next(format!("have as many run as its settings say: bell scale {} default", seen.name));
        }
        Known::Yes(settings) if settings.caps.agent == 0 => answer.next("set its scale to 1 or more"),
        Known::Yes(_) | Known::NoProject => {}
    }
    if seen.pool.paused.is_some() {
        answer.next("let the fleet go on: bell resume");
    }
    if seen.pool.paused_agents.contains_key(&seen.name) {
        answer.next(format!("let it go on: bell resume {}", seen.name));
    }
    if seen.daemons == 0 {
        answer.next("start a daemon: bell up");
    }
    if let Some((_, job, _)) = seen.undone.first() {
        answer.next(format!("do again what was not done: bell jobs replay {job}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bell_core::session::SessionId;
    use bell_core::work::line::{Pause, Scale};
    use bell_core::work::run::RunId;

    use super::*;

    pub(super) const NOW: Wall = Wall(1_763_254_778_000);

    fn slot(agent: &str, run: &str) -> Slot {
        Slot { agent: agent.parse().unwrap(), run: RunId::from(run), session: SessionId::from(run) }
    }

    fn seen() -> AgentSeen {
        let caps = Caps { agent: 1, fleet: Some(2) };
        AgentSeen {
            name: "triage".parse().unwrap(),
            known: Known::Yes(Settings {
                caps,
                written: 1,
                queue_size: 100,
                schedule: None,
                next: Vec::new(),
            }),
            pool: Pool::default(),
            dead: Vec::new(),
            line: Line::default(),
            first: Vec::new(),
            held: Vec::new(),
            skips: Vec::new(),
            undone: Vec::new(),
            daemons: 1,
            now: NOW,
        }
    }

    fn value<'a>(answer: &'a Answer, what: &str) -> &'a str {
        &answer
            .facts
            .iter()
            .find(|fact| fact.what == what)
            .unwrap_or_else(|| panic!("{what}: {answer:?}"))
            .value
    }

    #[test]
    fn a_free_agent_says_so() {
        let answer = explain(&seen());
        assert_eq!(answer.says, "triage is free: nothing runs and nothing waits");
        assert_eq!(
            (value(&answer, "scale"), value(&answer, "waiting")),
            ("1; 2 in the whole project", "0 of 100")
        );
        assert!(answer.next.is_empty());
    }

    #[test]
    fn a_pause_comes_before_a_missing_daemon_and_a_scale_of_zero_before_both() {
        let pause = Pause { since: Wall(NOW.0 - 60_000), reason: "lunch".to_owned() };
        let paused_agents = BTreeMap::from([("triage".parse().unwrap(), pause)]);
        let mut seen = AgentSeen { daemons: 0, pool: Pool { paused_agents, ..Pool::default() }, ..seen() };
        let answer = explain(&seen);
        assert_eq!(answer.says, "triage is paused since 2025-11-16T00:58:38Z (1 min ago): lunch");
        assert_eq!(answer.next, ["let it go on: bell resume triage", "start a daemon: bell up"]);
        if let Known::Yes(settings) = &mut seen.known {
            settings.caps.agent = 0;
        }
        assert_eq!(explain(&seen).says, "triage is disabled: its scale is 0");
    }

    #[test]
    fn what_an_operator_said_of_its_scale_counts_and_is_told() {
        let said = Scale { scale: 0, since: Wall(NOW.0 - 60_000), reason: "a rush is over".to_owned() };
        let scales = BTreeMap::from([("triage".parse().unwrap(), said)]);
        let pool = Pool { scales, ..Pool::default() };
        let caps = Caps { agent: 1, fleet: None }.as_scaled(&pool, &"triage".parse().unwrap());
        let known =
            Known::Yes(Settings { caps, written: 1, queue_size: 9, schedule: None, next: Vec::new() });
        let answer = explain(&AgentSeen { known, pool, ..seen() });
        assert_eq!(answer.says, "triage is disabled: its scale is 0");
        let scale = answer.facts.iter().find(|fact| fact.what == "scale").unwrap();
        assert_eq!(scale.value, "0");
        assert!(scale.because.as_ref().unwrap().ends_with("a rush is over; its settings say 1"), "{scale:?}");
        assert_eq!(answer.next, ["have as many run as its settings say: bell scale triage default"]);
    }

    #[test]
    fn who_takes_the_runners_is_named_and_the_dead_do_not_count() {
        let line = Line { waiting: 1, ..Line::default() };
        let slots = vec![slot("triage", "triage-1")];
        let mut seen = AgentSeen { line, pool: Pool { slots, ..Pool::default() }, ..seen() };
        assert_eq!(explain(&seen).says, "triage is at its cap: 1 of 1 run (triage-1); 1 job waits for it");
        seen.dead = seen.pool.slots.clone();
        let answer = explain(&seen);
        assert_eq!(answer.says, "triage has a free runner, and 1 job waits: it starts now");
        assert_eq!(value(&answer, "lost"), "triage-1");
        seen.pool.slots = vec![slot("other", "other-1"), slot("other", "other-2")];
        let says = explain(&seen).says;
        assert!(says.contains("cap of the project: 2 run (other-1, other-2)"), "{says}");
    }

    #[test]
    fn a_job_that_is_held_back_with_a_free_runner_is_not_said_to_start() {
        let line = Line { waiting: 1, ..Line::default() };
        let held = vec![HeldJob::Locks(vec!["deploy://api".parse().unwrap()])];
        let mut seen = AgentSeen { line, held, ..seen() };
        let answer = explain(&seen);
        assert_eq!(answer.says, "triage has a free runner; 1 job waits for locks: deploy://api");
        assert_eq!(answer.next, ["see who has deploy://api: bell why deploy://api"]);
        seen.held = vec![HeldJob::Retry(Duration::from_secs(4))];
        assert!(explain(&seen).says.ends_with("1 job waits, and could not be started: tried again in 4 s"));
        seen.line.waiting = 2;
        assert!(explain(&seen).says.ends_with("2 jobs wait: it starts now"), "another one may start");
    }

    #[test]
    fn a_broken_file_is_told_with_what_a_daemon_does_meanwhile() {
        let problems = vec!["agents/triage/SKILL.md:3:1: error: no".to_owned()];
        let answer = explain(&AgentSeen { known: Known::Broken(problems), ..seen() });
        assert!(answer.says.contains("can't be run from its files as they are: agents/triage"), "{answer:?}");
        let broken = answer.facts.iter().find(|fact| fact.what == "broken").unwrap();
        assert!(broken.because.as_ref().unwrap().contains("keeps the last good version"));
    }

    #[test]
    fn what_was_skipped_and_dropped_comes_with_the_reason() {
        let skips = vec![(NOW, "all 1 runners are busy".to_owned())];
        let undone = vec![(Wall(NOW.0 - 1_000), JobId::from("j1"), Fate::Dropped)];
        let answer = explain(&AgentSeen { skips, undone, ..seen() });
        assert_eq!(value(&answer, "skipped"), "the tick of 2025-11-16T00:59:38Z");
        assert_eq!(value(&answer, "not done"), "j1, 1 s ago");
        assert_eq!(answer.next, ["do again what was not done: bell jobs replay j1"]);
    }
}
