//! What somebody wishes of this daemon over HTTP: to stop, or to read its project again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_gateway::server::levers::{Levers, Pace, Reloaded};
use bell_project::load::Loaded;
use bell_project::watch::Nudge;
use tokio::sync::watch;

/// Reading a project takes milliseconds; a disk that is asleep takes seconds.
const RELOAD_WITHIN: Duration = Duration::from_secs(10);

/// The wishes that were heard.
pub(crate) struct Wishes {
    stop: watch::Sender<Option<Pace>>,
    nudge: Nudge,
    project: watch::Receiver<Arc<Loaded>>,
}

impl Wishes {
    pub(crate) fn new(nudge: Nudge, project: watch::Receiver<Arc<Loaded>>) -> Self {
        Self { stop: watch::Sender::new(None), nudge, project }
    }

    /// Returns once somebody wants the daemon to stop, at this pace or faster.
    pub(crate) fn to_stop(&self, pace: Pace) -> impl Future<Output = ()> + use<> {
        let mut asked = self.stop.subscribe();
        async move {
            if asked.wait_for(|asked| asked.is_some_and(|asked| asked >= pace)).await.is_err() {
                // Nobody can ask any more.
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Levers for Wishes {
    fn stop(&self, pace: Pace) {
        self.stop.send_modify(|asked| {
            // Asked twice, it hurries, as it does after a second signal.
            let faster = if asked.is_some() { Pace::Now } else { pace };
            *asked = Some(faster);
        });
    }

    async fn reload(&self) -> Option<Reloaded> {
        let nudge = self.nudge.clone();
        let read = tokio::task::spawn_blocking(move || nudge.and_wait(RELOAD_WITHIN)).await;
        if !matches!(read, Ok(true)) {
            return None;
        }
        let loaded = Arc::clone(&self.project.borrow());
        let mistakes = loaded.problems.iter().filter(|problem| problem.is_error()).count();
        Some(Reloaded { agents: loaded.agents.len(), mistakes })
    }
}
