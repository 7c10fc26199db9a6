//! Which sources there are, and which agents want what: everything that is needed to make jobs of an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use bell_core::webhook::{Check, Filter, Verdict};
use bell_core::work::Wall;
use bell_core::work::accept::{Offer, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::delivery::{Delivery, DeliveryKey, Judged, Judgement, MAX_UNWANTED};
use bell_core::work::job::{JobId, JobSpec, Rules, Trigger};
use bell_core::work::receive::Receipt;

use crate::event::Event;
use crate::limits::REASON_BYTES_MAX;
use crate::source::Source;

/// What a project expects from outside.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// The sources, by their names.
    pub sources: BTreeMap<String, Source>,
    /// The agents that want something.
    pub agents: Vec<Subscriber>,
}

/// An agent that wants to hear of some events.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// The agent.
    pub agent: AgentName,
    /// What it wants: one filter that matches is enough.
    pub filters: Vec<Filter>,
    /// What follows from how a run of it ends.
    pub rules: Rules,
    /// How many of its jobs may wait.
    pub room: Room,
}

/// What came of all filters of one agent.
#[derive(Clone, Debug)]
pub struct Looked<'a> {
    /// The agent.
    pub subscriber: &'a Subscriber,
    /// What came of each filter, in their order.
    pub verdicts: Vec<Verdict<'a>>,
}

impl Looked<'_> {
    /// Whether the agent wants the event.
    pub fn matched(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.matched)
    }
}

impl Hooks {
    /// Which of the agents that listen to its source want an event, and why or why not.
    pub fn look<'a>(&'a self, event: &'a Event) -> Vec<Looked<'a>> {
        let source = &event.context().source;
        let listens =
            |subscriber: &&Subscriber| subscriber.filters.iter().any(|filter| filter.source == *source);
        let look = |subscriber: &'a Subscriber| Looked { subscriber, verdicts: verdicts(subscriber, event) };
        self.agents.iter().filter(listens).map(look).collect()
    }

    /// The event as something to take on: what is kept of it, what each agent's filters say, and a job for each agent that
    /// wants it. `new_job` gives a name that was never used.
    ///
    /// The same delivery makes one job for one agent, however often and by whomever it is told. Told after some agents
    /// have got theirs, it makes the jobs that are missing.
    pub fn receipt(&self, event: &Event, at: Wall, mut new_job: impl FnMut() -> JobId) -> Receipt {
        let (context, kept) = (event.context(), event.kept());
        let (mut agents, mut offers, mut unlisted) = (Vec::new(), Vec::new(), 0);
        let (mut unwanted, mut room) = (0, REASON_BYTES_MAX);
        let key = DeliveryKey { source: context.source.as_str().into(), id: event.id().as_str().into() };
        for looked in self.look(event) {
            let job = looked.matched().then(&mut new_job);
            if let Some(job) = job.clone() {
                offers.push((offer(looked.subscriber, event, &key, at, job), looked.subscriber.room));
            } else if unwanted == MAX_UNWANTED || room == 0 {
                unlisted += 1;
                continue;
            } else {
                unwanted += 1;
            }
            agents.push(judged(&looked, job, &mut room));
        }
        let place = [&context.repo, &context.project, &context.channel].into_iter().flatten().next().cloned();
        let delivery = Delivery {
            key,
            at,
            event: context.event.clone(),
            action: context.action.clone(),
            place,
            agents,
            unlisted,
            replay: None,
            headers: kept.headers.clone(),
            bytes: kept.bytes,
            body: kept.body.clone(),
        };
        Receipt { delivery: Arc::new(delivery), offers }
    }
}

fn verdicts<'a>(subscriber: &'a Subscriber, event: &'a Event) -> Vec<Verdict<'a>> {
    subscriber.filters.iter().map(|filter| event.matches(filter)).collect()
}

