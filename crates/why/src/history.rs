//! What happened, in order, each thing in one sentence.
//!
//! Accepted jobs are records of their own and not rows of history: accepting one writes no more than it must. Here both
//! are put together.

use std::collections::VecDeque;

pub use bell_api::control::history::{Kind, Row};
use bell_coord::{Coord, Denied};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Job, JobId};
use bell_core::work::row::{Event, Then, What};

use crate::words::{between, fate, length, trigger, when};

/// Records read at once.
const PAGE: usize = 1_000;
/// Records looked at of each kind: more than anybody reads, and bounded work for the store.
const LOOK_MAX: usize = 200_000;

/// What somebody wants to know of it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// From when on.
    pub since: Wall,
    /// Before when; `None`: up to now.
    pub before: Option<Wall>,
    /// Only this agent, and what happened to the whole fleet.
    pub agent: Option<AgentName>,
    /// Only these; empty: all.
    pub kinds: Vec<Kind>,
    /// At most so many: the last ones.
    pub limit: usize,
}

impl Wanted {
    fn admits(&self, row: &Row) -> bool {
        let agent = match (&self.agent, &row.agent) {
            (Some(wanted), Some(agent)) => wanted == agent,
            _ => true,
        };
        let in_time = self.before.is_none_or(|before| row.at_ms < before.0);
        in_time && agent && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
    }

