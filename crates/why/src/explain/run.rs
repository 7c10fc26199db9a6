//! Why a run is where it is, and how it got there.

use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::job::Job;
use bell_core::work::row::{Event, Then, What};
use bell_core::work::run::{Ended, Run, RunId};

use crate::answer::{Answer, Kind};
use crate::words::{between, length, names, told, trigger};

/// A wait of this length needs no reason: a daemon was told, looked, and claimed.
const NO_WAIT_MS: u64 = 2_000;

/// What is known about a run.
#[derive(Clone, Debug)]
pub struct RunSeen {
    /// Its name.
    pub id: RunId,
    /// Its record.
    pub run: Run,
    /// The job that it is a try at, if it is still on record.
    pub job: Option<Job>,
    /// Whether its session lives.
    pub alive: bool,
    /// The locks that it holds.
    pub keys: Vec<Key>,
    /// What followed from its end.
    pub then: Option<Then>,
    /// What happened to its agent and to the fleet between the job's acceptance and its claim, the latest first.
    pub meanwhile: Vec<(Wall, Event)>,
    /// Now.
    pub now: Wall,
}

/// Says how a run stands or ended, and why.
pub fn explain(seen: &RunSeen) -> Answer {
    let mut answer = Answer::new(Kind::Run, seen.id.as_str(), says(seen));
    let run = &seen.run;
    answer.fact("agent", run.agent.as_str());
    match &seen.job {
        Some(job) => answer.fact_because("job", run.job.to_string(), trigger(&job.spec.trigger)),
        None => answer.fact_because("job", run.job.to_string(), "its record is no longer kept"),
    }
    answer.fact("attempt", attempt(seen));
    answer.fact("node", &*run.node);
    if run.attempt == 1
        && let Some(job) = &seen.job
    {
        let waited = between(job.accepted, run.claimed);
        match waited_for(seen, job) {
            Some(why) => answer.fact_because("waited", waited, why),
            None => answer.fact("waited", waited),
        }
    }
    answer.fact("claimed", told(run.claimed, seen.now));
    match run.begun {
        Some(begun) => answer.fact("began", told(begun, seen.now)),
        None => answer.fact("began", "never: nothing of it has been done"),
    }
    tell_more(seen, &mut answer);
    if let Some(ended) = &run.ended {
        tell_end(seen, ended, &mut answer);
    } else if seen.alive {
        answer.next(format!("watch it: bell logs -f {}", seen.id));
    } else {
        answer.next("start a daemon, which ends it as lost: bell up");
    }
    answer
}

fn says(seen: &RunSeen) -> String {
    let (id, run) = (&seen.id, &seen.run);
    match (&run.ended, &run.kill, run.begun) {
        (Some(ended), _, Some(begun)) => {
            format!("{id} ended as {} after {}", ended.end, between(begun, ended.at))
        }
        (Some(ended), _, None) => format!("{id} ended as {} before it began", ended.end),
        (None, _, _) if !seen.alive => {
            format!("{id} is lost: its supervisor or its machine died, and no daemon has ended it yet")
        }
        (None, Some(reason), _) => format!("{id} is being ended: {reason}"),
        (None, None, Some(begun)) => format!("{id} runs, for {} now", between(begun, seen.now)),
        (None, None, None) => format!("{id} was claimed and is about to begin"),
    }
}

fn attempt(seen: &RunSeen) -> String {
    let attempt = seen.run.attempt;
    let Some(job) = &seen.job else { return attempt.to_string() };
    let rules = &job.spec.rules;
    match (job.failures, job.reruns) {
        (0, 0) => attempt.to_string(),
        (failures, 0) => {
            format!("{attempt} of {}; failures of the job: {failures}", rules.retries + 1)
        }
        (_, reruns) => format!(
            "{attempt}; the job was run again {reruns} of {} times, as its runs asked",
            rules.max_reruns
        ),
    }
}

/// Why a job was not claimed at once, as far as history tells.
fn waited_for(seen: &RunSeen, job: &Job) -> Option<String> {
    if seen.run.claimed.0.saturating_sub(job.accepted.0) < NO_WAIT_MS {
        return None;
    }
    let paused = seen.meanwhile.iter().any(|(_, event)| matches!(&event.what, What::Paused { .. }));
    if paused {
        return Some("its agent or the fleet was paused meanwhile".to_owned());
    }
    let ended = seen.meanwhile.iter().filter_map(|(_, event)| match &event.what {
        What::RunEnded { run, .. } if event.agent.as_ref() == Some(&seen.run.agent) && *run != seen.id => {
            Some(run)
        }
        _ => None,
    });
    let ended: Vec<&RunId> = ended.collect();
    Some(if ended.is_empty() {
        "no record says why: no daemon ran, or the project was at its cap".to_owned()
    } else {
        format!("the runners of its agent were taken until then, by {}", names(ended))
    })
}

