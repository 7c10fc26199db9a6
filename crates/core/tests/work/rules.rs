//! What users are promised of jobs, queues and runs, one sentence each.

use std::collections::BTreeSet;
use std::time::Duration;

use bell_core::work::accept::{Accepted, Overflow, Room};
use bell_core::work::claim::{Begun, Claimed};
use bell_core::work::finish::Finished;
use bell_core::work::fire::{Fire, Fired, Overlap, Verdict};
use bell_core::work::job::{Fate, Rules, State, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::pause::Extent;
use bell_core::work::row::{RowId, Then};
use bell_core::work::run::{Class, End};
use bell_core::work::shelve::Moved;
use bell_core::work::speak::{Asked, Heard, Word};

use crate::desk::{Desk, agent, manual, wall};

const ONE: Caps = Caps { agent: 1, fleet: None };
const MANY: Caps = Caps { agent: 100, fleet: None };
const WIDE: Room = Room { size: 100, overflow: Overflow::DropOldest };

#[test]
fn jobs_of_an_agent_are_run_in_the_order_they_came() {
    let mut desk = Desk::default();
    let jobs: Vec<_> = (0..5).map(|_| desk.accept("a", manual(), WIDE)).collect();
    let claimed: Vec<_> = (0..5).map(|_| desk.claim("a", MANY).unwrap().0).collect();
    assert_eq!(claimed, jobs);
    assert!(matches!(desk.try_claim("a", MANY), Claimed::Idle));
}

#[test]
fn agents_have_queues_of_their_own() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    assert!(matches!(desk.try_claim("b", MANY), Claimed::Idle));
    assert!(desk.claim("a", MANY).is_some());
}

#[test]
fn a_job_offered_again_is_taken_on_once() {
    let mut desk = Desk::default();
    let offer = desk.offer("a", manual());
    assert!(matches!(desk.take(&offer, WIDE), Accepted::Queued { ahead: 0, .. }));
    assert_eq!(desk.take(&offer, WIDE), Accepted::Duplicate(offer.id.clone()));
    let same_delivery = |desk: &mut Desk| {
        let mut offer = desk.offer("a", manual());
        offer.once = Some("github/1".to_owned());
        offer
    };
    let (first, second) = (same_delivery(&mut desk), same_delivery(&mut desk));
    assert!(matches!(desk.take(&first, WIDE), Accepted::Queued { ahead: 1, .. }));
    assert_eq!(desk.take(&second, WIDE), Accepted::Duplicate(first.id));
}

#[test]
fn a_full_queue_drops_its_oldest_job_and_keeps_it_replayable() {
    let mut desk = Desk::default();
    let room = Room { size: 2, ..WIDE };
    let jobs: Vec<_> = (0..3).map(|_| desk.accept("a", manual(), room)).collect();
    assert!(matches!(desk.job(&jobs[0]).state, State::Over { fate: Fate::Dropped, .. }));
    assert_eq!(desk.undone(), [jobs[0].clone()]);
    assert_eq!(desk.claim("a", MANY).unwrap().0, jobs[1]);
    assert_eq!(desk.replay(&jobs[0]), Moved::Done);
    assert_eq!(desk.undone(), []);
    let rest: Vec<_> = (0..2).map(|_| desk.claim("a", MANY).unwrap().0).collect();
    assert_eq!(rest, [jobs[2].clone(), jobs[0].clone()]);
}

#[test]
fn a_full_queue_that_rejects_leaves_everything_as_it_is() {
    let mut desk = Desk::default();
    let room = Room { size: 1, overflow: Overflow::Reject };
    let first = desk.accept("a", manual(), room);
    let offer = desk.offer("a", manual());
    assert_eq!(desk.take(&offer, room), Accepted::Full);
    assert!(!desk.rows().contains_key(&RowId::Job(offer.id)));
    assert_eq!(desk.claim("a", MANY).unwrap().0, first);
}

