//! Who waits to be committed, and who goes together.

use std::sync::Arc;
use std::time::Duration;

use bell_store::group::MAX_BATCH;
use bell_store::{Txn, Write};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout, timeout_at};

use crate::ways::Way;
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

/// Batches that may be on the way at the same time by the short way. The second lies ready at the server when it is done with
/// the first; a third would only be there earlier, and smaller.
const MOST_ON_THE_WAY: usize = 2;

/// Those who wait.
///
/// Whoever was answered often asks for the next thing at once. So those who wait are held back for a moment, until enough of
/// those who were just answered are with them:
///
/// - By the short way, half of all go first, while the others are still coming; from then on two halves take turns. One
///   is with the server while the other is answered and decides what it wants next. If all went together, server and
///   callers would wait for each other.
/// - The second half is sent behind the first, once most of it is there: it is to be as large as it can be when the server
///   comes to it.
/// - By the long way most of all go together, one batch at a time: each waits for a turn among those of other processes.
///
/// While anybody is on the way or expected back the turn is kept, so that the first who is back does not go alone.
pub(crate) struct Line {
    jobs: UnboundedReceiver<Job>,
    turn: Arc<Mutex<()>>,
    kept: Option<OwnedMutexGuard<()>>,
    waiting: Batch,
    /// Batches that have gone and are not answered.
    on_the_way: usize,
    /// How many were answered and may be about to come back, and until when they are waited for.
    expected: usize,
    until: Instant,
    /// For how many batches nobody is expected back.
    in_a_hurry: usize,
}

impl Line {
    pub(crate) fn new(jobs: UnboundedReceiver<Job>, turn: Arc<Mutex<()>>) -> Self {
        let (waiting, until) = (Batch::default(), Instant::now());
        Self { jobs, turn, kept: None, waiting, on_the_way: 0, expected: 0, until, in_a_hurry: 0 }
    }

    /// Whether one more batch may go, by this way.
    pub(crate) fn has_room(&self, way: Way) -> bool {
        let most = match way {
            Way::Short => MOST_ON_THE_WAY,
            Way::Long => 1,
        };
        self.on_the_way < most
    }

    /// Those who go together next, by this way. `None`: nobody can hand in any more. Dropped half-way, it loses nobody.
    pub(crate) async fn next(&mut self, way: Way) -> Option<Vec<Job>> {
        loop {
            self.take_waiting();
            if self.kept.is_none() && !self.waiting.jobs.is_empty() {
                // Somebody may be on the way alone; whoever comes meanwhile goes with these.
                self.kept = timeout(ALONE, Arc::clone(&self.turn).lock_owned()).await.ok();
                self.take_waiting();
                break;
            }
            if self.is_enough(way) {
                break;
            }
            if self.on_the_way == 0 && self.expected == 0 {
                // Whoever comes now may go alone.
                self.kept = None;
            }
            match self.wait().await {
                Some(()) => {}
                None if self.waiting.jobs.is_empty() => return None,
                // Nobody is to come any more for whom these are held back.
                None => break,
            }
        }
        self.on_the_way += 1;
        Some(std::mem::take(&mut self.waiting).jobs)
    }

    /// A batch of so many was answered.
    pub(crate) fn answered(&mut self, count: usize) {
        self.on_the_way = self.on_the_way.saturating_sub(1);
        if let Some(less) = self.in_a_hurry.checked_sub(1) {
            self.in_a_hurry = less;
        } else if count > 1 || self.on_the_way > 0 {
            self.expected += count;
            self.until = Instant::now() + MOMENT;
        }
    }

    /// Whether those who wait go now.
    fn is_enough(&self, way: Way) -> bool {
        let (here, all) = (self.waiting.jobs.len(), self.waiting.jobs.len() + self.expected);
        let enough = match (way, self.on_the_way) {
            (Way::Short, 0) => all / 2,
            // Not all of them: one that is late must not make the others so.
            _ => all * 3 / 4,
        };
        here > 0 && (here >= enough || self.waiting.is_full())
    }

