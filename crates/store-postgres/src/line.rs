//! Who waits to be committed, and who goes together.

use std::sync::Arc;
use std::time::Duration;

use bell_store::group::MAX_BATCH;
use bell_store::{Txn, Write};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::writer::Job;

/// Beyond this many bytes a batch is sent as it is: what is gained by sharing one commit is lost by the
/// first of its callers waiting for the last.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// How long those who were just answered may take to come back.
const MOMENT: Duration = Duration::from_millis(1);

/// After they did not come back, for so many batches nobody waits for them: they have other things to do.
const PATIENCE_AFTER: usize = 16;

/// How long somebody who is on the way alone is waited for: longer than most commits take. The turn only makes others
/// gather, and a task that has begun a commit may do something else before it takes the answer.
const ALONE: Duration = Duration::from_millis(20);

/// Those who wait.
///
/// Whoever was answered often asks for the next thing at once, a moment too late for the batch that is made of
/// those who waited meanwhile. Then two halves take turns for ever, each paying for commits of its own; or the first
/// of them goes alone, and all others wait until it is back. So a batch is held back for a moment, and its turn kept,
/// until most of those who were just answered together are in it too.
pub(crate) struct Line {
    jobs: UnboundedReceiver<Job>,
    turn: Arc<Mutex<()>>,
    /// The turn of those who went last, until it is known who goes next.
    kept: Option<OwnedMutexGuard<()>>,
    /// How many went together last.
    answered: usize,
    /// For how many batches not to hold back.
    in_a_hurry: usize,
}

impl Line {
    pub(crate) fn new(jobs: UnboundedReceiver<Job>, turn: Arc<Mutex<()>>) -> Self {
        Self { jobs, turn, kept: None, answered: 0, in_a_hurry: 0 }
    }

    /// Those who go together next, once the last ones are answered. `None`: nobody can hand in any more.
    pub(crate) async fn next(&mut self) -> Option<Vec<Job>> {
        let mut batch = Batch::default();
        self.take_waiting(&mut batch);
        match self.in_a_hurry.checked_sub(1) {
            Some(less) => self.in_a_hurry = less,
            None => self.hold_back(&mut batch).await,
        }
        if batch.jobs.is_empty() {
            // Whoever comes now may go alone.
            self.kept = None;
            batch.add(self.jobs.recv().await?);
        }
        if self.kept.is_none() {
            // Somebody may be on the way alone; whoever comes meanwhile goes with this one.
            self.kept = timeout(ALONE, Arc::clone(&self.turn).lock_owned()).await.ok();
            self.take_waiting(&mut batch);
        }
        self.answered = batch.jobs.len();
        Some(batch.jobs)
    }

    /// Those who have handed in, as many as go together.
    fn take_waiting(&mut self, batch: &mut Batch) {
        while !batch.is_full() {
            let Ok(job) = self.jobs.try_recv() else { break };
            batch.add(job);
        }
    }

    /// Waits for those who were answered together. One who was answered alone is not waited for.
    async fn hold_back(&mut self, batch: &mut Batch) {
        // Not all of them: one that is late must not make the others so.
        let enough = batch.jobs.len() + self.answered * 3 / 4;
        let come_back = async {
            while batch.jobs.len() < enough && !batch.is_full() {
                let Some(job) = self.jobs.recv().await else { return };
                batch.add(job);
            }
        };
        if timeout(MOMENT, come_back).await.is_err() {
            self.in_a_hurry = PATIENCE_AFTER;
        }
    }
}

#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, job: Job) {
        self.bytes += size(&job.txn);
        self.jobs.push(job);
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= MAX_BATCH || self.bytes >= MAX_BATCH_BYTES
    }
}

/// About how many bytes a transaction takes on its way.
fn size(txn: &Txn) -> usize {
    let write = |write: &Write| match write {
        Write::Put(value, _) => value.len(),
        Write::Delete => 0,
    };
    txn.writes.iter().map(|(name, value)| name.as_str().len() + write(value)).sum()
}

#[cfg(test)]
mod tests {
    use bell_store::Stamp;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::sync::oneshot;

    use super::*;

