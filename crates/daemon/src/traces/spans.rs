//! What a trace is made of: when a job was accepted, claimed, begun and over.

use bell_coord::{Coord, Denied};
use bell_core::work::Wall;
use bell_core::work::job::{Job, JobId, State, Trigger};
use bell_core::work::run::{Run, RunId};

/// One part of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// The job's id, 32 hexadecimal digits.
    pub(super) trace: String,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) start: Wall,
    pub(super) end: Wall,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Why it went wrong, if it did.
    pub(super) failure: Option<String>,
}

/// The spans of a run that has ended: none of one that has not.
pub(super) async fn of(coord: &Coord, id: &RunId) -> Result<Vec<Span>, Denied> {
    let Some((run, _)) = coord.run(id).await? else { return Ok(Vec::new()) };
    let Some((job, _)) = coord.job(&run.job).await? else { return Ok(Vec::new()) };
    Ok(spans(&job, id, &run))
}

/// `trigger` from the acceptance of the job until it is over, told by its last run; in it `queue`, `run` from the claim to
/// the end, and in that `agent`, while the process lived.
fn spans(job: &Job, id: &RunId, run: &Run) -> Vec<Span> {
    let Some(ended) = &run.ended else { return Vec::new() };
    let (trigger, this) = (span_id(&run.job, "trigger"), span_id(&run.job, id.as_str()));
    let failure = ended.end.class().map(|_| ended.end.to_string());
    let span = |id, parent, name, start, end| Span {
        trace: run.job.to_string(),
        id,
        parent,
        name,
        start,
        end,
        attributes: vec![("bell.agent", run.agent.to_string()), ("bell.job", run.job.to_string())],
        failure: None,
    };
    let mut spans = Vec::new();
    if let State::Over { at, .. } = &job.state {
        let mut whole = span(trigger, None, "trigger", job.accepted, *at);
        whole.attributes.extend(told(&job.spec.trigger));
        spans.push(Span { failure: failure.clone(), ..whole });
    }
    // When a later run's wait began, its records do not tell.
    if run.attempt == 1 {
        let queue = span_id(&run.job, "queue");
        spans.push(span(queue, Some(trigger), "queue", job.accepted, run.claimed));
    }
    let mut whole = span(this, Some(trigger), "run", run.claimed, ended.at);
    whole.attributes.extend([
        ("bell.run", id.to_string()),
        ("bell.node", run.node.clone()),
        ("bell.attempt", run.attempt.to_string()),
        ("bell.outcome", ended.end.word().to_owned()),
    ]);
    spans.push(Span { failure: failure.clone(), ..whole });
    if let Some(begun) = run.begun {
        let agent = span_id(&run.job, &format!("{id}/agent"));
        spans.push(Span { failure, ..span(agent, Some(this), "agent", begun, ended.at) });
    }
    spans
}

fn told(trigger: &Trigger) -> Vec<(&'static str, String)> {
    let mut told = vec![("bell.trigger", trigger.kind().to_owned())];
    match trigger {
        Trigger::Webhook { source, delivery } => {
            told.extend([("bell.source", source.to_string()), ("bell.delivery", delivery.to_string())]);
        }
        Trigger::Call { caller, .. } => told.push(("bell.caller", caller.to_string())),
        Trigger::Cron { .. } | Trigger::Manual { .. } => {}
    }
    told
}

/// The same for the same part of the same job, on every node: FNV-1a, which is enough for the few spans of one trace.
fn span_id(job: &JobId, part: &str) -> u64 {
    let bytes = job.as_str().bytes().chain([b'/']).chain(part.bytes());
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // No span has the id 0.
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use bell_core::work::job::{Fate, JobSpec, Rules};
    use bell_core::work::run::{End, Ended};

    use super::*;

    const JOB: &str = "01a1e23044dc70d8b513fe9594f1c173";

    fn job(state: State) -> Job {
        let trigger = Trigger::Manual { by: None };
        Job::new(
            JobSpec { agent: "triage".parse().unwrap(), trigger, rules: Rules::default() },
            Wall(1_000),
            state,
        )
    }

    fn run(attempt: u32, end: End) -> Run {
        Run {
            job: JOB.into(),
            agent: "triage".parse().unwrap(),
            attempt,
            session: "s".into(),
            node: "a".to_owned(),
            claimed: Wall(2_000),
            begun: Some(Wall(3_000)),
            ended: Some(Ended { end, at: Wall(4_000) }),
            status: None,
            returned: None,
            kill: None,
            isolation: None,
            wants_rerun: false,
        }
    }

    #[test]
    fn a_job_that_is_over_is_one_trace_from_trigger_to_exit() {
        let over = State::Over { fate: Fate::Ended { end: End::Completed }, at: Wall(4_000) };
        let spans = spans(&job(over), &"triage-1".into(), &run(1, End::Completed));
        let told: Vec<_> = spans.iter().map(|span| (span.name, span.start.0, span.end.0)).collect();
        assert_eq!(
            told,
            [
                ("trigger", 1_000, 4_000),
                ("queue", 1_000, 2_000),
                ("run", 2_000, 4_000),
                ("agent", 3_000, 4_000)
            ]
        );
        assert!(spans.iter().all(|span| span.trace == JOB && span.failure.is_none()));
        let [trigger, queue, run, agent] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(
            (queue.parent, run.parent, agent.parent),
            (Some(trigger.id), Some(trigger.id), Some(run.id))
        );
    }

    #[test]
    fn a_run_that_is_followed_by_another_leaves_the_trace_open_and_the_next_one_adds_to_it() {
        let failed = End::Failed { code: 3 };
        let first = spans(
            &job(State::Delayed { due: bell_core::time::Timestamp::from_ms(9) }),
            &"a".into(),
            &run(1, failed),
        );
        assert_eq!(first.iter().map(|span| span.name).collect::<Vec<_>>(), ["queue", "run", "agent"]);
        assert!(first[1].failure.is_some());
        let over = State::Over { fate: Fate::Ended { end: End::Completed }, at: Wall(4_000) };
        let second = spans(&job(over), &"b".into(), &run(2, End::Completed));
        assert_eq!(second.iter().map(|span| span.name).collect::<Vec<_>>(), ["trigger", "run", "agent"]);
        assert_eq!(first[1].parent, Some(second[0].id));
        assert_ne!(first[1].id, second[1].id);
    }
}
