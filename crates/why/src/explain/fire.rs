//! Why a tick of a schedule led to a run, or did not.

use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{Fire, Verdict};
use bell_core::work::job::{Job, State};
use bell_project::cron::Schedule;
use jiff::{Span, Timestamp};

use crate::answer::{Answer, Kind};
use crate::words::{fate, timestamp, told, when};

/// What is known about a tick.
#[derive(Clone, Debug)]
pub struct FireSeen {
    /// Whose schedule.
    pub agent: AgentName,
    /// The time that is asked about.
    pub nominal: Wall,
    /// What was decided, if anything was.
    pub fire: Option<Fire>,
    /// The job that came of it, if it is still on record.
    pub job: Option<Job>,
    /// The schedule as it is now.
    pub schedule: Option<Schedule>,
    /// The latest tick that was decided.
    pub last: Option<Wall>,
    /// What happened before this is no longer kept.
    pub kept_since: Option<Wall>,
    /// Daemons that are there.
    pub daemons: usize,
    /// Now.
    pub now: Wall,
}

/// Says what came of a tick, and why.
pub fn explain(seen: &FireSeen) -> Answer {
    let name = format!("{}@{}", seen.agent, when(seen.nominal));
    let mut answer = match &seen.fire {
        Some(fire) => decided(seen, fire, &name),
        None => undecided(seen, &name),
    };
    if let Some(schedule) = &seen.schedule {
        let zone = schedule.zone().name();
        answer.fact("schedule", format!("{} ({zone})", schedule.expression().as_str()));
    }
    if let Some(last) = seen.last {
        answer.fact("last tick", told(last, seen.now));
    }
    answer
}

fn decided(seen: &FireSeen, fire: &Fire, name: &str) -> Answer {
    match &fire.verdict {
        Verdict::Job { job } => {
            let mut answer = Answer::new(Kind::Fire, name, format!("{name} fired, as job {job}"));
            answer.fact("decided", told(fire.at, seen.now));
            match seen.job.as_ref().map(|job| &job.state) {
                Some(State::Over { fate: what, .. }) => answer.fact("job", fate(what)),
                Some(State::Running { run }) => answer.fact("job", format!("being done, by {run}")),
                Some(State::Queued { .. } | State::Delayed { .. }) => answer.fact("job", "waiting"),
                None => answer.fact("job", "its record is no longer kept"),
            }
            answer.next(format!("see what became of it: bell why {job}"));
            answer
        }
        Verdict::Skipped { reason } => {
            let mut answer = Answer::new(Kind::Fire, name, format!("{name} was skipped: {reason}"));
            answer.fact_because("decided", told(fire.at, seen.now), reason);
            answer.next(skipped_next(reason, &seen.agent));
            answer
        }
    }
}

fn skipped_next(reason: &str, agent: &AgentName) -> String {
    if reason.contains("overlap") || reason.contains("runners are busy") {
        format!(
            "to have such ticks wait instead, set overlap of {agent} to queue-one or queue, or raise its scale"
        )
    } else if reason.contains("paused") {
        format!("nothing, once it is resumed: bell resume {agent}")
    } else if reason.contains("disabled") {
        format!("set the scale of {agent} to 1 or more")
    } else {
        format!("to have missed ticks made up for, set catchup of {agent}; bell run {agent} runs it now")
    }
}

fn undecided(seen: &FireSeen, name: &str) -> Answer {
    let (says, next) = match nominal_of(seen) {
        Nominal::NoSchedule => (
            format!("{name} was never due: {} has no schedule", seen.agent),
            format!("give it one, or run it by hand: bell run {}", seen.agent),
        ),
        Nominal::Not { before, after } => {
            let near = [before, after].into_iter().flatten().map(|at| at.to_string()).collect::<Vec<_>>();
            let near =
                if near.is_empty() { String::new() } else { format!("; near it are {}", near.join(" and ")) };
            (
                format!("{name} was never due: its schedule has no such time{near}"),
                format!("see its next times: bell stat {}", seen.agent),
            )
        }
        Nominal::Yes if seen.nominal > seen.now => {
            let daemon = if seen.daemons == 0 { ", and no daemon runs that would fire it" } else { "" };
            (format!("{name} is not due yet{daemon}"), "wait, with a daemon running: bell up".to_owned())
        }
        Nominal::Yes if seen.kept_since.is_some_and(|since| seen.nominal < since) => (
            format!("{name} is older than what is kept on record"),
            "raise historyRetentionDays to keep more".to_owned(),
        ),
        Nominal::Yes if seen.last.is_none_or(|last| last < seen.nominal) => (
            format!("{name} was not decided: no daemon has looked at this schedule since it was due"),
            "start a daemon, which notes or makes up for what was missed: bell up".to_owned(),
        ),
        Nominal::Yes => (
            format!("{name} has no record: the schedule was another then, or the agent was not there"),
            format!("run it now: bell run {}", seen.agent),
        ),
    };
    let mut answer = Answer::new(Kind::Fire, name, says);
    answer.next(next);
    answer
}

