//! The thread on which leases and sessions are kept alive.
//!
//! Heartbeats and renewals run here and nowhere else, on a runtime of their own, so that a caller whose
//! executor is busy, or who never polls, loses no lease. One thread serves the whole process; it starts
//! when it is first needed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bell_core::acquire::Acquire;
use bell_core::key::Key;
use bell_core::session::RequestId;
use bell_store::txn::MAX_LAG;
use tokio::sync::mpsc;

use crate::Coord;
use crate::denied::Denied;
use crate::session::Session;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How late a task may begin that was handed to [`run_soon`]: a fraction of the third of the shortest ttl, after
/// which a lease is first renewed.
const SOON: Duration = Duration::from_millis(50);

/// Runs a task on the keeper's thread.
pub fn run(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "simulated")]
    if let Some(machine) = bell_store::simulated::here() {
        return machine.keep(Box::pin(task));
    }
    static TASKS: OnceLock<mpsc::UnboundedSender<Task>> = OnceLock::new();
    if TASKS.get_or_init(start).send(Box::pin(task)).is_err() {
        tracing::error!("the thread that renews leases has ended; leases will run out");
    }
}

/// Runs a task on the keeper's thread that has nothing to do at first. Tasks that come together are begun
/// together, a moment later, and made only then: `None` if there is nothing to do any more. Most leases are given back
/// before the thread would even have woken up for them.
pub fn run_soon<T>(task: impl FnOnce() -> Option<T> + Send + 'static)
where
    T: Future<Output = ()> + Send + 'static,
{
    #[cfg(feature = "simulated")]
    if bell_store::simulated::here().is_some() {
        return task().into_iter().for_each(run);
    }
    static WAITING: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.push(Box::new(|| task().into_iter().for_each(|task| drop(tokio::task::spawn(task)))));
    if waiting.len() == 1 {
        run(async {
            tokio::time::sleep(SOON).await;
            let begun = std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
            begun.into_iter().for_each(|begin| begin());
        });
    }
}

fn start() -> mpsc::UnboundedSender<Task> {
    let (tasks, mut incoming) = mpsc::unbounded_channel::<Task>();
    let keep = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            while let Some(task) = incoming.recv().await {
                tokio::task::spawn(task);
            }
        }),
        Err(error) => tracing::error!(%error, "could not start renewing leases"),
    };
    if let Err(error) = std::thread::Builder::new().name("bell-keeper".to_owned()).spawn(keep) {
        tracing::error!(%error, "could not start the thread that renews leases");
    }
    tasks
}

/// A request under way. If its caller goes away before it is over, what it got is given back.
pub(crate) struct Pending<'a> {
    coord: &'a Coord,
    session: &'a Session,
    pub(crate) command: Acquire,
    is_over: bool,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(coord: &'a Coord, session: &'a Session, command: Acquire) -> Self {
        Self { coord, session, command, is_over: false }
    }

    /// The caller has got an answer.
    pub(crate) fn answered(mut self) {
        self.is_over = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (coord, session) = (self.coord.clone(), self.session.clone());
        let (request, keys) = (self.command.request.clone(), std::mem::take(&mut self.command.keys));
        run(async move {
            if let Err(error) = give_back(&coord, &session, &request, &keys).await {
                tracing::warn!(%error, session = %session.id(), "could not give back what a dropped request got");
            }
        });
    }
}

/// A commit that was under way when its caller went away has landed by then, or never will: a store refuses decisions that
/// are older than [`MAX_LAG`].
const LANDED_BY: Duration = Duration::from_secs(1);
const _: () = assert!(LANDED_BY.as_millis() > 2 * MAX_LAG.as_millis());

async fn give_back(
    coord: &Coord,
    session: &Session,
    request: &RequestId,
    keys: &[Key],
) -> Result<(), Denied> {
    let mut granted = coord.leave(session, request, keys).await?;
    if granted.is_none() {
        tokio::time::sleep(LANDED_BY).await;
        granted = coord.leave(session, request, keys).await?;
    }
    for lease in granted.into_iter().flatten().filter(|lease| !lease.already_held) {
        coord.release(session, &lease).await?;
    }
    Ok(())
}