fn offer(subscriber: &Subscriber, event: &Event, key: &DeliveryKey, at: Wall, id: JobId) -> Offer {
    let trigger = Trigger::Webhook { source: Arc::clone(&key.source), delivery: Arc::clone(&key.id) };
    let spec = JobSpec { agent: subscriber.agent.clone(), trigger, rules: subscriber.rules.clone() };
    Offer { id, spec, payload: event.payload().into(), once: None, at }
}

/// The job of an agent if it wants one, and its reasons as far as there is room for them.
fn judged(looked: &Looked<'_>, job: Option<JobId>, room: &mut usize) -> Judged {
    let mut reason = |check: &Check<'_>| {
        let text = format!("{} {check}", if check.passed { '+' } else { '-' });
        let fits = text.len() <= *room;
        *room = if fits { *room - text.len() } else { 0 };
        fits.then_some(text)
    };
    let filters = looked.verdicts.iter().map(|verdict| Judgement {
        matched: verdict.matched,
        reasons: verdict.checks.iter().filter_map(&mut reason).collect(),
    });
    Judged { agent: looked.subscriber.agent.clone(), filters: filters.collect(), job }
}

#[cfg(test)]
mod tests {
    use bell_core::webhook::{Field, Pattern};
    use bell_core::work::accept::Overflow;

    use super::*;
    use crate::{Fixture, Kind, Trust, Verified, rehearse};

    fn subscriber(agent: String, source: &str, pattern: &str) -> Subscriber {
        let patterns = vec![Pattern::parse(pattern).unwrap(); 20];
        let filter =
            Filter { source: source.to_owned(), fields: BTreeMap::from([(Field::Events, patterns)]) };
        let room = Room { size: 1, overflow: Overflow::Reject };
        Subscriber { agent: agent.parse().unwrap(), filters: vec![filter], rules: Rules::default(), room }
    }

    fn receipt(agents: Vec<Subscriber>) -> Receipt {
        let source = Source::new("hub", Kind::Github, Trust::Signed(Vec::new()));
        let fixture = Fixture { headers: Vec::new(), event: Some("issues".to_owned()), body: b"{}".to_vec() };
        let Ok(Verified::Event(event)) = rehearse(&source, fixture, "d-1", Wall(0)) else {
            panic!("it is signed")
        };
        let hooks = Hooks { sources: BTreeMap::new(), agents };
        hooks.receipt(&event, Wall(0), || JobId::from("job"))
    }

    #[test]
    fn who_wants_it_is_on_record_and_of_the_others_only_the_first_and_only_listeners() {
        let mut agents: Vec<_> = (0..200).map(|n| subscriber(format!("no-{n}"), "hub", "push")).collect();
        agents.extend((0..200).map(|n| subscriber(format!("yes-{n}"), "hub", "issues")));
        agents.extend((0..200).map(|n| subscriber(format!("deaf-{n}"), "lab", "issues")));
        let receipt = receipt(agents);
        let wanted = receipt.delivery.agents.iter().filter(|agent| agent.matched()).count();
        assert_eq!((wanted, receipt.offers.len()), (200, 200));
        assert_eq!(
            (receipt.delivery.agents.len(), receipt.delivery.unlisted),
            (200 + MAX_UNWANTED, 200 - MAX_UNWANTED)
        );
    }

    #[test]
    fn reasons_take_no_more_room_than_there_is() {
        let long = "x".repeat(200);
        let receipt = receipt((0..40).map(|n| subscriber(format!("no-{n}"), "hub", &long)).collect());
        let filters = receipt.delivery.agents.iter().flat_map(|agent| &agent.filters);
        let bytes: usize = filters.flat_map(|filter| &filter.reasons).map(String::len).sum();
        assert!((REASON_BYTES_MAX / 2..=REASON_BYTES_MAX).contains(&bytes), "{bytes}");
        assert_eq!(receipt.delivery.agents.len() + receipt.delivery.unlisted, 40);
    }
}
