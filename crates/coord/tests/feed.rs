//! What happens, read in the order of its commits: nothing missed and nothing twice, however often one begins again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bell_coord::Coord;
use bell_coord::work::feed::{Happened, Position};
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{Overlap, Tick};
use bell_core::work::job::{JobSpec, Rules, Trigger};
use bell_core::work::pause::Extent;
use bell_core::work::row::What;
use bell_store::memory::Memory;

const ROOM: Room = Room { size: 1_000, overflow: Overflow::DropOldest };

fn coord() -> Coord {
    Coord::new(Arc::new(Memory::new()))
}

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

fn offer(at: Wall) -> Offer {
    let spec = JobSpec { agent: agent(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
    Offer { id: new_job(), spec, payload: "{}".into(), once: None, at }
}

async fn accept(coord: &Coord, count: usize) -> Vec<String> {
    let offers: Vec<Offer> = (0..count).map(|_| offer(wall_now())).collect();
    coord.accept(&offers, ROOM).await.unwrap();
    offers.iter().map(|offer| offer.id.to_string()).collect()
}

/// Everything after a position, and the position behind it.
async fn after(coord: &Coord, position: Position) -> (Vec<String>, Position) {
    let found = coord.happened_after(&position).await.unwrap();
    let behind = found.happenings.last().map_or(position, |last| last.position);
    let told = found.happenings.into_iter().map(|happening| match happening.what {
        Happened::Accepted(id, _) => format!("accepted {id}"),
        Happened::Noted(event) => match event.what {
            What::Paused { reason } => reason.unwrap_or_else(|| "resumed".to_owned()),
            What::Skipped { reason, .. } => reason,
            What::Shelved { .. } => format!("shelved {}", event.job.unwrap()),
            other => format!("{other:?}"),
        },
    });
    (told.collect(), behind)
}

#[tokio::test]
async fn things_are_told_in_the_order_in_which_they_were_committed() {
    let coord = coord();
    let start = coord.latest_position().await.unwrap();
    let jobs = accept(&coord, 1).await;
    coord.pause(&Extent::Fleet, "lunch").await.unwrap();
    coord.pause(&Extent::Agent(agent()), "tea").await.unwrap();
    let (told, behind) = after(&coord, start).await;
    assert_eq!(told, [format!("accepted {}", jobs[0]), "lunch".to_owned(), "tea".to_owned()]);
    assert!(after(&coord, behind).await.0.is_empty());
    let text = behind.to_string();
    assert_eq!(text.parse::<Position>().unwrap(), behind);
}

#[tokio::test]
async fn a_position_can_stand_between_two_things_of_one_commit() {
    let coord = coord();
    let start = Position::since(Wall(0));
    let jobs = accept(&coord, 10).await;
    let all = coord.happened_after(&start).await.unwrap().happenings;
    assert_eq!(all.len(), jobs.len());
    for (index, happening) in all.iter().enumerate() {
        let (rest, _) = after(&coord, happening.position).await;
        assert_eq!(rest.len(), jobs.len() - index - 1);
    }
}

#[tokio::test]
async fn a_job_is_told_once_whatever_becomes_of_it() {
    let coord = coord();
    let jobs = accept(&coord, 1).await;
    let (_, behind) = after(&coord, Position::since(Wall(0))).await;
    coord.cancel(&jobs[0].as_str().into()).await.unwrap();
    assert_eq!(after(&coord, behind).await.0, [format!("shelved {}", jobs[0])]);
}

#[tokio::test]
async fn what_another_clock_noted_for_an_earlier_minute_is_not_missed() {
    let coord = coord();
    accept(&coord, 1).await;
    coord.pause(&Extent::Fleet, "first").await.unwrap();
    let (_, behind) = after(&coord, Position::since(Wall(0))).await;
    // A machine whose clock is two minutes behind notes something now.
    let late = offer(Wall(wall_now().0 - 120_000));
    coord.accept(std::slice::from_ref(&late), ROOM).await.unwrap();
    let tick = Tick { agent: agent(), nominal: late.at, offer: late.clone(), overlap: Overlap::Skip };
    coord.miss(&tick, "asleep").await.unwrap();
    assert_eq!(after(&coord, behind).await.0, [format!("accepted {}", late.id), "asleep".to_owned()]);
}

#[tokio::test]
async fn who_waits_is_told_of_the_next_thing() {
    let coord = coord();
    let start = coord.latest_position().await.unwrap();
    let found = coord.happened_after(&start).await.unwrap();
    assert!(found.happenings.is_empty());
    let other = coord.clone();
    let waiting = tokio::spawn(async move { other.may_have_happened(found.seen).await });
    coord.pause(&Extent::Agent(agent()), "tea").await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(after(&coord, start).await.0, ["tea"]);
}

#[test]
fn what_is_no_position_is_not_read_as_one() {
    for wrong in
        ["", "1", "1.2", "1.2.3.4", "+1.2.3", "a.b.c", "1..3", "-1.0.0", "1.2.99999999999999999999999"]
    {
        assert!(wrong.parse::<Position>().is_err(), "{wrong}");
    }
}
