//! Jobs and runs over the memory store: what one process claims another does not, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_coord::work::intake::new_job;
use bell_coord::work::running::{Claim, Work};
use bell_coord::work::wall_now;
use bell_coord::{Ask, Coord, Denied};
use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::accept::{Accepted, Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::claim::Begun;
use bell_core::work::finish::Finished;
use bell_core::work::fire::{Fired, Overlap, Tick};
use bell_core::work::job::{JobId, JobSpec, Rules, State, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::pause::Extent;
use bell_core::work::row::Then;
use bell_core::work::run::{Class, End};
use bell_core::work::shelve::Moved;
use bell_core::work::speak::{Asked, Heard, Word};
use bell_store::memory::{ManualClock, Memory};

const ROOM: Room = Room { size: 100, overflow: Overflow::DropOldest };
const ONE: Caps = Caps { agent: 1, fleet: None };
const MANY: Caps = Caps { agent: 1_000, fleet: None };

fn coord() -> (Coord, ManualClock) {
    let (store, clock) = Memory::with_manual_clock();
    (Coord::new(Arc::new(store)), clock)
}

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

fn offer() -> Offer {
    offer_with(Rules::default())
}

fn offer_with(rules: Rules) -> Offer {
    let spec = JobSpec { agent: agent(), trigger: Trigger::Manual { by: None }, rules };
    Offer { id: new_job(), spec, payload: "{\"a\":1}".into(), once: None, at: wall_now() }
}

async fn accept(coord: &Coord) -> JobId {
    let offer = offer();
    let accepted = coord.accept(std::slice::from_ref(&offer), ROOM).await.unwrap();
    assert!(matches!(accepted[..], [Accepted::Queued { .. }]), "{accepted:?}");
    offer.id
}

async fn claim(coord: &Coord, caps: Caps) -> Option<Claim> {
    match coord.claim(&agent(), caps, "here").await.unwrap() {
        Work::Job(claim) => Some(*claim),
        Work::Idle | Work::Paused(_) | Work::Later(_) | Work::Locked(_) | Work::Occupied(_) => None,
    }
}

#[tokio::test]
async fn an_accepted_job_is_claimed_begun_and_finished() {
    let (coord, _) = coord();
    let job = accept(&coord).await;
    let claim = claim(&coord, ONE).await.unwrap();
    assert_eq!(claim.id, job);
    assert_eq!(coord.payload(&job).await.unwrap().as_deref(), Some("{\"a\":1}"));
    assert_eq!(coord.begin(&claim.run, None).await.unwrap(), Begun::Now);
    let finished = coord.finish(&claim.run, &End::Completed).await.unwrap();
    assert_eq!(finished, Finished::Now { end: End::Completed, then: Then::Over });
    assert_eq!(coord.pool().await.unwrap().slots, []);
    let history = coord.history(None, 10).await.unwrap();
    assert_eq!(history.rows.len(), 1);
    assert_eq!(history.rows[0].1.job.as_ref(), Some(&job));
}

#[tokio::test]
async fn of_many_who_ask_at_once_each_gets_a_job_of_its_own_and_none_beyond_the_cap() {
    let (coord, _) = coord();
    let offers: Vec<Offer> = (0..40).map(|_| offer()).collect();
    coord.accept(&offers, ROOM).await.unwrap();
    let caps = Caps { agent: 30, fleet: Some(25) };
    let asking = (0..60).map(|_| {
        let coord = coord.clone();
        async move { claim(&coord, caps).await.map(|claim| claim.id) }
    });
    let mut tasks = tokio::task::JoinSet::new();
    asking.for_each(|asking| drop(tasks.spawn(asking)));
    let got: Vec<JobId> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(got.len(), 25);
    let first: BTreeSet<JobId> = offers[..25].iter().map(|offer| offer.id.clone()).collect();
    assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), first, "the oldest, each once");
}