#[test]
fn no_more_runs_of_an_agent_than_its_scale() {
    let mut desk = Desk::default();
    let caps = Caps { agent: 2, fleet: None };
    (0..3).for_each(|_| drop(desk.accept("a", manual(), WIDE)));
    let (first, second) = (desk.claim("a", caps).unwrap().1, desk.claim("a", caps).unwrap().1);
    let Claimed::Occupied(slots) = desk.try_claim("a", caps) else { panic!("a third run") };
    assert_eq!(slots.iter().map(|slot| &slot.run).collect::<Vec<_>>(), [&first, &second]);
    desk.finish(&first, End::Completed);
    assert!(desk.claim("a", caps).is_some());
}

#[test]
fn what_an_operator_says_of_the_scale_counts_more_than_the_settings() {
    let mut desk = Desk::default();
    (0..4).for_each(|_| drop(desk.accept("a", manual(), WIDE)));
    assert!(desk.scale("a", Some(2)));
    assert!(!desk.scale("a", Some(2)), "it was so");
    let first = desk.claim("a", ONE).unwrap().1;
    desk.claim("a", ONE).unwrap();
    assert!(matches!(desk.try_claim("a", MANY), Claimed::Occupied(_)));
    assert!(desk.scale("a", Some(0)));
    desk.finish(&first, End::Completed);
    assert!(matches!(desk.try_claim("a", MANY), Claimed::Occupied(_)));
    assert!(matches!(
        desk.fire("a", 1, Overlap::Queue, MANY),
        Fired::Now(Fire { verdict: Verdict::Skipped { .. }, .. })
    ));
    assert!(desk.scale("a", None));
    assert!(!desk.scale("a", None), "it was so");
    assert!(desk.claim("a", MANY).is_some());
}

#[test]
fn no_more_runs_in_the_fleet_than_its_cap() {
    let mut desk = Desk::default();
    let caps = Caps { agent: 5, fleet: Some(2) };
    for name in ["a", "b", "c"] {
        desk.accept(name, manual(), WIDE);
    }
    let first = desk.claim("a", caps).unwrap().1;
    desk.claim("b", caps).unwrap();
    assert!(matches!(desk.try_claim("c", caps), Claimed::Occupied(_)));
    desk.finish(&first, End::Completed);
    assert!(desk.claim("c", caps).is_some());
}

#[test]
fn a_disabled_agent_runs_nothing() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    assert_eq!(desk.try_claim("a", Caps { agent: 0, fleet: None }), Claimed::Occupied(Vec::new()));
}

#[test]
fn a_run_whose_session_died_is_lost_and_frees_its_runner() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    assert_eq!(desk.lose(&run), None, "it lives");
    desk.kill(&run);
    assert_eq!(desk.lose(&run), Some(Finished::Now { end: End::Lost, then: Then::Over }));
    assert_eq!(desk.undone(), [job]);
    desk.accept("a", manual(), WIDE);
    assert!(desk.claim("a", ONE).is_some());
}

#[test]
fn a_run_that_trouble_kept_from_starting_puts_its_job_back_in_front_for_a_while() {
    let mut desk = Desk::default();
    let (first, second) = (desk.accept("a", manual(), WIDE), desk.accept("a", manual(), WIDE));
    for wait in [500, 1_000, 2_000] {
        let (job, run) = desk.claim("a", MANY).unwrap();
        assert_eq!(job, first, "it is the first again");
        let end = End::not_started("the store did not answer");
        assert_eq!(
            desk.finish(&run, end.clone()),
            Finished::Now { end, then: Then::Retry { after_ms: wait } }
        );
        let (wait, nearly) = (Duration::from_millis(wait), wait - 1);
        assert_eq!(desk.try_claim("a", MANY), Claimed::Later(wait), "nothing overtakes it");
        desk.pass(nearly);
        assert!(matches!(desk.try_claim("a", MANY), Claimed::Later(_)));
        desk.pass(1);
    }
    let (job, run) = desk.claim("a", MANY).unwrap();
    desk.finish(&run, End::Completed);
    assert_eq!((job, desk.job(&first).not_started), (first, 0));
    assert_eq!(desk.claim("a", MANY).unwrap().0, second);
    assert_eq!(desk.undone(), []);
}

