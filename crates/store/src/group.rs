//! One thread that takes every waiting request into one batch: group commit.
//!
//! Many callers hand in jobs; the thread takes all that wait, up to a limit, and gives them to the engine
//! together, which pays its fsync once for all of them. Jobs keep the order in which they were handed in.
//! What a job is, and how it is answered, is the engine's business.

#[cfg(feature = "shuttle")]
use shuttle::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle},
};
#[cfg(not(feature = "shuttle"))]
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle},
};

use std::collections::VecDeque;
use std::io;

/// Jobs taken into one batch at the most: beyond this the fsync is well shared, and a larger batch only
/// makes the first of its callers wait for the last.
pub const MAX_BATCH: usize = 256;

/// A thread with a queue in front of it. Dropped, it finishes what was handed in and ends.
pub struct Group<Job> {
    queue: Arc<Queue<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl<Job: Send + 'static> Group<Job> {
    /// Starts the thread. `engine` gets each batch, never an empty one.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn start(name: &str, mut engine: impl FnMut(Vec<Job>) + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::new());
        let taken = Arc::clone(&queue);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let _closes_on_panic = Closing(&taken);
            while let Some(batch) = taken.take() {
                engine(batch);
            }
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Hands in a job. It comes back if the thread has ended.
    ///
    /// # Errors
    /// The job itself.
    pub fn submit(&self, job: Job) -> Result<(), Job> {
        self.queue.push(job)
    }
}

impl<Job> Drop for Group<Job> {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panicked engine has already failed its callers; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

struct Queue<Job> {
    state: Mutex<State<Job>>,
    filled: Condvar,
}

struct State<Job> {
    jobs: VecDeque<Job>,
    /// The thread waits to be woken, which takes a system call: nobody is to make it for nothing.
    is_asleep: bool,
    closed: bool,
}

impl<Job> Queue<Job> {
    fn new() -> Self {
        let state = State { jobs: VecDeque::new(), is_asleep: false, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<Job>> {
        // No code that can panic runs under this mutex.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        let is_asleep = std::mem::take(&mut state.is_asleep);
        drop(state);
        if is_asleep {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for jobs. `None`: closed, and everything handed in before has been taken.
    fn take(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return None;
            }
            state.is_asleep = true;
            state = self.filled.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let count = state.jobs.len().min(MAX_BATCH);
        Some(state.jobs.drain(..count).collect())
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

/// Refuses further jobs when the thread ends, also by a panic, so that no caller waits for ever.
struct Closing<'a, Job>(&'a Queue<Job>);

impl<Job> Drop for Closing<'_, Job> {
    fn drop(&mut self) {
        self.0.close();
        self.0.lock().jobs.clear();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_that_wait_together_are_taken_together() {
        let (sizes, seen) = mpsc::channel();
        let (gate, opened) = mpsc::channel::<()>();
        let (started, first_taken) = mpsc::channel();
        let group = Group::start("test", move |batch: Vec<u32>| {
            sizes.send(batch.len()).unwrap();
            started.send(()).unwrap();
            let _ = opened.recv();
        })
        .unwrap();
        group.submit(0).unwrap();
        first_taken.recv().unwrap();
        for job in 1..=10 {
            group.submit(job).unwrap();
        }
        gate.send(()).unwrap();
        drop(gate);
        drop(group);
        assert_eq!(seen.iter().collect::<Vec<_>>(), [1, 10]);
    }

    #[test]
    fn dropping_the_group_finishes_what_was_handed_in() {
        let (done, results) = mpsc::channel();
        let group = Group::start("test", move |batch: Vec<u32>| {
            batch.into_iter().for_each(|job| done.send(job).unwrap());
        })
        .unwrap();
        (0..1_000).for_each(|job| group.submit(job).unwrap());
        drop(group);
        assert_eq!(results.iter().collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_panicked_engine_refuses_further_jobs_and_drops_those_that_wait() {
        let (reply, answer) = mpsc::channel::<()>();
        let group = Group::start("test", |_batch: Vec<mpsc::Sender<()>>| panic!("engine failed")).unwrap();
        group.submit(reply).unwrap();
        assert!(answer.recv().is_err(), "the caller hears that no answer will come");
        let (reply, answer) = mpsc::channel::<()>();
        let _ = group.submit(reply);
        assert!(answer.recv().is_err());
    }
}

/// What the public face can't show: shuttle takes any panic of a thread as a failure of the test, so the end
/// of a panicked engine is played here with the parts it is made of.
#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use super::*;
    use shuttle::sync::mpsc::{Sender, channel};
    use shuttle::thread;

    #[test]
    fn a_thread_that_ends_early_leaves_nobody_waiting() {
        let end_early = || {
            let queue = Arc::new(Queue::<Sender<()>>::new());
            let taken = Arc::clone(&queue);
            let engine = thread::spawn(move || {
                let _closes = Closing(&taken);
                drop(taken.take());
            });
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    thread::spawn(move || {
                        let (reply, answer) = channel();
                        // Refused, or dropped unanswered: the caller hears of both, and a hang fails the test.
                        let _ = queue.push(reply);
                        assert!(answer.recv().is_err());
                    })
                })
                .collect();
            for thread in callers.into_iter().chain([engine]) {
                thread.join().unwrap();
            }
        };
        shuttle::check_random(end_early, 2_000);
    }
}
