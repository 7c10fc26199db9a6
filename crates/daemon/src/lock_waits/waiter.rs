//! One session that waits for the locks of one job, and is kept alive meanwhile.

use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Session};
use tokio_util::sync::CancellationToken;

/// Between two heartbeats of a session that waits: three fit into the time it lasts without one.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a wait ended.
pub(super) enum Waited {
    /// Its session has every key.
    Granted,
    /// It will never have them, for this reason.
    Refused(String),
    /// Its session ended, or a store refused: the job waits anew.
    Interrupted,
    /// It was told to stop.
    Stopped,
}

/// A session that waits for the locks of a job.
pub(super) struct Waiter {
    /// Where the job is.
    pub(super) work: Coord,
    /// Where its locks are.
    pub(super) locks: Coord,
    /// What becomes the session of the run.
    pub(super) session: Session,
    /// Who holds the locks then.
    pub(super) holder: Session,
    /// What it asks for.
    pub(super) ask: Ask,
}

impl Waiter {
    /// Returns when the session has every key, never will, or is told to stop.
    pub(super) async fn wait(self, stop: CancellationToken) -> Waited {
        let asked = async {
            loop {
                match self.locks.acquire_until(&self.holder, &self.ask, stop.cancelled()).await {
                    Err(Denied::Unavailable(error)) => {
                        tracing::warn!(%error, "could not ask for the locks of a job");
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                    asked => return asked,
                }
            }
        };
        let asked = tokio::select! {
            biased;
            asked = asked => asked,
            lost = self.keep_alive() => Err(lost),
        };
        match asked {
            Ok(None) => Waited::Stopped,
            // The claim is made with a session that has most of its time before it.
            Ok(Some(_)) if self.beat().await.is_ok() => Waited::Granted,
            Ok(Some(_)) | Err(Denied::Lost(_) | Denied::Unavailable(_)) => Waited::Interrupted,
            Err(denied) => Waited::Refused(denied.to_string()),
        }
    }

    /// Returns when a session has ended.
    async fn keep_alive(&self) -> Denied {
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            while let Err(denied) = self.beat().await {
                if !matches!(denied, Denied::Unavailable(_)) {
                    return denied;
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    async fn beat(&self) -> Result<(), Denied> {
        self.work.prolong(&self.session).await?;
        if self.holder.id() != self.session.id() {
            self.locks.prolong(&self.holder).await?;
        }
        Ok(())
    }
}
