//! Jobs that are claimed with locks, or wait for them in their queue.

use std::sync::Arc;
use std::time::Duration;

use bell_core::acquire::Acquire;
use bell_core::key::Key;
use bell_core::lock::{Mode, Ttl};
use bell_core::session::{Identity, RequestId, Secret, Session, SessionId};
use bell_core::view::Seen;
use bell_core::work::accept::{Overflow, Room};
use bell_core::work::claim::{Claimed, Locks, Runner, claim_job};
use bell_core::work::job::{JobId, State};
use bell_core::work::line::Caps;
use bell_core::work::lock_wait::{Refusal, WaitBegun, Waiting, begin_lock_wait, end_lock_wait, refuse_locks};
use bell_core::work::row::RowId;
use bell_core::work::shelve::Moved;

use crate::desk::{Desk, manual, wall};

const ONE: Caps = Caps { agent: 1, fleet: None };
const MANY: Caps = Caps { agent: 100, fleet: None };
const WIDE: Room = Room { size: 100, overflow: Overflow::DropOldest };
const HOUR: Duration = Duration::from_secs(3_600);

fn key() -> Key {
    Key::parse("repo://a").unwrap()
}

/// A session that is stored, as one that waits is.
fn stored(desk: &mut Desk, name: &str) -> SessionId {
    let id = SessionId::from(name);
    let expires = Some(desk.view.now + Duration::from_secs(15));
    let record = Session::new(Identity::default(), Secret::from_bytes([0; 32]).proof(), expires);
    desk.view.sessions.insert(id.clone(), Seen::known(Some((Arc::new(record), 1))));
    id
}

fn wait(desk: &mut Desk, job: &JobId, session: &SessionId) -> WaitBegun {
    let waiting = Waiting { session: session.clone(), keys: vec![key()], limit: HOUR, at: wall(1) };
    desk.decide(|view| begin_lock_wait(view, job, &waiting))
}

fn take(runner: &Runner) -> Locks {
    Locks::Take(Acquire {
        session: runner.session.clone(),
        request: RequestId::from(runner.run.as_str()),
        keys: vec![key()],
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        wait: Duration::ZERO,
        new_session: Some(Arc::new(runner.born.clone())),
        call: None,
    })
}

fn claim_with(desk: &mut Desk, job: &JobId, runner: &Runner, caps: Caps, locks: &Locks) -> Claimed {
    desk.decide(|view| claim_job(view, job, runner, caps, locks))
}

#[test]
fn a_job_is_claimed_with_its_locks_in_one_commit_or_stays_where_it_is() {
    let mut desk = Desk::default();
    let [first, second] = [0, 1].map(|_| desk.accept("a", manual(), WIDE));
    let [one, other] = [0, 1].map(|_| desk.runner());
    assert!(matches!(claim_with(&mut desk, &first, &one, MANY, &take(&one)), Claimed::Job { .. }));
    let held = desk.view.locks[&key()].get().unwrap().holders[0].session.clone();
    assert_eq!(held, one.session);
    let Claimed::Locked(busy) = claim_with(&mut desk, &second, &other, MANY, &take(&other)) else {
        panic!("the lock is held")
    };
    assert_eq!(busy.holders[0].session, one.session);
    assert!(matches!(desk.job(&second).state, State::Queued { .. }));
}

#[test]
fn a_job_without_a_free_runner_takes_no_lock() {
    let mut desk = Desk::default();
    let [first, second] = [0, 1].map(|_| desk.accept("a", manual(), WIDE));
    let [one, other] = [0, 1].map(|_| desk.runner());
    assert!(matches!(claim_with(&mut desk, &first, &one, ONE, &Locks::None), Claimed::Job { .. }));
    assert!(matches!(claim_with(&mut desk, &second, &other, ONE, &take(&other)), Claimed::Occupied(_)));
    assert!(desk.view.locks.get(&key()).is_none_or(|lock| lock.get().is_none()));
}

#[test]
fn one_session_waits_for_a_job_while_it_lives_and_the_next_one_has_the_time_that_is_left() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let [one, other] = ["one", "other"].map(|name| stored(&mut desk, name));
    assert_eq!(wait(&mut desk, &job, &one), WaitBegun::Yours(HOUR));
    assert_eq!(wait(&mut desk, &job, &one), WaitBegun::Yours(HOUR), "asked again, after no answer");
    assert_eq!(wait(&mut desk, &job, &other), WaitBegun::Elsewhere);
    let runner = Runner { session: other.clone(), ..desk.runner() };
    assert_eq!(claim_with(&mut desk, &job, &runner, MANY, &Locks::Held), Claimed::Idle);
    desk.pass(60_000);
    let other = stored(&mut desk, "later");
    assert_eq!(wait(&mut desk, &job, &other), WaitBegun::Yours(HOUR - Duration::from_secs(60)));
    let since = desk.job(&job).lock_wait.unwrap().since;
    assert_eq!(since, wall(1));
}

#[test]
fn the_session_that_waited_becomes_the_session_of_the_run() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let session = stored(&mut desk, "waits");
    wait(&mut desk, &job, &session);
    desk.pass(10_000);
    let runner = Runner { session: session.clone(), ..desk.runner() };
    assert!(matches!(claim_with(&mut desk, &job, &runner, MANY, &Locks::Held), Claimed::Job { .. }));
    assert_eq!(desk.job(&job).lock_wait, None);
    let expires = desk.view.sessions[&session].get().unwrap().expires.unwrap();
    assert_eq!(expires.since(desk.view.now), Duration::from_secs(15), "the supervisor has the whole time");
}

#[test]
fn a_session_that_has_ended_gets_no_run() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let session = stored(&mut desk, "waits");
    wait(&mut desk, &job, &session);
    desk.pass(20_000);
    let runner = Runner { session, ..desk.runner() };
    assert_eq!(claim_with(&mut desk, &job, &runner, MANY, &Locks::Held), Claimed::Idle);
    assert!(matches!(desk.job(&job).state, State::Queued { .. }));
}

#[test]
fn a_job_that_does_not_get_its_locks_is_a_dead_letter_or_over_for_good() {
    let mut desk = Desk::default();
    for (refusal, letters) in [(Refusal::Skip, 0), (Refusal::DeadLetter, 1)] {
        let job = desk.accept("a", manual(), WIDE);
        let session = stored(&mut desk, "waits");
        wait(&mut desk, &job, &session);
        let others = desk.decide(|view| refuse_locks(view, &job, None, "held", refusal, wall(9)));
        assert!(!others, "another session waits for it");
        assert!(desk.decide(|view| refuse_locks(view, &job, Some(&session), "held", refusal, wall(9))));
        assert!(matches!(desk.job(&job).state, State::Over { .. }));
        let undone = desk.rows().keys().filter(|id| matches!(id, RowId::Undone(..))).count();
        assert_eq!(undone, letters, "{refusal:?}");
        assert_eq!(desk.replay(&job), Moved::Done);
        assert_eq!(desk.job(&job).lock_wait, None, "it may wait for the whole time again");
        assert!(desk.claim("a", MANY).is_some());
    }
}

#[test]
fn a_wait_that_is_given_up_leaves_the_job_in_its_place() {
    let mut desk = Desk::default();
    let job = desk.accept("a", manual(), WIDE);
    let session = stored(&mut desk, "waits");
    wait(&mut desk, &job, &session);
    assert!(desk.decide(|view| end_lock_wait(view, &job, &session)));
    assert!(!desk.decide(|view| end_lock_wait(view, &job, &session)));
    assert_eq!(desk.claim("a", MANY).unwrap().0, job);
}