    fn job(bytes: usize) -> Job {
        let writes = vec![("a".into(), Write::Put(vec![0; bytes], Stamp::New))];
        Job { txn: Txn { writes, ..Txn::default() }, called: Duration::ZERO, answer: oneshot::channel().0 }
    }

    fn line() -> (UnboundedSender<Job>, Line) {
        let (jobs, waiting) = unbounded_channel();
        (jobs, Line::new(waiting, Arc::default()))
    }

    fn hand_in(jobs: &UnboundedSender<Job>, count: usize) {
        (0..count).for_each(|_| jobs.send(job(1)).unwrap_or_else(|_| panic!("nobody takes it")));
    }

    async fn next(line: &mut Line) -> usize {
        line.next().await.unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_were_answered_go_with_those_who_waited_meanwhile() {
        let (jobs, mut line) = line();
        hand_in(&jobs, 4);
        assert_eq!(next(&mut line).await, 4);
        hand_in(&jobs, 4);
        let (taken, ()) = tokio::join!(next(&mut line), async { hand_in(&jobs, 3) });
        assert_eq!(taken, 7, "three of the four are enough");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_were_answered_together_go_together_again_though_nobody_else_waits() {
        let (jobs, mut line) = line();
        hand_in(&jobs, 4);
        assert_eq!(next(&mut line).await, 4);
        let turn = Arc::clone(&line.turn);
        let (taken, ()) = tokio::join!(next(&mut line), async {
            for _ in 0..3 {
                assert!(turn.try_lock().is_err(), "the first who is back does not go alone");
                hand_in(&jobs, 1);
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(taken, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn if_nobody_comes_back_the_turn_is_given_back() {
        let (jobs, mut line) = line();
        hand_in(&jobs, 4);
        assert_eq!(next(&mut line).await, 4);
        let turn = Arc::clone(&line.turn);
        let (taken, ()) = tokio::join!(next(&mut line), async {
            tokio::time::sleep(2 * MOMENT).await;
            drop(turn.try_lock().expect("whoever comes now may go alone"));
            hand_in(&jobs, 1);
        });
        assert_eq!(taken, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_held_back_for_long_and_not_again_soon() {
        let (jobs, mut line) = line();
        hand_in(&jobs, 4);
        assert_eq!(next(&mut line).await, 4);
        for batch in 0..PATIENCE_AFTER {
            hand_in(&jobs, 1);
            let begun = tokio::time::Instant::now();
            assert_eq!(next(&mut line).await, 1);
            let held_back = begun.elapsed();
            assert!(if batch == 0 { held_back <= 2 * MOMENT } else { held_back.is_zero() }, "{held_back:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_comes_alone_is_never_held_back() {
        let (jobs, mut line) = line();
        for _ in 0..3 {
            let begun = tokio::time::Instant::now();
            let (taken, ()) = tokio::join!(next(&mut line), async { hand_in(&jobs, 1) });
            assert_eq!((taken, begun.elapsed()), (1, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_while_another_is_on_the_way_gathers() {
        let (jobs, mut line) = line();
        let turn = Arc::clone(&line.turn).lock_owned().await;
        hand_in(&jobs, 1);
        let (taken, ()) = tokio::join!(next(&mut line), async {
            hand_in(&jobs, 2);
            tokio::task::yield_now().await;
            drop(turn);
        });
        assert_eq!(taken, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_not_given_back_stops_nobody() {
        let (jobs, mut line) = line();
        let _turn = Arc::clone(&line.turn).lock_owned().await;
        hand_in(&jobs, 1);
        let begun = tokio::time::Instant::now();
        assert_eq!(next(&mut line).await, 1);
        assert!(begun.elapsed() <= 2 * ALONE);
    }

    #[tokio::test]
    async fn a_batch_is_bounded_in_number_and_in_bytes() {
        let (jobs, mut line) = line();
        hand_in(&jobs, MAX_BATCH + 1);
        assert_eq!(next(&mut line).await, MAX_BATCH);
        assert_eq!(next(&mut line).await, 1);
        for _ in 0..3 {
            jobs.send(job(MAX_BATCH_BYTES / 2)).unwrap_or_else(|_| panic!("nobody takes it"));
        }
        assert_eq!(next(&mut line).await, 2);
    }
}
