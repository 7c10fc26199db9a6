//! Single facts for whoever asks why, over the memory store. Asking changes nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bell_coord::work::intake::new_job;
use bell_coord::work::running::{Claim, Work};
use bell_coord::work::wall_now;
use bell_coord::{Ask, Coord};
use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobId, JobSpec, Rules, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::row::What;
use bell_core::work::run::End;
use bell_store::memory::{ManualClock, Memory};

const ROOM: Room = Room { size: 10_000, overflow: Overflow::DropOldest };
const MANY: Caps = Caps { agent: 1_000, fleet: None };

fn coord() -> (Coord, ManualClock) {
    let (store, clock) = Memory::with_manual_clock();
    (Coord::new(Arc::new(store)), clock)
}

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

async fn accept(coord: &Coord, at: Wall) -> JobId {
    let spec = JobSpec { agent: agent(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
    let offer = Offer { id: new_job(), spec, payload: "{}".into(), once: None, at };
    coord.accept(std::slice::from_ref(&offer), ROOM).await.unwrap();
    offer.id
}

async fn claim(coord: &Coord) -> Claim {
    match coord.claim(&agent(), MANY, "here").await.unwrap() {
        Work::Job(claim) => *claim,
        _ => panic!("nothing to claim"),
    }
}

#[tokio::test]
async fn jobs_come_page_by_page_from_when_on_they_are_wanted() {
    let (coord, _) = coord();
    let now = wall_now();
    let early = accept(&coord, Wall(now.0 - 1_000)).await;
    let mut late = Vec::new();
    for _ in 0..5 {
        late.push(accept(&coord, wall_now()).await);
    }
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = coord.jobs_since(now, from.as_deref(), 2).await.unwrap();
        found.extend(page.jobs.into_iter().map(|(id, _)| id));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(found, late, "and not {early}");
}

#[tokio::test]
async fn a_name_is_found_by_its_start() {
    let (coord, _) = coord();
    let job = accept(&coord, wall_now()).await;
    let run = claim(&coord).await.run;
    assert_eq!(coord.jobs_like(&job.as_str()[..8], 5).await.unwrap(), [job]);
    assert_eq!(coord.runs_like("triage-", 5).await.unwrap(), [run]);
    assert!(coord.runs_like("other-", 5).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_whose_session_ran_out_is_shown_as_dead_and_left_alone() {
    let (coord, clock) = coord();
    accept(&coord, wall_now()).await;
    let run = claim(&coord).await.run;
    let alive = |slots: Vec<(bell_core::work::line::Slot, bool)>| {
        slots.into_iter().map(|(slot, alive)| (slot.run, alive)).collect::<Vec<_>>()
    };
    assert_eq!(alive(coord.slots().await.unwrap()), [(run.clone(), true)]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(alive(coord.slots().await.unwrap()), [(run.clone(), false)]);
    assert!(coord.run(&run).await.unwrap().unwrap().0.ended.is_none(), "asking ends nothing");
}

#[tokio::test]
async fn the_end_of_a_run_and_what_happened_before_it_are_found_by_their_time() {
    let (coord, _) = coord();
    let before = wall_now();
    accept(&coord, before).await;
    let run = claim(&coord).await.run;
    coord.finish(&run, &End::Completed).await.unwrap();
    let at = coord.run(&run).await.unwrap().unwrap().0.ended.unwrap().at;
    let event = coord.end_of(&run, at).await.unwrap().unwrap();
    assert!(matches!(event.what, What::RunEnded { end: End::Completed, .. }));
    assert_eq!(coord.happened(before, at, 10).await.unwrap().len(), 1);
    assert!(coord.happened(Wall(at.0 + 1), Wall(at.0 + 2), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn who_broke_a_lock_is_known_for_that_key_alone() {
    let (coord, _) = coord();
    accept(&coord, wall_now()).await;
    let claim = claim(&coord).await;
    let (key, other) = (Key::parse("deploy://api").unwrap(), Key::parse("deploy://web").unwrap());
    coord.acquire(&claim.session, &Ask::all(vec![key.clone(), other.clone()])).await.unwrap();
    assert_eq!(coord.keys_of(claim.session.id(), 10).await.unwrap(), [key.clone(), other.clone()]);
    coord.break_lock(&key, "stuck", "ada").await.unwrap();
    let breakings = coord.breakings(&key).await.unwrap();
    assert_eq!(breakings.len(), 1);
    assert_eq!((breakings[0].by.as_str(), breakings[0].reason.as_str()), ("ada", "stuck"));
    assert_eq!(breakings[0].holders, [claim.session.id().as_str()]);
    assert!(coord.breakings(&other).await.unwrap().is_empty());
}