fn tell_more(seen: &RunSeen, answer: &mut Answer) {
    let run = &seen.run;
    if let Some(by) = run.isolation {
        answer.fact("isolation", by.to_string());
    }
    if let Some(status) = &run.status {
        answer.fact("status", &**status);
    }
    if !seen.keys.is_empty() {
        answer.fact("locks", names(&seen.keys));
    }
    if run.wants_rerun {
        answer.fact("rerun", "it asked to be run again");
    }
    if let Some(reason) = &run.kill {
        answer.fact_because("killed", "somebody asked for its end", reason);
    }
    if let Some(returned) = &run.returned {
        answer.fact("returned", &**returned);
    }
}

fn tell_end(seen: &RunSeen, ended: &Ended, answer: &mut Answer) {
    answer.fact_because("ended", told(ended.at, seen.now), ended.end.to_string());
    let job = &seen.run.job;
    match &seen.then {
        Some(Then::Requeued) => {
            answer.fact("then", format!("{job} is the first in the queue again: nothing had been done"))
        }
        Some(Then::Rerun) => answer.fact("then", format!("{job} is run again at once, as this run asked")),
        Some(Then::Retry { after_ms }) => {
            let after = length(std::time::Duration::from_millis(*after_ms));
            answer.fact("then", format!("{job} is tried again after {after}"));
        }
        Some(Then::Over) => answer.fact("then", format!("{job} is over")),
        None => {}
    }
    let advice = ended.end.advice().replace("RUN", seen.id.as_str()).replace("JOB", job.as_str());
    answer.next(advice);
}

#[cfg(test)]
mod tests {
    use bell_core::session::SessionId;
    use bell_core::work::job::{JobId, JobSpec, Rules, State, Trigger};
    use bell_core::work::run::End;

    use super::*;

    const T0: u64 = 1_763_254_778_000;

    fn seen() -> RunSeen {
        let spec = JobSpec {
            agent: "triage".parse().unwrap(),
            trigger: Trigger::Manual { by: Some("ada".to_owned()) },
            rules: Rules::default(),
        };
        let run = Run {
            job: JobId::from("j1"),
            agent: "triage".parse().unwrap(),
            attempt: 1,
            session: SessionId::from("s"),
            node: "box".to_owned(),
            claimed: Wall(T0 + 40_000),
            begun: Some(Wall(T0 + 41_000)),
            ended: None,
            status: None,
            returned: None,
            kill: None,
            isolation: None,
            wants_rerun: false,
        };
        RunSeen {
            id: RunId::from("triage-1"),
            run,
            job: Some(Job::new(spec, Wall(T0), State::Running { run: RunId::from("triage-1") })),
            alive: true,
            keys: Vec::new(),
            then: None,
            meanwhile: Vec::new(),
            now: Wall(T0 + 101_000),
        }
    }

    fn fact<'a>(answer: &'a Answer, what: &str) -> &'a crate::answer::Fact {
        answer.facts.iter().find(|fact| fact.what == what).unwrap_or_else(|| panic!("{what}: {answer:?}"))
    }

    #[test]
    fn a_run_that_runs_says_for_how_long_and_for_whom() {
        let answer = explain(&seen());
        assert_eq!(answer.says, "triage-1 runs, for 1 min now");
        assert_eq!(fact(&answer, "job").because.as_deref(), Some("by hand, by ada"));
        assert_eq!(answer.next, ["watch it: bell logs -f triage-1"]);
    }

    #[test]
    fn a_wait_is_explained_by_what_ended_meanwhile() {
        let mut seen = seen();
        let end = |run: &str| What::RunEnded {
            run: RunId::from(run),
            begun: None,
            end: End::Completed,
            then: Then::Over,
        };
        seen.meanwhile =
            vec![(Wall(T0 + 39_000), Event::of_job(&seen.run.agent, &JobId::from("j0"), end("triage-0")))];
        let answer = explain(&seen);
        assert_eq!(fact(&answer, "waited").value, "40 s");
        assert!(fact(&answer, "waited").because.as_ref().unwrap().ends_with("by triage-0"));
        let paused = Event { agent: None, job: None, what: What::Paused { reason: None } };
        seen.meanwhile.push((Wall(T0 + 1), paused));
        assert!(fact(&explain(&seen), "waited").because.as_ref().unwrap().contains("was paused"));
    }

    #[test]
    fn an_end_comes_with_its_reason_what_followed_and_what_to_do() {
        let mut seen = seen();
        seen.run.ended = Some(Ended { end: End::Failed { code: 3 }, at: Wall(T0 + 71_000) });
        seen.then = Some(Then::Retry { after_ms: 5_000 });
        let answer = explain(&seen);
        assert_eq!(answer.says, "triage-1 ended as failed (exit code 3) after 30 s");
        assert_eq!(fact(&answer, "then").value, "j1 is tried again after 5 s");
        assert_eq!(
            answer.next,
            ["look at its log (bell logs triage-1), then replay it (bell jobs replay j1)"]
        );
    }

    #[test]
    fn a_run_without_a_living_session_is_lost_whatever_its_record_says() {
        let answer = explain(&RunSeen { alive: false, ..seen() });
        assert!(answer.says.contains("is lost"), "{answer:?}");
        let mut killed = seen();
        killed.run.kill = Some("it goes in circles".to_owned());
        assert_eq!(explain(&killed).says, "triage-1 is being ended: it goes in circles");
    }
}