#[test]
fn a_run_that_can_not_be_started_as_its_agent_is_is_over() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", MANY).unwrap().1;
    let end = End::unstartable("its program is missing");
    assert_eq!(desk.finish(&run, end.clone()), Finished::Now { end, then: Then::Over });
    assert_eq!(desk.undone(), [job]);
}

#[test]
fn a_run_taken_for_lost_that_is_shown_never_to_have_run_puts_its_job_back_once() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", MANY).unwrap().1;
    desk.kill(&run);
    assert_eq!(desk.lose(&run), Some(Finished::Now { end: End::Lost, then: Then::Over }));
    let end = End::not_started("the store did not answer");
    for _ in 0..2 {
        assert_eq!(desk.finish(&run, end.clone()), Finished::Before(End::Lost), "a run has one end");
    }
    assert_eq!((desk.undone(), desk.job(&job).failures, desk.waiting("a")), (vec![], 0, 1));
}

#[test]
fn a_job_that_was_replayed_meanwhile_is_not_put_back_a_second_time() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", MANY).unwrap().1;
    desk.kill(&run);
    desk.lose(&run);
    desk.replay(&job);
    let late = desk.finish(&run, End::not_started("the store did not answer"));
    assert_eq!((late, desk.waiting("a")), (Finished::Before(End::Lost), 1));
}

#[test]
fn a_claim_that_was_never_begun_is_given_to_another_and_can_no_longer_begin() {
    let mut desk = Desk::default();
    let (first, _second) = (desk.accept("a", manual(), WIDE), desk.accept("a", manual(), WIDE));
    let runner = desk.runner();
    desk.claim_as("a", &runner, MANY);
    desk.kill(&runner.run);
    assert_eq!(desk.lose(&runner.run), Some(Finished::Now { end: End::Lost, then: Then::Requeued }));
    assert_eq!(desk.begin(&runner.run), Begun::TooLate);
    assert_eq!(desk.claim("a", MANY).unwrap().0, first, "it is the first again");
    assert_eq!(desk.undone(), []);
}

#[test]
fn a_run_whose_session_has_ended_can_no_longer_begin() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    let runner = desk.runner();
    desk.claim_as("a", &runner, MANY);
    desk.kill(&runner.run);
    assert_eq!(desk.begin(&runner.run), Begun::TooLate);
}

#[test]
fn a_run_that_somebody_wants_to_end_does_not_begin() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    let runner = desk.runner();
    desk.claim_as("a", &runner, MANY);
    assert_eq!(desk.ask_to_end(&runner.run), Asked::Noted);
    assert_eq!(desk.begin(&runner.run), Begun::Killed("enough".to_owned()));
    desk.finish(&runner.run, End::Killed { reason: "enough".to_owned() });
    assert!(matches!(desk.ask_to_end(&runner.run), Asked::Ended(End::Killed { .. })));
    assert_eq!(desk.ask_to_end(&"nobody".into()), Asked::Unknown);
    assert_eq!(desk.undone(), [], "it ended as somebody wanted");
}

#[test]
fn many_offers_are_taken_on_together_in_their_order() {
    let mut desk = Desk::default();
    let mut offers: Vec<_> = (0..6).map(|_| desk.offer("a", manual())).collect();
    offers[4].once = Some("same".to_owned());
    offers[5].once = Some("same".to_owned());
    let accepted = desk.take_all(&offers, Room { size: 4, ..WIDE });
    assert_eq!(accepted[0], Accepted::Queued { ahead: 0, dropped: Vec::new() });
    assert_eq!(accepted[4], Accepted::Queued { ahead: 3, dropped: vec![offers[0].id.clone()] });
    assert_eq!(accepted[5], Accepted::Duplicate(offers[4].id.clone()));
    assert_eq!(desk.claim("a", MANY).unwrap().0, offers[1].id);
}

#[test]
fn what_a_lost_run_says_later_counts_for_nothing() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    desk.kill(&run);
    desk.lose(&run);
    assert_eq!(desk.finish(&run, End::Completed), Finished::Before(End::Lost));
    assert_eq!(desk.say(&run, Word::Status("x".into())), Heard::Ended(End::Lost));
    let stranger = desk.speak_from_another_session(&run, Word::Status("x".into()));
    assert_eq!(stranger, Heard::Unknown);
}