    /// Waits for one more, or until those who are expected are late. `None`: nobody can hand in any more.
    async fn wait(&mut self) -> Option<()> {
        if self.expected == 0 {
            let job = self.jobs.recv().await?;
            self.add(job);
        } else if let Ok(job) = timeout_at(self.until, self.jobs.recv()).await {
            self.add(job?);
        } else {
            (self.expected, self.in_a_hurry) = (0, PATIENCE_AFTER);
        }
        Some(())
    }

    /// Adds those who have handed in, as many as go together.
    fn take_waiting(&mut self) {
        while !self.waiting.is_full() {
            let Ok(job) = self.jobs.try_recv() else { break };
            self.add(job);
        }
    }

    fn add(&mut self, job: Job) {
        self.expected = self.expected.saturating_sub(1);
        self.waiting.add(job);
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
        line.next(Way::Short).await.unwrap().len()
    }

    /// A line in which so many have gone together and are answered.
    async fn after(count: usize) -> (UnboundedSender<Job>, Line) {
        let (jobs, mut line) = line();
        hand_in(&jobs, count);
        assert_eq!(next(&mut line).await, count);
        line.answered(count);
        (jobs, line)
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_those_who_were_answered_go_while_the_others_are_coming() {
        let (jobs, mut line) = after(8).await;
        let turn = Arc::clone(&line.turn);
        let (taken, ()) = tokio::join!(next(&mut line), async {
            for _ in 0..4 {
                assert!(turn.try_lock().is_err(), "the first who is back does not go alone");
                hand_in(&jobs, 1);
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(taken, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn while_they_are_on_the_way_most_of_the_others_gather_and_lie_ready() {
        let (jobs, mut line) = after(8).await;
        hand_in(&jobs, 4);
        assert_eq!(next(&mut line).await, 4);
        hand_in(&jobs, 2);
        let (taken, ()) = tokio::join!(next(&mut line), async {
            tokio::task::yield_now().await;
            hand_in(&jobs, 1);
        });
        assert_eq!(taken, 3, "three of the four are enough, two are not");
    }

    #[tokio::test(start_paused = true)]
    async fn by_the_long_way_most_go_together_and_one_batch_at_a_time() {
        let (jobs, mut line) = after(8).await;
        hand_in(&jobs, 5);
        let (taken, ()) = tokio::join!(line.next(Way::Long), async {
            tokio::task::yield_now().await;
            hand_in(&jobs, 1);
        });
        assert_eq!(taken.unwrap().len(), 6, "six of the eight are enough, five are not");
        assert!(line.has_room(Way::Short) && !line.has_room(Way::Long));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_are_held_back_are_not_lost_when_the_wait_is_interrupted() {
        let (jobs, mut line) = after(8).await;
        hand_in(&jobs, 3);
        tokio::select! {
            biased;
            _ = line.next(Way::Short) => panic!("three of eight are held back"),
            () = tokio::task::yield_now() => {}
        }
        hand_in(&jobs, 1);
        assert_eq!(next(&mut line).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_are_held_back_go_when_nobody_can_hand_in_any_more() {
        let (jobs, mut line) = after(8).await;
        hand_in(&jobs, 3);
        drop(jobs);
        assert_eq!(next(&mut line).await, 3);
        assert!(line.next(Way::Short).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn if_nobody_comes_back_the_turn_is_given_back() {
        let (jobs, mut line) = after(4).await;
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
        let (jobs, mut line) = after(8).await;
        for batch in 0..PATIENCE_AFTER {
            hand_in(&jobs, 2);
            let begun = Instant::now();
            assert_eq!(next(&mut line).await, 2);
            line.answered(2);
            let held_back = begun.elapsed();
            assert!(if batch == 0 { held_back <= 2 * MOMENT } else { held_back.is_zero() }, "{held_back:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_comes_alone_is_never_held_back() {
        let (jobs, mut line) = line();
        for _ in 0..3 {
            let begun = Instant::now();
            let (taken, ()) = tokio::join!(next(&mut line), async { hand_in(&jobs, 1) });
            line.answered(1);
            assert_eq!((taken, begun.elapsed()), (1, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_while_another_is_on_the_way_alone_gathers() {
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
        let begun = Instant::now();
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
