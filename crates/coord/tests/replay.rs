//! Dead letters are replayed in bulk: each once, in the order of the list, and never beyond the size of a queue.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bell_coord::Coord;
use bell_coord::work::intake::new_job;
use bell_coord::work::running::Work;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobId, JobSpec, Rules, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::run::End;
use bell_core::work::shelve::{DeadLetter, Replayed};
use bell_store::memory::Memory;

const ROOM: Room = Room { size: 100_000, overflow: Overflow::DropOldest };

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

fn coord() -> Coord {
    Coord::new(Arc::new(Memory::new()))
}

/// Has so many jobs accepted and cleared; answers them in the order of their acceptance.
async fn cleared(coord: &Coord, count: usize) -> Vec<JobId> {
    let spec = JobSpec { agent: agent(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
    let offer =
        |_| Offer { id: new_job(), spec: spec.clone(), payload: "{}".into(), once: None, at: wall_now() };
    let offers: Vec<Offer> = (0..count).map(offer).collect();
    for some in offers.chunks(20) {
        coord.accept(some, ROOM).await.unwrap();
    }
    assert_eq!(coord.clear(&agent()).await.unwrap().len(), count);
    offers.into_iter().map(|offer| offer.id).collect()
}

async fn letters(coord: &Coord) -> Vec<DeadLetter> {
    let (mut letters, mut from) = (Vec::new(), None);
    loop {
        let page = coord.undone(from.as_deref(), 1_000).await.unwrap();
        letters.extend(page.rows.into_iter().map(|(since, (job, _))| DeadLetter { job, since }));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    letters.sort_by(|one, other| one.job.cmp(&other.job));
    letters
}

fn count(replayed: &[Replayed], wanted: Replayed) -> usize {
    replayed.iter().filter(|replayed| **replayed == wanted).count()
}

#[tokio::test]
async fn thousands_are_replayed_in_order_and_a_second_call_replays_none_of_them() {
    let coord = coord();
    let jobs = cleared(&coord, 3_000).await;
    let letters = letters(&coord).await;
    let replayed = coord.replay_all(&letters, |_| Some(100_000)).await.unwrap();
    assert_eq!(count(&replayed, Replayed::Queued), 3_000);
    assert!(coord.queued(&agent(), 1_000).await.unwrap() == jobs[..1_000], "the order of their acceptance");
    assert!(coord.undone(None, 1).await.unwrap().rows.is_empty());
    let again = coord.replay_all(&letters, |_| Some(100_000)).await.unwrap();
    assert_eq!(count(&again, Replayed::Gone), 3_000);
    assert_eq!(coord.line(&agent()).await.unwrap().waiting, 3_000);
}

#[tokio::test]
async fn a_list_that_is_old_replays_no_later_dead_letter_of_the_same_job() {
    let coord = coord();
    let jobs = cleared(&coord, 1).await;
    let old = letters(&coord).await;
    coord.replay_all(&old, |_| Some(10)).await.unwrap();
    let Work::Job(claim) = coord.claim(&agent(), Caps { agent: 1, fleet: None }, "here").await.unwrap()
    else {
        panic!("it is queued");
    };
    coord.begin(&claim.run, None).await.unwrap();
    // Another moment than that of the first dead letter: the wall clock counts milliseconds.
    while wall_now() <= old[0].since {
        std::hint::spin_loop();
    }
    coord.finish(&claim.run, &End::Failed { code: 1 }).await.unwrap();
    assert_eq!(letters(&coord).await[0].job, jobs[0], "it failed, and is a dead letter again");
    assert_eq!(coord.replay_all(&old, |_| Some(10)).await.unwrap(), [Replayed::Gone]);
}

#[tokio::test]
async fn what_a_full_queue_or_a_missing_agent_can_not_take_stays_a_dead_letter() {
    let coord = coord();
    cleared(&coord, 50).await;
    let all = letters(&coord).await;
    assert_eq!(count(&coord.replay_all(&all, |_| None).await.unwrap(), Replayed::NoAgent), 50);
    let replayed = coord.replay_all(&all, |_| Some(30)).await.unwrap();
    assert_eq!((count(&replayed, Replayed::Queued), count(&replayed, Replayed::Full)), (30, 20));
    assert_eq!(letters(&coord).await, all[30..]);
}

#[tokio::test]
async fn only_what_was_cleared_since_is_counted() {
    let coord = coord();
    cleared(&coord, 3).await;
    let later = Wall(wall_now().0 + 60_000);
    assert_eq!(coord.cleared_since(Wall(0)).await.unwrap(), 3);
    assert_eq!(coord.cleared_since(later).await.unwrap(), 0);
    let all = letters(&coord).await;
    coord.replay_all(&all[..1], |_| Some(10)).await.unwrap();
    assert_eq!(coord.cleared_since(Wall(0)).await.unwrap(), 2, "what was replayed is not counted");
}
