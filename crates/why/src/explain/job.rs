//! Why a job waits, was tried, was left out, or is over.

use std::time::Duration;

use bell_api::control::why::JobRun;
use bell_core::time::Timestamp;
use bell_core::work::Wall;
use bell_core::work::job::{Fate, Job, JobId, State};
use bell_core::work::run::{End, Run, RunId};

use super::agent::AgentSeen;
use crate::answer::{Answer, Kind};
use crate::words::{count, fate, length, names, told, trigger, when};

/// What is known about a job.
#[derive(Clone, Debug)]
pub struct JobSeen {
    /// Its name.
    pub id: JobId,
    /// Its record.
    pub job: Job,
    /// Its runs that are on record, the first attempt first.
    pub runs: Vec<(RunId, Run)>,
    /// The jobs before it in the queue, if it waits there: as many as were looked at.
    pub ahead: Vec<JobId>,
    /// How its agent stands.
    pub agent: AgentSeen,
    /// Now, on the store's clock.
    pub store_now: Timestamp,
    /// Now.
    pub now: Wall,
}

/// Says where a job stands, and why.
pub fn explain(seen: &JobSeen) -> Answer {
    let mut answer = Answer::new(Kind::Job, seen.id.as_str(), says(seen));
    let job = &seen.job;
    answer.fact("agent", job.spec.agent.as_str());
    answer.fact_because("accepted", told(job.accepted, seen.now), trigger(&job.spec.trigger));
    if let Some(once) = &job.once {
        answer.fact("only once", format!("for {once}: told again, it leads to this job"));
    }
    if let Some(run) = &job.last_run {
        answer.fact("runs", format!("{}, the last is {run}", job.runs));
    }
    for (id, run) in &seen.runs {
        answer.fact("run", run_words(id, run));
        answer.runs.push(job_run(id, run));
    }
    let missing = usize::try_from(job.runs).unwrap_or(usize::MAX).saturating_sub(seen.runs.len());
    if missing > 0 && !seen.runs.is_empty() {
        answer.fact(
            "not shown",
            format!("{}: no longer on record, or too many", count(missing, "earlier run")),
        );
    }
    if job.failures > 0 {
        let rules = &job.spec.rules;
        let on: Vec<String> =
            rules.retry_on.iter().map(|class| format!("{class:?}").to_lowercase()).collect();
        let allowed = match (rules.retries, on.is_empty()) {
            (0, _) | (_, true) => "its agent's `retry` allows no retry".to_owned(),
            (retries, false) => format!("{retries} retries are allowed, after {}", on.join(", ")),
        };
        answer.fact_because("failures", job.failures.to_string(), allowed);
    }
    if job.not_started > 0 {
        let times = count(usize::try_from(job.not_started).unwrap_or(usize::MAX), "time");
        let why = "the store or a machine was in trouble, and its agent did not run: see the reason of its last run";
        answer.fact_because("not started", format!("{times} in a row"), why.to_owned());
    }
    if job.reruns > 0 {
        answer.fact("reruns", format!("{} of {}", job.reruns, job.spec.rules.max_reruns));
    }
    tell_state(seen, &mut answer);
    answer
}

fn run_words(id: &RunId, run: &Run) -> String {
    let began = match run.begun {
        Some(begun) => format!("began {}", when(begun)),
        None => "never began".to_owned(),
    };
    let end = match &run.ended {
        Some(ended) => format!("ended {}: {}", when(ended.at), ended.end),
        None => "has not ended".to_owned(),
    };
    format!("{id}: attempt {} on {}, claimed {}, {began}, {end}", run.attempt, run.node, when(run.claimed))
}

fn job_run(id: &RunId, run: &Run) -> JobRun {
    JobRun {
        run: id.clone(),
        attempt: run.attempt,
        node: run.node.clone(),
        claimed_ms: run.claimed.0,
        begun_ms: run.begun.map(|at| at.0),
        ended_ms: run.ended.as_ref().map(|ended| ended.at.0),
        end: run.ended.as_ref().map(|ended| ended.end.clone()),
    }
}