    fn wants(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// What happened since then, the latest last, and whether there was more than the limit.
///
/// # Errors
/// If the store can't be read.
pub async fn since(coord: &Coord, wanted: &Wanted) -> Result<(Vec<Row>, bool), Denied> {
    let (mut rows, mut more) = events(coord, wanted).await?;
    if wanted.wants(Kind::Trigger) {
        let (triggers, left_out) = triggers(coord, wanted).await?;
        rows.extend(triggers);
        more |= left_out;
    }
    rows.sort_by(|a, b| (a.at_ms, a.kind.word()).cmp(&(b.at_ms, b.kind.word())));
    let beyond = rows.len().saturating_sub(wanted.limit);
    rows.drain(..beyond);
    Ok((rows, more || beyond > 0))
}

/// Rows of history, the latest first.
async fn events(coord: &Coord, wanted: &Wanted) -> Result<(Vec<Row>, bool), Denied> {
    let (mut rows, mut from, mut seen) = (Vec::new(), None, 0);
    loop {
        let page = coord.history(from.as_deref(), PAGE).await?;
        seen += page.rows.len();
        for (at, event) in page.rows {
            if at < wanted.since {
                return Ok((rows, false));
            }
            let row = of_event(at, event);
            if wanted.admits(&row) {
                if rows.len() == wanted.limit {
                    return Ok((rows, true));
                }
                rows.push(row);
            }
        }
        match page.next {
            Some(next) if seen < LOOK_MAX => from = Some(next),
            next => return Ok((rows, next.is_some())),
        }
    }
}

/// Accepted jobs: read the oldest first, and the last ones kept.
async fn triggers(coord: &Coord, wanted: &Wanted) -> Result<(VecDeque<Row>, bool), Denied> {
    let (mut rows, mut from, mut seen, mut left_out) = (VecDeque::new(), None, 0, false);
    loop {
        let page = coord.jobs_since(wanted.since, from.as_deref(), PAGE).await?;
        seen += page.jobs.len();
        for row in page.jobs.into_iter().map(|(id, job)| of_job(id, &job)).filter(|row| wanted.admits(row)) {
            rows.push_back(row);
            if rows.len() > wanted.limit {
                rows.pop_front();
                left_out = true;
            }
        }
        match page.next {
            Some(next) if seen < LOOK_MAX => from = Some(next),
            next => return Ok((rows, left_out || next.is_some())),
        }
    }
}

/// An accepted job, as a thing that happened.
pub fn of_job(id: JobId, job: &Job) -> Row {
    Row {
        at_ms: job.accepted.0,
        at: when(job.accepted),
        kind: Kind::Trigger,
        agent: Some(job.spec.agent.clone()),
        says: format!("accepted {id}: {}", trigger(&job.spec.trigger)),
        job: Some(id),
        run: None,
    }
}

/// A row of history, in words.
pub fn of_event(at: Wall, event: Event) -> Row {
    let job = event.job.as_ref().map_or_else(|| "a job".to_owned(), ToString::to_string);
    let mut run = None;
    let (kind, says) = match event.what {
        What::RunEnded { run: id, begun, end, then } => {
            let took = begun.map(|begun| format!(" after {}", between(begun, at))).unwrap_or_default();
            let says = format!("{id} ended as {end}{took}{}", follows(&then));
            run = Some(id);
            (Kind::Run, says)
        }
        What::Skipped { nominal, reason } => {
            (Kind::Skip, format!("skipped the tick of {}: {reason}", when(nominal)))
        }
        What::Shelved { fate: what } => (Kind::Drop, format!("{job} {}", fate(&what))),
        What::Replayed => (Kind::Replay, format!("queued {job} again")),
        What::Paused { reason: Some(reason) } => (Kind::Pause, format!("paused: {reason}")),
        What::Paused { reason: None } => (Kind::Pause, "resumed".to_owned()),
        What::Scaled { scale: Some(scale), reason } => (Kind::Scale, format!("scaled to {scale}: {reason}")),
        What::Scaled { scale: None, reason } => {
            (Kind::Scale, format!("scaled as its settings say: {reason}"))
        }
    };
    Row { at_ms: at.0, at: when(at), kind, agent: event.agent, job: event.job, run, says }
}

fn follows(then: &Then) -> String {
    match then {
        Then::Over => String::new(),
        Then::Requeued => "; queued again, since nothing had been done".to_owned(),
        Then::Rerun => "; run again, as it asked".to_owned(),
        Then::Retry { after_ms } => {
            format!("; tried again after {}", length(std::time::Duration::from_millis(*after_ms)))
        }
    }
}

#[cfg(test)]
mod tests {
    use bell_core::work::job::Fate;
    use bell_core::work::run::{End, RunId};

    use super::*;

    const AT: Wall = Wall(1_763_254_778_000);

    fn event(what: What) -> Event {
        Event::of_job(&"triage".parse().unwrap(), &JobId::from("j1"), what)
    }

    #[test]
    fn everything_that_happens_is_one_sentence_with_its_reason() {
        let ended = What::RunEnded {
            run: RunId::from("triage-1"),
            begun: Some(Wall(AT.0 - 5_000)),
            end: End::Failed { code: 2 },
            then: Then::Retry { after_ms: 30_000 },
        };
        let cases = [
            (ended, Kind::Run, "triage-1 ended as failed (exit code 2) after 5 s; tried again after 30 s"),
            (
                What::Skipped { nominal: AT, reason: "paused: lunch".to_owned() },
                Kind::Skip,
                "skipped the tick of 2025-11-16T00:59:38Z: paused: lunch",
            ),
            (
                What::Shelved { fate: Fate::Dropped },
                Kind::Drop,
                "j1 dropped: the queue was full, and it was the oldest",
            ),
            (What::Replayed, Kind::Replay, "queued j1 again"),
            (What::Paused { reason: Some("lunch".to_owned()) }, Kind::Pause, "paused: lunch"),
            (What::Paused { reason: None }, Kind::Pause, "resumed"),
            (
                What::Scaled { scale: Some(3), reason: "a rush".to_owned() },
                Kind::Scale,
                "scaled to 3: a rush",
            ),
            (
                What::Scaled { scale: None, reason: "it is over".to_owned() },
                Kind::Scale,
                "scaled as its settings say: it is over",
            ),
        ];
        for (what, kind, says) in cases {
            let row = of_event(AT, event(what));
            assert_eq!((row.kind, row.says.as_str()), (kind, says));
        }
    }

    #[test]
    fn what_happened_to_the_fleet_happened_to_every_agent() {
        let agent = Some("triage".parse().unwrap());
        let wanted = Wanted { since: Wall(0), before: None, agent, kinds: vec![Kind::Pause], limit: 10 };
        let pause = What::Paused { reason: None };
        assert!(wanted.admits(&of_event(AT, Event { agent: None, job: None, what: pause.clone() })));
        let other = Event { agent: Some("other".parse().unwrap()), job: None, what: pause };
        assert!(!wanted.admits(&of_event(AT, other)));
        assert!(!wanted.admits(&of_event(AT, event(What::Replayed))));
    }
}