#[tokio::test]
async fn the_locks_of_a_run_end_with_it() {
    let (coord, _) = coord();
    accept(&coord).await;
    let claimed = claim(&coord, ONE).await.unwrap();
    let session = coord.take_over(&claimed.session.token()).await.unwrap();
    let keys: Vec<Key> = (0..40).map(|n| Key::parse(&format!("issue://{n}")).unwrap()).collect();
    for key in &keys {
        coord.acquire(&session, &Ask::new(key.clone())).await.unwrap();
    }
    coord.finish(&claimed.run, &End::Failed { code: 2 }).await.unwrap();
    for key in &keys {
        assert!(coord.show(key).await.unwrap().holders.is_empty(), "{key}");
    }
    assert!(coord.acquire(&session, &Ask::new(keys[0].clone())).await.is_err(), "its session has ended");
}

#[tokio::test]
async fn a_claim_that_is_taken_over_late_is_kept_alive_from_then_on() {
    let (coord, clock) = coord();
    accept(&coord).await;
    let claimed = claim(&coord, ONE).await.unwrap();
    clock.advance(Duration::from_secs(8));
    let session = coord.take_over(&claimed.session.token()).await.unwrap();
    clock.advance(Duration::from_secs(8));
    assert_eq!(coord.begin(&claimed.run, None).await.unwrap(), Begun::Now, "16 s after the claim");
    drop(session);
}

#[tokio::test]
async fn a_claim_that_nobody_begins_lapses_and_the_job_goes_to_the_next() {
    let (coord, clock) = coord();
    let job = accept(&coord).await;
    let first = claim(&coord, ONE).await.unwrap();
    assert!(claim(&coord, ONE).await.is_none(), "it has 15 s to begin");
    clock.advance(Duration::from_secs(16));
    assert_eq!(coord.reap().await.unwrap(), []);
    let second = claim(&coord, ONE).await.unwrap();
    assert_eq!(second.id, job);
    assert_eq!(coord.begin(&first.run, None).await.unwrap(), Begun::TooLate);
    assert_eq!(coord.begin(&second.run, None).await.unwrap(), Begun::Now);
}

#[tokio::test]
async fn a_run_whose_supervisor_died_is_lost_and_done_again_only_if_its_rules_say_so() {
    let (coord, clock) = coord();
    for (retries, then) in [(0, Then::Over), (1, Then::Retry { after_ms: 0 })] {
        let retry_on = BTreeSet::from([Class::Lost]);
        let offer = offer_with(Rules { retries, retry_on, ..Rules::default() });
        coord.accept(std::slice::from_ref(&offer), ROOM).await.unwrap();
        let claimed = claim(&coord, ONE).await.unwrap();
        coord.begin(&claimed.run, None).await.unwrap();
        assert_eq!(coord.lose(&claimed.run).await.unwrap(), None, "it lives");
        clock.advance(Duration::from_secs(16));
        let lost = coord.lose(&claimed.run).await.unwrap();
        assert_eq!(lost, Some(Finished::Now { end: End::Lost, then }));
        assert_eq!(coord.finish(&claimed.run, &End::Completed).await.unwrap(), Finished::Before(End::Lost));
    }
    coord.retry_due().await.unwrap();
    assert!(claim(&coord, ONE).await.is_some());
}

#[tokio::test]
async fn a_failed_job_is_queued_again_when_its_time_has_come() {
    let (coord, clock) = coord();
    let retry_on = BTreeSet::from([Class::Failed]);
    let offer = offer_with(Rules { retries: 1, retry_on, backoff_ms: 5_000, ..Rules::default() });
    coord.accept(std::slice::from_ref(&offer), ROOM).await.unwrap();
    let run = claim(&coord, ONE).await.unwrap().run;
    coord.begin(&run, None).await.unwrap();
    coord.finish(&run, &End::Failed { code: 1 }).await.unwrap();
    assert!(coord.retry_due().await.unwrap().is_some(), "later");
    assert!(claim(&coord, ONE).await.is_none());
    clock.advance(Duration::from_secs(5));
    assert_eq!(coord.retry_due().await.unwrap(), None);
    assert_eq!(claim(&coord, ONE).await.unwrap().id, offer.id);
}