#[test]
fn a_finished_run_ends_its_session() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    assert!(desk.session_exists(&run));
    desk.finish(&run, End::Completed);
    assert!(!desk.session_exists(&run));
}

#[test]
fn a_claim_whose_answer_was_lost_gets_the_same_job() {
    let mut desk = Desk::default();
    let (first, second) = (desk.accept("a", manual(), WIDE), desk.accept("a", manual(), WIDE));
    let runner = desk.runner();
    for _ in 0..2 {
        assert!(matches!(desk.claim_as("a", &runner, MANY), Claimed::Job { id, .. } if id == first));
    }
    assert_eq!(desk.claim("a", MANY).unwrap().0, second);
}

#[test]
fn a_failure_is_retried_by_its_rules_and_then_listed_as_undone() {
    let mut desk = Desk::default();
    let rules =
        Rules { retries: 1, retry_on: BTreeSet::from([Class::Failed]), backoff_ms: 500, ..Rules::default() };
    let job = desk.accept_with("a", manual(), rules, WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    let retried = Finished::Now { end: End::Failed { code: 3 }, then: Then::Retry { after_ms: 500 } };
    assert_eq!(desk.finish(&run, End::Failed { code: 3 }), retried);
    assert!(!desk.retry(&job), "too early");
    desk.pass(500);
    assert!(desk.retry(&job));
    assert!(!desk.retry(&job), "once");
    let run = desk.claim("a", ONE).unwrap().1;
    let over = Finished::Now { end: End::Failed { code: 3 }, then: Then::Over };
    assert_eq!(desk.finish(&run, End::Failed { code: 3 }), over);
    assert_eq!(desk.undone(), [job]);
}

#[test]
fn a_run_that_asks_is_run_again_before_all_others_as_often_as_allowed() {
    let mut desk = Desk::default();
    let rules = Rules { max_reruns: 2, ..Rules::default() };
    let first = desk.accept_with("a", manual(), rules, WIDE);
    let second = desk.accept("a", manual(), WIDE);
    for then in [Then::Rerun, Then::Rerun, Then::Over] {
        let (job, run) = desk.claim("a", ONE).unwrap();
        assert_eq!(job, first);
        assert_eq!(desk.say(&run, Word::Rerun), Heard::Noted);
        assert_eq!(desk.finish(&run, End::Completed), Finished::Now { end: End::Completed, then });
    }
    assert_eq!(desk.claim("a", ONE).unwrap().0, second);
}

#[test]
fn a_failed_run_is_not_run_again_although_it_asked() {
    let mut desk = Desk::default();
    desk.accept_with("a", manual(), Rules { max_reruns: 2, ..Rules::default() }, WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    desk.say(&run, Word::Rerun);
    let over = Finished::Now { end: End::Failed { code: 1 }, then: Then::Over };
    assert_eq!(desk.finish(&run, End::Failed { code: 1 }), over);
}

#[test]
fn a_called_run_may_not_ask_to_be_run_again() {
    let mut desk = Desk::default();
    desk.accept("a", Trigger::Call { caller: "r".into(), depth: 1 }, WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    assert_eq!(desk.say(&run, Word::Rerun), Heard::NotRerunnable("call"));
}

#[test]
fn what_a_run_returned_is_kept_with_its_job() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    desk.say(&run, Word::Return("1".into()));
    desk.say(&run, Word::Return("42".into()));
    desk.finish(&run, End::Completed);
    assert_eq!(desk.job(&job).returned.as_deref(), Some("42"));
}

#[test]
fn a_paused_fleet_accepts_and_starts_nothing() {
    for extent in [Extent::Fleet, Extent::Agent(agent("a"))] {
        let mut desk = Desk::default();
        assert!(desk.pause(&extent));
        assert!(!desk.pause(&extent), "it is paused");
        let job = desk.accept("a", manual(), WIDE);
        assert!(matches!(desk.try_claim("a", MANY), Claimed::Paused(_)));
        assert!(
            matches!(desk.fire("a", 60, Overlap::Queue, MANY), Fired::Now(fire) if skipped(&fire.verdict))
        );
        assert!(desk.resume(&extent));
        assert!(!desk.resume(&extent));
        assert_eq!(desk.claim("a", MANY).unwrap().0, job);
    }
}

#[test]
fn a_pause_that_ends_at_once_stands_on_record_with_its_end() {
    let mut desk = Desk::default();
    desk.pause_and_resume(&Extent::Fleet);
    let noted = desk.rows().into_keys().filter(|id| matches!(id, RowId::History(..)));
    assert_eq!(noted.count(), 2);
}

fn skipped(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Skipped { .. })
}

#[test]
fn a_tick_fires_once_whoever_comes_second() {
    let mut desk = Desk::default();
    assert!(matches!(desk.fire("a", 60, Overlap::Skip, ONE), Fired::Now(fire) if !skipped(&fire.verdict)));
    assert!(matches!(desk.fire("a", 60, Overlap::Skip, ONE), Fired::Before(fire) if !skipped(&fire.verdict)));
    assert_eq!(desk.waiting("a"), 1);
}

#[test]
fn a_tick_of_a_busy_agent_is_skipped_queued_once_or_queued_as_configured() {
    for (overlap, jobs) in [(Overlap::Skip, 0), (Overlap::QueueOne, 1), (Overlap::Queue, 3)] {
        let mut desk = Desk::default();
        desk.accept("a", manual(), WIDE);
        desk.claim("a", ONE).unwrap();
        for nominal in [60, 120, 180] {
            let Fired::Now(fire) = desk.fire("a", nominal, overlap, ONE) else { panic!("fired before") };
            assert!(desk.rows().contains_key(&RowId::Fire(agent("a"), wall(nominal))), "{fire:?}");
        }
        assert_eq!(desk.waiting("a"), jobs, "{overlap:?}");
        assert_eq!(desk.skips(), 3 - jobs as usize, "each skip is in history: {overlap:?}");
    }
}

#[test]
fn a_tick_does_not_count_a_dead_run_as_busy() {
    let mut desk = Desk::default();
    desk.accept("a", manual(), WIDE);
    let run = desk.claim("a", ONE).unwrap().1;
    desk.kill(&run);
    assert!(matches!(desk.fire("a", 60, Overlap::Skip, ONE), Fired::Now(fire) if !skipped(&fire.verdict)));
}

#[test]
fn a_cleared_queue_can_be_replayed_job_by_job() {
    let mut desk = Desk::default();
    let jobs: Vec<_> = (0..45).map(|_| desk.accept("a", manual(), WIDE)).collect();
    assert_eq!(desk.clear("a"), jobs);
    assert_eq!(desk.waiting("a"), 0);
    assert_eq!(desk.undone().len(), 45);
    assert_eq!(desk.replay(&jobs[7]), Moved::Done);
    assert_eq!(desk.claim("a", MANY).unwrap().0, jobs[7]);
}

#[test]
fn a_job_is_not_replayed_into_a_full_queue() {
    let mut desk = Desk::default();
    let (first, room) = (desk.accept("a", manual(), WIDE), Room { size: 100, ..WIDE });
    desk.cancel(&first);
    (0..100).for_each(|_| drop(desk.accept("a", manual(), room)));
    assert_eq!(desk.replay(&first), Moved::Full);
}

#[test]
fn a_cancelled_job_leaves_the_queue_and_only_a_waiting_one_can_be_cancelled() {
    let mut desk = Desk::default();
    let jobs: Vec<_> = (0..30).map(|_| desk.accept("a", manual(), WIDE)).collect();
    for job in &jobs[..29] {
        assert_eq!(desk.cancel(job), Moved::Done);
    }
    let (claimed, run) = desk.claim("a", MANY).unwrap();
    assert_eq!(claimed, jobs[29]);
    assert_eq!(desk.cancel(&claimed), Moved::Not(State::Running { run: run.clone() }));
    assert!(matches!(desk.cancel(&jobs[0]), Moved::Not(State::Over { .. })));
    assert_eq!(desk.cancel(&"nobody".into()), Moved::Unknown);
    assert_eq!(desk.replay(&claimed), Moved::Not(State::Running { run }));
}