fn says(seen: &JobSeen) -> String {
    let id = &seen.id;
    match &seen.job.state {
        State::Queued { .. } if let Some(wait) = seen.job.start_wait(seen.store_now) => {
            format!("{id} could not be started, and is tried again in {}", length(wait))
        }
        State::Queued { .. } if let Some(wait) = &seen.job.lock_wait => {
            format!("{id} waits for its locks: {}, since {}", names(&wait.keys), when(wait.since))
        }
        State::Queued { .. } => {
            let place = match seen.ahead.len() {
                0 => "is the first in the queue".to_owned(),
                1 => "waits behind 1 job".to_owned(),
                many => format!("waits behind {many} jobs"),
            };
            let agent = &seen.agent.name;
            match seen.agent.in_the_way() {
                Some(why) => format!("{id} {place} of {agent}, which {why}"),
                None => format!("{id} {place} of {agent}, which has a free runner: it starts soon"),
            }
        }
        State::Delayed { due } => {
            format!("{id} failed, and is tried again in {}", length(until(*due, seen.store_now)))
        }
        State::Running { run } => format!("{id} is being done, by {run}"),
        State::Over { fate: Fate::Ended { end: End::Busy { reason } }, .. } if seen.job.runs == 0 => {
            format!("{id} was not run, for want of its locks: {reason}")
        }
        State::Over { fate: Fate::Ended { end }, .. } => format!("{id} is over: its last run {end}"),
        State::Over { fate: what, .. } => format!("{id} was not run: {}", fate(what)),
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    due.since(now)
}

fn tell_state(seen: &JobSeen, answer: &mut Answer) {
    let id = &seen.id;
    match &seen.job.state {
        State::Queued { .. } => {
            if !seen.ahead.is_empty() {
                answer.fact("before it", names(&seen.ahead));
            }
            if let Some(wait) = &seen.job.lock_wait {
                let left = length(until(wait.until, seen.store_now));
                answer.fact_because(
                    "locks",
                    names(&wait.keys),
                    format!("it waits for them for {left} more at most, without a runner"),
                );
                for key in &wait.keys {
                    answer.next(format!("see who has {key}: bell why {key}"));
                }
            }
            if let (Some(run), 1..) = (&seen.job.last_run, seen.job.not_started) {
                answer.next(format!("see why it could not be started: bell why {run}"));
            }
            if seen.agent.daemons == 0 {
                answer.next("start a daemon: bell up");
            }
            answer.next(format!("see what its agent does: bell why {}", seen.job.spec.agent));
        }
        State::Delayed { .. } => {
            answer.next(format!("keep it from being tried again: bell jobs cancel {id}"))
        }
        State::Running { run } => answer.next(format!("see how far it is: bell why {run}")),
        State::Over { fate: Fate::Ended { end }, at } => {
            answer.fact_because("over", told(*at, seen.now), end.to_string());
            let run = seen.job.last_run.as_ref().map_or("RUN", |run| run.as_str());
            answer.next(end.advice().replace("RUN", run).replace("JOB", id.as_str()));
        }
        State::Over { fate: what, at } => {
            answer.fact_because("over", told(*at, seen.now), fate(what));
            answer.next(format!("have it done after all: bell jobs replay {id}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use bell_core::work::job::{JobSpec, Rules, Trigger};
    use bell_core::work::line::{Caps, Line, Pool};
    use bell_core::work::run::End;

    use super::super::agent::{Known, Settings};
    use super::*;

    const NOW: Wall = Wall(1_763_254_778_000);

    fn seen(state: State) -> JobSeen {
        let name: bell_core::work::agent::AgentName = "triage".parse().unwrap();
        let caps = Caps { agent: 1, fleet: None };
        let agent = AgentSeen {
            name: name.clone(),
            known: Known::Yes(Settings { caps, written: 1, queue_size: 9, schedule: None, next: Vec::new() }),
            pool: Pool::default(),
            dead: Vec::new(),
            line: Line::default(),
            first: Vec::new(),
            held: Vec::new(),
            skips: Vec::new(),
            undone: Vec::new(),
            daemons: 0,
            now: NOW,
        };
        let spec = JobSpec { agent: name, trigger: Trigger::Manual { by: None }, rules: Rules::default() };
        let job = Job::new(spec, Wall(NOW.0 - 5_000), state);
        let store_now = Timestamp::from_ms(1_000);
        JobSeen {
            id: JobId::from("j9"),
            job,
            runs: Vec::new(),
            ahead: Vec::new(),
            agent,
            store_now,
            now: NOW,
        }
    }

    #[test]
    fn a_job_that_could_not_be_started_says_so_and_when_it_is_tried_again() {
        let mut seen = seen(State::Queued { place: 7 });
        seen.job.not_started = 2;
        seen.job.last_run = Some(RunId::from("triage-1"));
        seen.job.not_before = Some(Timestamp::from_ms(2_000));
        let answer = explain(&seen);
        assert_eq!(answer.says, "j9 could not be started, and is tried again in 1 s");
        let text = format!("{answer:?}");
        assert!(text.contains("2 times in a row") && text.contains("bell why triage-1"), "{text}");
    }

    #[test]
    fn a_job_that_waits_says_behind_what_and_for_what() {
        let mut seen = seen(State::Queued { place: 7 });
        seen.ahead = vec![JobId::from("j8")];
        let answer = explain(&seen);
        let expected = "j9 waits behind 1 job of triage, which has nobody to start it: no daemon runs";
        assert_eq!(answer.says, expected);
        assert_eq!(answer.next.first().unwrap(), "start a daemon: bell up");
    }

    #[test]
    fn a_job_that_is_tried_again_says_when_by_the_clock_of_the_store() {
        let answer = explain(&seen(State::Delayed { due: Timestamp::from_ms(31_000) }));
        assert_eq!(answer.says, "j9 failed, and is tried again in 30 s");
    }

    #[test]
    fn a_job_that_left_the_queue_unrun_says_why_and_how_to_get_it_back() {
        for (what, word) in
            [(Fate::Dropped, "full"), (Fate::Cleared, "stopped"), (Fate::Cancelled, "took it out")]
        {
            let answer = explain(&seen(State::Over { fate: what, at: NOW }));
            assert!(answer.says.starts_with("j9 was not run: ") && answer.says.contains(word), "{answer:?}");
            assert_eq!(answer.next, ["have it done after all: bell jobs replay j9"]);
        }
    }

    #[test]
    fn a_job_that_failed_names_its_run_and_its_advice() {
        let mut seen = seen(State::Over { fate: Fate::Ended { end: End::Failed { code: 1 } }, at: NOW });
        (seen.job.last_run, seen.job.failures) = (Some(RunId::from("triage-1")), 1);
        let answer = explain(&seen);
        assert_eq!(answer.says, "j9 is over: its last run failed (exit code 1)");
        assert!(answer.next[0].contains("bell logs triage-1"), "{answer:?}");
        let failures = answer.facts.iter().find(|fact| fact.what == "failures").unwrap();
        assert_eq!(failures.because.as_deref(), Some("its agent's `retry` allows no retry"));
    }
}