#[tokio::test]
async fn a_tick_fires_once_however_many_nodes_decide_it() {
    let (coord, _) = coord();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let coord = coord.clone();
        tasks.spawn(async move { coord.fire(&tick(60), MANY, ROOM).await.unwrap() });
    }
    let fired = tasks.join_all().await;
    assert_eq!(fired.iter().filter(|fired| matches!(fired, Fired::Now(_))).count(), 1);
    assert_eq!(coord.line(&agent()).await.unwrap().waiting, 1);
    assert_eq!(coord.fires(&agent(), None, 10).await.unwrap().rows[0].0, Wall(60_000));
}

fn tick(seconds: u64) -> Tick {
    let nominal = Wall(seconds * 1_000);
    let mut offer = offer();
    offer.spec.trigger = Trigger::Cron { nominal };
    Tick { agent: agent(), nominal, offer, overlap: Overlap::Skip }
}

#[tokio::test]
async fn old_ticks_are_forgotten_but_for_the_one_that_says_where_the_schedule_is() {
    let (coord, _) = coord();
    coord.first_seen(&agent(), Wall(1_000)).await.unwrap();
    for seconds in [60, 120, 180] {
        coord.miss(&tick(seconds), "nobody was there").await.unwrap();
    }
    // Names that start alike, on both sides in the order.
    for other in ["triage-2", "triage2", "a"] {
        coord.first_seen(&other.parse().unwrap(), Wall(1_000)).await.unwrap();
        for seconds in 1..=50 {
            coord.miss(&Tick { agent: other.parse().unwrap(), ..tick(seconds * 60) }, "away").await.unwrap();
        }
    }
    coord.forget_fires(Wall(125_000)).await.unwrap();
    assert_eq!(nominal_times(&coord, "triage").await, [180]);
    assert_eq!(nominal_times(&coord, "triage-2").await.len(), 48);
    coord.forget_fires(Wall(1_000_000_000)).await.unwrap();
    for name in ["a", "triage-2", "triage2"] {
        assert_eq!(nominal_times(&coord, name).await, [3_000], "{name}");
    }
    assert_eq!(nominal_times(&coord, "triage").await, [180]);
}

async fn nominal_times(coord: &Coord, agent: &str) -> Vec<u64> {
    let rows = coord.fires(&agent.parse().unwrap(), None, 100).await.unwrap().rows;
    rows.iter().map(|(nominal, _)| nominal.0 / 1_000).collect()
}

#[tokio::test]
async fn somebody_who_waits_for_work_is_told_of_it() {
    let (coord, _) = coord();
    let waiting = {
        let coord = coord.clone();
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                if let Some(claim) = claim(&coord, ONE).await {
                    return claim.id;
                }
                seen = coord.work_changed(seen).await.unwrap();
            }
        })
    };
    tokio::task::yield_now().await;
    let job = accept(&coord).await;
    assert_eq!(waiting.await.unwrap(), job);
}

#[tokio::test]
async fn a_supervisor_is_told_that_its_run_is_to_end() {
    let (coord, _) = coord();
    accept(&coord).await;
    let claimed = claim(&coord, ONE).await.unwrap();
    let told = {
        let (coord, run) = (coord.clone(), claimed.run.clone());
        tokio::spawn(async move { coord.kill_wanted(&run).await.unwrap() })
    };
    tokio::task::yield_now().await;
    assert_eq!(coord.kill(&claimed.run, "enough").await.unwrap(), Asked::Noted);
    assert_eq!(told.await.unwrap().as_deref(), Some("enough"));
}

