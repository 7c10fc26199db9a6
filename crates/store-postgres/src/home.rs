//! A shorter way for those on the runtime that opened the store.
//!
//! A request that goes by the store's thread changes threads twice, which takes about as long as the server does. So that
//! runtime has connections of its own, and who is alone there commits from its own task. All others go by the
//! store's thread: renewals first of all, which come from the keeper's runtime and must not wait for a busy one.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::reader::Reader;
use crate::writer::{Job, Writer};

/// Those who commit and read for the tasks of one runtime.
pub(crate) struct Home {
    runtime: Id,
    writer: Arc<Writer>,
    jobs: UnboundedSender<Job>,
    reader: Arc<Reader>,
}

impl Home {
    /// The runtime that this is called on, if it can have connections. `None`: there is none, or it does nothing unless
    /// somebody blocks on it.
    pub(crate) async fn found() -> Option<Handle> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        // A task, since a runtime that was made without input and output, or without timers, panics.
        let trial = async {
            drop(UnixStream::pair());
            tokio::time::sleep(Duration::ZERO).await;
        };
        runtime.spawn(trial).await.ok()?;
        Some(runtime)
    }

    /// Lets this writer and this reader work on the runtime. Their connections are made there when they are needed.
    pub(crate) fn on(runtime: &Handle, writer: Writer, reader: Arc<Reader>) -> Self {
        let (jobs, waiting) = unbounded_channel();
        let writer = Arc::new(writer);
        // Ends when nobody can hand in any more, or with the runtime.
        drop(runtime.spawn(Arc::clone(&writer).serve(waiting)));
        Self { runtime: runtime.id(), writer, jobs, reader }
    }

    /// Whether the caller is on that runtime.
    pub(crate) fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|runtime| runtime.id() == self.runtime)
    }

    /// Commits, or hands in to be committed. The job comes back if the runtime has ended.
    pub(crate) async fn commit(&self, job: Job) -> Result<(), Job> {
        match self.writer.commit_alone(job).await {
            Ok(()) => Ok(()),
            Err(job) => self.jobs.send(job).map_err(|unsent| unsent.0),
        }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }
}
