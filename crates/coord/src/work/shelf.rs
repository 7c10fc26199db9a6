//! Cancelling, clearing, replaying, retrying; holding everything; how many may run.

use bell_core::time::Timestamp;
use bell_core::work::agent::AgentName;
use bell_core::work::finish::retry;
use bell_core::work::job::JobId;
use bell_core::work::pause::{Extent, pause, resume};
use bell_core::work::scale::scale;
use bell_core::work::shelve::{BATCH, DeadLetter, Moved, Replayed, cancel, clear, replay, replay_batch};

use super::wall_now;
use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;

/// Jobs looked at in one go: those that are due come first, and the rest waits for the next.
const RETRIES: usize = 100;

impl Coord {
    /// Takes a job out of the queue, or keeps it from being tried again.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn cancel(&self, job: &JobId) -> Result<Moved, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| cancel(view, job, at)).await?.answer)
    }

    /// Queues a job again that is over, if fewer than `size` wait.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn replay(&self, job: &JobId, size: u32) -> Result<Moved, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| replay(view, job, size, at)).await?.answer)
    }

    /// Replays dead letters in this order, each unless its queue is full. `size` is the queue size of an agent that
    /// exists. One answer for each; a letter that was replayed since it was listed is left alone.
    ///
    /// Dropped half-way, some have been replayed.
    ///
    /// # Errors
    /// If the store can't be reached; the first ones may have been replayed. The same list can be sent again.
    pub async fn replay_all(
        &self,
        letters: &[DeadLetter],
        size: impl Fn(&AgentName) -> Option<u32>,
    ) -> Result<Vec<Replayed>, Denied> {
        let mut all = Vec::with_capacity(letters.len());
        let mut acting = self.clone();
        for batch in letters.chunks(BATCH) {
            let at = wall_now();
            let done =
                acting.transact(Loaded::default(), |view| replay_batch(view, batch, &size, at)).await?;
            if done.answer.contains(&Replayed::Queued) {
                // However many commits it takes, it is one act.
                acting = self.in_nobodys_name();
            }
            all.extend(done.answer);
        }
        Ok(all)
    }

    /// Takes every job out of an agent's queue; each stays replayable.
    ///
    /// Dropped half-way, some have been taken out.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn clear(&self, agent: &AgentName) -> Result<Vec<JobId>, Denied> {
        let mut all = Vec::new();
        let mut acting = self.clone();
        loop {
            let at = wall_now();
            let done = acting.transact(Loaded::default(), |view| clear(view, agent, at)).await?;
            if done.answer.is_empty() {
                return Ok(all);
            }
            all.extend(done.answer);
            // However many commits it takes, it is one act.
            acting = self.in_nobodys_name();
        }
    }

    /// Queues the jobs whose time to be retried has come. Answers when the next will be due, on the store's clock.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn retry_due(&self) -> Result<Option<Timestamp>, Denied> {
        let prefix = self.space().kind("delay/");
        let page = self.store().scan(&prefix, "", RETRIES).await?;
        self.clock().told(page.now);
        for name in page.records.keys() {
            let Some((due, job)) = name.as_str().strip_prefix(&prefix).and_then(delay) else { continue };
            if page.now < due {
                return Ok(Some(due));
            }
            self.transact(Loaded::default(), |view| retry(view, &job)).await?;
        }
        Ok(page.more.then_some(page.now))
    }

    /// Holds the fleet or an agent: nothing new starts. Whether it was not held before.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn pause(&self, extent: &Extent, reason: &str) -> Result<bool, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| pause(view, extent, reason, at)).await?.answer)
    }

    /// Lets the fleet or an agent go on. Whether it was held.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn resume_work(&self, extent: &Extent) -> Result<bool, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| resume(view, extent, at)).await?.answer)
    }

    /// Has so many of an agent run at the most, whatever its settings say; `None`: as they say. Whether that is new.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn scale(&self, agent: &AgentName, to: Option<u32>, reason: &str) -> Result<bool, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| scale(view, agent, to, reason, at)).await?.answer)
    }
}

fn delay(text: &str) -> Option<(Timestamp, JobId)> {
    let (due, job) = text.split_once('/')?;
    Some((Timestamp::from_ms(u64::from_str_radix(due, 16).ok()?), JobId::from(job)))
}
