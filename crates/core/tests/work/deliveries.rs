//! What senders are promised of deliveries, one sentence each.

use std::sync::Arc;

use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::delivery::DeliveryVerdict::{Duplicate, Full, Queued, Unmatched};
use bell_core::work::delivery::{Delivery, DeliveryKey, Judged, Judgement};
use bell_core::work::job::{JobId, Trigger};
use bell_core::work::receive::{Receipt, most_together};
use bell_core::work::row::{Row, RowId};

use crate::desk::{Desk, agent, wall};

const WIDE: Room = Room { size: 1_000, overflow: Overflow::Reject };
/// Records that a commit may change.
const OPS: usize = 125;

fn receipt(desk: &mut Desk, id: &str, agents: &[&str], room: Room) -> Receipt {
    let key = DeliveryKey { source: "hub".into(), id: id.into() };
    let trigger = Trigger::Webhook { source: key.source.clone(), delivery: key.id.clone() };
    let matched = || vec![Judgement { matched: true, reasons: vec!["+ source: hub".to_owned()] }];
    let offers: Vec<_> = agents.iter().map(|name| (desk.offer(name, trigger.clone()), room)).collect();
    let judged = |(offer, _): &(Offer, Room)| {
        let (agent, job) = (offer.spec.agent.clone(), Some(offer.id.clone()));
        Judged { agent, filters: matched(), job }
    };
    let delivery = Delivery {
        key,
        at: wall(1_000),
        event: "issues".to_owned(),
        action: None,
        place: None,
        agents: offers.iter().map(judged).collect(),
        unlisted: 0,
        replay: None,
        headers: Vec::new(),
        bytes: 2,
        body: Some(b"{}".as_slice().into()),
    };
    Receipt { delivery: Arc::new(delivery), offers }
}

fn jobs(desk: &Desk) -> Vec<JobId> {
    let rows = desk.rows().into_keys();
    rows.filter_map(|id| if let RowId::Job(job) = id { Some(job) } else { None }).collect()
}

fn record(desk: &Desk) -> Delivery {
    let rows = desk.rows().into_values();
    let mut records =
        rows.filter_map(|row| if let Row::Delivery(record) = row { Some((*record).clone()) } else { None });
    records.next().unwrap()
}

#[test]
fn one_told_twice_in_one_commit_makes_one_job() {
    let mut desk = Desk::default();
    let both = [receipt(&mut desk, "d-1", &["a"], WIDE), receipt(&mut desk, "d-1", &["a"], WIDE)];
    let received = desk.receive(&both, OPS);
    assert_eq!((received[0].verdict, received[1].verdict), (Queued, Duplicate));
    assert_eq!(received[0].jobs, received[1].jobs);
    assert_eq!(jobs(&desk).len(), 1);
}

#[test]
fn one_whose_commit_was_not_answered_knows_its_own_traces() {
    let mut desk = Desk::default();
    let told = [receipt(&mut desk, "d-1", &["a", "b"], WIDE)];
    let first = desk.receive(&told, OPS);
    assert_eq!(desk.receive(&told, OPS), first, "as if nothing had been stored before");
    let nobody = [receipt(&mut desk, "d-2", &[], WIDE)];
    assert_eq!(desk.receive(&nobody, OPS)[0].verdict, Unmatched);
    assert_eq!(desk.receive(&nobody, OPS)[0].verdict, Unmatched);
}

#[test]
fn where_one_queue_is_full_the_other_agents_get_theirs_and_told_again_the_last_one_does() {
    let mut desk = Desk::default();
    let narrow = Room { size: 1, ..WIDE };
    let first = [receipt(&mut desk, "d-1", &["b"], narrow)];
    desk.receive(&first, OPS);
    let told = [receipt(&mut desk, "d-2", &["a", "b"], narrow)];
    let received = desk.receive(&told, OPS).remove(0);
    assert_eq!((received.verdict, received.full, received.jobs.len()), (Full, vec![agent("b")], 1));
    let again = [receipt(&mut desk, "d-2", &["a", "b"], WIDE)];
    let received = desk.receive(&again, OPS).remove(0);
    assert_eq!((received.verdict, received.jobs.len()), (Queued, 2));
    assert_eq!(jobs(&desk).len(), 3);
}

#[test]
fn an_agent_that_is_gone_by_the_second_telling_keeps_its_job_on_record() {
    let mut desk = Desk::default();
    let told = [receipt(&mut desk, "d-1", &["a"], WIDE)];
    desk.receive(&told, OPS);
    let again = [receipt(&mut desk, "d-1", &["b"], WIDE)];
    assert_eq!(desk.receive(&again, OPS)[0].jobs.len(), 2);
    let names: Vec<_> = record(&desk).jobs().map(|(agent, _)| agent.to_string()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn what_does_not_fit_into_one_commit_goes_on_in_the_next() {
    let mut desk = Desk::default();
    let many: Vec<Receipt> =
        (0..100).map(|number| receipt(&mut desk, &format!("d-{number}"), &["a"], WIDE)).collect();
    let mut answered = 0;
    while answered < many.len() {
        let received = desk.receive(&many[answered..], OPS);
        assert!((1..=most_together(OPS)).contains(&received.len()), "{}", received.len());
        assert!(received.iter().all(|one| one.verdict == Queued));
        answered += received.len();
    }
    assert_eq!(jobs(&desk).len(), 100);
}

#[test]
fn a_delivery_for_more_agents_than_one_commit_holds_is_answered_when_all_have_theirs() {
    let mut desk = Desk::default();
    let names: Vec<String> = (0..60).map(|number| format!("agent-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let told = [receipt(&mut desk, "d-1", &names, WIDE)];
    let mut commits = 1;
    let received = loop {
        match desk.receive(&told, OPS).pop() {
            Some(received) => break received,
            None => commits += 1,
        }
    };
    assert_eq!((received.verdict, received.jobs.len(), commits), (Queued, 60, 3));
}

#[test]
fn large_bodies_share_no_commit() {
    let mut desk = Desk::default();
    let large = |desk: &mut Desk, id: &str| {
        let mut receipt = receipt(desk, id, &["a"], WIDE);
        receipt.offers[0].0.payload = "x".repeat(500 << 10).into();
        receipt
    };
    let both = [large(&mut desk, "d-1"), large(&mut desk, "d-2")];
    assert_eq!(desk.receive(&both, OPS).len(), 1);
    assert_eq!(desk.receive(&both[1..], OPS)[0].verdict, Queued);
}