enum Nominal {
    NoSchedule,
    Yes,
    Not { before: Option<Timestamp>, after: Option<Timestamp> },
}

/// Whether the schedule, as it is now, fires at that time.
fn nominal_of(seen: &FireSeen) -> Nominal {
    let (Some(schedule), Some(at)) = (&seen.schedule, timestamp(seen.nominal)) else {
        return Nominal::NoSchedule;
    };
    let just_before = at.checked_sub(Span::new().milliseconds(1)).unwrap_or(at);
    if schedule.next_after(just_before) == Some(at) {
        return Nominal::Yes;
    }
    Nominal::Not { before: last_before(schedule, at), after: schedule.next_after(at) }
}

/// The last time before `at`: looked for in windows that double, so that a yearly schedule is found as surely as one
/// by the minute.
fn last_before(schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
    for hours in (0..WINDOWS).map(|doubling| 1_i64 << doubling) {
        let from = at.checked_sub(Span::new().hours(hours)).ok()?;
        let mut found = None;
        let mut next = schedule.next_after(from);
        while let Some(fire) = next.filter(|fire| *fire < at) {
            found = Some(fire);
            next = schedule.next_after(fire);
        }
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Up to 2¹⁶ hours, seven years: whatever fires more seldom has no neighbour worth naming.
const WINDOWS: u32 = 17;

#[cfg(test)]
mod tests {
    use bell_core::work::job::JobId;
    use bell_project::cron::Expression;
    use bell_project::settings::Zone;

    use super::*;
    use crate::words::wall;

    fn at(text: &str) -> Wall {
        wall(text.parse().unwrap())
    }

    fn seen(nominal: &str) -> FireSeen {
        let expression = Expression::parse("0 10 * * *").unwrap();
        FireSeen {
            agent: "triage".parse().unwrap(),
            nominal: at(nominal),
            fire: None,
            job: None,
            schedule: Some(Schedule::new(expression, Zone::default())),
            last: Some(at("2026-11-15T10:00:00Z")),
            kept_since: Some(at("2026-11-01T00:00:00Z")),
            daemons: 1,
            now: at("2026-11-15T12:00:00Z"),
        }
    }

    fn says(seen: &FireSeen) -> String {
        explain(seen).says
    }

    #[test]
    fn a_tick_that_fired_names_its_job() {
        let verdict = Verdict::Job { job: JobId::from("j1") };
        let fire = Some(Fire { at: at("2026-11-15T10:00:00Z"), verdict });
        let answer = explain(&FireSeen { fire, ..seen("2026-11-15T10:00:00Z") });
        assert_eq!(answer.says, "triage@2026-11-15T10:00:00Z fired, as job j1");
        assert_eq!(answer.next, ["see what became of it: bell why j1"]);
    }

    #[test]
    fn a_tick_that_was_skipped_says_why_and_what_would_keep_it() {
        let reason = "all 1 runners are busy, with triage-1 first".to_owned();
        let fire = Some(Fire { at: at("2026-11-15T10:00:00Z"), verdict: Verdict::Skipped { reason } });
        let answer = explain(&FireSeen { fire, ..seen("2026-11-15T10:00:00Z") });
        assert!(
            answer.says.ends_with("was skipped: all 1 runners are busy, with triage-1 first"),
            "{answer:?}"
        );
        assert!(answer.next[0].contains("overlap"), "{answer:?}");
    }

    #[test]
    fn a_time_that_the_schedule_does_not_have_was_never_due_and_its_neighbours_are_named() {
        let says = says(&seen("2026-11-15T10:30:00Z"));
        assert!(says.contains("was never due"), "{says}");
        assert!(says.contains("2026-11-15T10:00:00Z and 2026-11-16T10:00:00Z"), "{says}");
    }

    #[test]
    fn what_is_to_come_is_not_due_yet_and_what_nobody_saw_was_not_decided() {
        assert!(says(&seen("2026-11-16T10:00:00Z")).ends_with("is not due yet"));
        let unseen = FireSeen { last: Some(at("2026-11-13T10:00:00Z")), ..seen("2026-11-14T10:00:00Z") };
        assert!(says(&unseen).contains("no daemon has looked"), "{}", says(&unseen));
        assert!(says(&seen("2026-10-14T10:00:00Z")).contains("older than what is kept"));
    }

    #[test]
    fn without_a_schedule_nothing_is_ever_due() {
        let answer = explain(&FireSeen { schedule: None, ..seen("2026-11-15T10:00:00Z") });
        assert!(answer.says.ends_with("triage has no schedule"), "{answer:?}");
    }
}
