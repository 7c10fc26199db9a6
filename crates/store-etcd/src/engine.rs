//! One thread with an executor of its own, which everything that talks to etcd runs on.
//!
//! Connections live on the executor they were opened on. With one per store, a store can be used from any
//! executor, from several at once, and after the one that opened it has ended.

use std::thread::{self, JoinHandle};

use bell_store::{Error, Kind, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread. Dropped, it drops what still runs and ends.
pub(crate) struct Engine {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// # Errors
    /// [`Kind::Unavailable`] if the system has no thread or no descriptors to give.
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // Ends also if the other end was lost.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("bell-etcd".to_owned()).spawn(run).map_err(no_thread)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs this to its end, also if the caller goes away. `None`: the thread has ended before.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn(work).await.ok()
    }

    /// Runs this until it ends or the engine does.
    pub(crate) fn keep_running(&self, work: impl Future<Output = ()> + Send + 'static) {
        // The engine owns it: it is dropped with the executor.
        drop(self.handle.spawn(work));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "start a thread for the store")
        .hint("Raise the limits on threads and open files (ulimit -u, ulimit -n).")
        .because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_the_thread_and_its_answer_comes_back() {
        let engine = Engine::start().unwrap();
        let name = engine.run(async { thread::current().name().map(str::to_owned) }).await;
        assert_eq!(name.flatten().as_deref(), Some("bell-etcd"));
    }

    #[tokio::test]
    async fn work_that_never_ends_does_not_outlive_the_engine() {
        let engine = Engine::start().unwrap();
        let (dropped, seen) = oneshot::channel::<()>();
        engine.keep_running(async move {
            let _held = dropped;
            std::future::pending::<()>().await;
        });
        drop(engine);
        assert!(seen.await.is_err());
    }

    #[tokio::test]
    async fn work_that_panics_gives_no_answer() {
        let engine = Engine::start().unwrap();
        assert_eq!(engine.run(async { panic!("for the test") }).await, None::<()>);
        assert_eq!(engine.run(async { 1 }).await, Some(1), "others go on");
    }
}
