//! The group-commit thread under many schedules: shuttle decides at every lock, wait and wake who runs next.
//!
//! `cargo test -p bell-store --features shuttle --test group_shuttle`, and `--lib group` for the case that
//! needs the inside: an engine that panicked.
#![cfg(feature = "shuttle")]

use bell_store::group::Group;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// Schedules tried for each property: enough to find each way in which the queue was broken on purpose (a lost
/// wake-up, jobs dropped at the end, a changed order), few enough for every run of the tests.
const SCHEDULES: usize = 2_000;
const CALLERS: u32 = 3;
const JOBS: u32 = 3;

/// A job that is answered with its own number.
struct Job {
    caller: u32,
    number: u32,
    reply: Sender<u32>,
}

impl Job {
    fn new(caller: u32, number: u32) -> (Self, Receiver<u32>) {
        let (reply, answer) = channel();
        (Self { caller, number, reply }, answer)
    }

    fn answer(self) {
        // A caller that gave up has dropped its end.
        let _ = self.reply.send(self.number);
    }
}

/// What the engine took, in its order.
type Taken = Arc<Mutex<Vec<(u32, u32)>>>;

fn group(taken: &Taken) -> Group<Job> {
    let taken = Arc::clone(taken);
    Group::start("engine", move |batch: Vec<Job>| {
        assert!(!batch.is_empty(), "the engine never gets an empty batch");
        for job in batch {
            taken.lock().expect("nobody panics with it").push((job.caller, job.number));
            job.answer();
        }
    })
    .expect("a thread")
}

/// Runs `call` as several callers of one group at once; the last to end drops the group.
fn with_callers(group: Group<Job>, call: fn(&Group<Job>, u32)) {
    let group = Arc::new(group);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let group = Arc::clone(&group);
            thread::spawn(move || call(&group, caller))
        })
        .collect();
    drop(group);
    for caller in callers {
        caller.join().expect("a caller does not panic");
    }
}

#[test]
fn each_job_is_answered_exactly_once() {
    shuttle::check_random(
        || {
            let taken = Taken::default();
            with_callers(group(&taken), |group, caller| {
                for number in 0..JOBS {
                    let (job, answer) = Job::new(caller, number);
                    assert!(group.submit(job).is_ok(), "the group is open");
                    assert_eq!(answer.recv(), Ok(number));
                    assert!(answer.recv().is_err(), "a second answer came");
                }
            });
            let mut taken = taken.lock().unwrap().clone();
            taken.sort_unstable();
            let all: Vec<_> =
                (0..CALLERS).flat_map(|caller| (0..JOBS).map(move |job| (caller, job))).collect();
            assert_eq!(taken, all, "every job is taken once");
        },
        SCHEDULES,
    );
}

#[test]
fn the_jobs_of_a_caller_keep_their_order() {
    shuttle::check_random(
        || {
            let taken = Taken::default();
            with_callers(group(&taken), |group, caller| {
                for number in 0..JOBS {
                    assert!(group.submit(Job::new(caller, number).0).is_ok(), "the group is open");
                }
            });
            let taken = taken.lock().unwrap();
            for caller in 0..CALLERS {
                let numbers = taken.iter().filter(|(by, _)| *by == caller).map(|(_, number)| *number);
                assert_eq!(numbers.collect::<Vec<_>>(), (0..JOBS).collect::<Vec<_>>());
            }
        },
        SCHEDULES,
    );
}

#[test]
fn dropping_the_group_loses_no_job_it_accepted() {
    shuttle::check_random(
        || {
            let taken = Taken::default();
            // The callers do not wait for answers: whoever submits last drops the group with jobs in it.
            with_callers(group(&taken), |group, caller| {
                assert!(group.submit(Job::new(caller, 0).0).is_ok(), "the group is open");
            });
            assert_eq!(taken.lock().unwrap().len(), CALLERS as usize);
        },
        SCHEDULES,
    );
}

#[test]
fn an_engine_that_drops_its_jobs_leaves_nobody_waiting() {
    shuttle::check_random(
        || {
            let group = Group::start("engine", |batch: Vec<Job>| drop(batch)).unwrap();
            with_callers(group, |group, caller| {
                let (job, answer) = Job::new(caller, 0);
                assert!(group.submit(job).is_ok(), "the group is open");
                assert!(answer.recv().is_err(), "nobody answered");
            });
        },
        SCHEDULES,
    );
}