#[tokio::test]
async fn only_the_session_of_a_run_may_speak_for_it() {
    let (coord, _) = coord();
    accept(&coord).await;
    accept(&coord).await;
    let (one, other) = (claim(&coord, MANY).await.unwrap(), claim(&coord, MANY).await.unwrap());
    let word = Word::Status("reading".to_owned());
    assert_eq!(coord.speak(&one.run, &one.session, &word).await.unwrap(), Heard::Noted);
    assert_eq!(coord.speak(&one.run, &other.session, &word).await.unwrap(), Heard::Unknown);
    let too_much = Word::Return("x".repeat(100_000));
    let refused = coord.speak(&one.run, &one.session, &too_much).await.unwrap_err();
    assert!(matches!(refused, Denied::Invalid(_)), "{refused}");
}

#[tokio::test]
async fn a_pause_holds_until_it_is_lifted_and_loses_nothing() {
    let (coord, _) = coord();
    coord.pause(&Extent::Fleet, "lunch").await.unwrap();
    let job = accept(&coord).await;
    let asked = coord.claim(&agent(), ONE, "here").await.unwrap();
    assert!(matches!(asked, Work::Paused(pause) if pause.reason == "lunch"));
    coord.resume_work(&Extent::Fleet).await.unwrap();
    assert_eq!(claim(&coord, ONE).await.unwrap().id, job);
}

#[tokio::test]
async fn what_is_cleared_can_be_replayed_and_what_is_old_is_forgotten() {
    let (coord, _) = coord();
    let jobs = [accept(&coord).await, accept(&coord).await];
    assert_eq!(coord.clear(&agent()).await.unwrap(), jobs);
    assert_eq!(coord.undone(None, 10).await.unwrap().rows.len(), 2);
    assert_eq!(coord.replay(&jobs[0], 100).await.unwrap(), Moved::Done);
    let run = claim(&coord, ONE).await.unwrap().run;
    coord.begin(&run, None).await.unwrap();
    coord.finish(&run, &End::Completed).await.unwrap();
    let later = Wall(wall_now().0 + 60_000);
    while coord.forget_before(later).await.unwrap() > 0 {}
    for job in &jobs {
        assert!(coord.job(job).await.unwrap().is_none());
    }
    let left = coord.store().scan("", "", 100).await.unwrap();
    let names: Vec<_> = left.records.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["work/line/triage", "work/pool"], "nothing else is left");
}

#[tokio::test]
async fn a_job_that_still_waits_is_not_forgotten() {
    let (coord, _) = coord();
    let job = accept(&coord).await;
    coord.clear(&agent()).await.unwrap();
    coord.replay(&job, 100).await.unwrap();
    while coord.forget_before(Wall(wall_now().0 + 60_000)).await.unwrap() > 0 {}
    assert!(matches!(coord.job(&job).await.unwrap().unwrap().0.state, State::Queued { .. }));
}

#[tokio::test]
async fn too_large_a_payload_is_refused() {
    let (coord, _) = coord();
    let offer = Offer { payload: "x".repeat(600_000).into(), ..offer() };
    let refused = coord.accept(&[offer], ROOM).await.unwrap_err();
    assert!(matches!(refused, Denied::Invalid(_)), "{refused}");
}

#[tokio::test]
async fn of_two_nodes_that_see_a_new_schedule_at_once_the_first_says_from_when_it_counts() {
    let (coord, _) = coord();
    let Fired::Now(first) = coord.first_seen(&agent(), Wall(90_000)).await.unwrap() else { panic!() };
    let Fired::Before(told) = coord.first_seen(&agent(), Wall(125_000)).await.unwrap() else { panic!() };
    assert_eq!(told, first);
    let rows = coord.fires(&agent(), None, 10).await.unwrap().rows;
    let until: Vec<Wall> = rows.iter().map(|(nominal, fire)| fire.decided_until(*nominal)).collect();
    assert_eq!(until, [Wall(90_000)], "the tick at 120 s is after it for both");
}
