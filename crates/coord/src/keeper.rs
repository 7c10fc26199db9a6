//! The thread on which leases and sessions are kept alive.
//!
//! Heartbeats and renewals run here and nowhere else, on a runtime of their own, so that a caller whose
//! executor is busy, or who never polls, loses no lease. One thread serves the whole process; it starts
//! when it is first needed.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

use bell_core::acquire::Acquire;
use bell_core::key::Key;
use bell_core::session::RequestId;
use tokio::sync::mpsc;

use crate::Coord;
use crate::denied::Denied;
use crate::session::Session;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a task on the keeper's thread.
pub fn run(task: impl Future<Output = ()> + Send + 'static) {
    static TASKS: OnceLock<mpsc::UnboundedSender<Task>> = OnceLock::new();
    if TASKS.get_or_init(start).send(Box::pin(task)).is_err() {
        tracing::error!("the thread that renews leases has ended; leases will run out");
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

/// Gives back what a request got if its caller goes away before it is answered.
pub(crate) struct Abandon {
    request: Option<(Coord, Session, RequestId, Vec<Key>)>,
}

impl Abandon {
    pub(crate) fn on_drop(coord: &Coord, session: &Session, command: &Acquire) -> Self {
        let request = (coord.clone(), session.clone(), command.request.clone(), command.keys.clone());
        Self { request: Some(request) }
    }

    /// The caller has got an answer.
    pub(crate) fn disarm(mut self) {
        self.request = None;
    }
}

impl Drop for Abandon {
    fn drop(&mut self) {
        let Some((coord, session, request, keys)) = self.request.take() else { return };
        run(async move {
            if let Err(error) = give_back(&coord, &session, &request, &keys).await {
                tracing::warn!(%error, session = %session.id(), "could not give back what a dropped request got");
            }
        });
    }
}

async fn give_back(
    coord: &Coord,
    session: &Session,
    request: &RequestId,
    keys: &[Key],
) -> Result<(), Denied> {
    let granted = coord.leave(session, request, keys).await?;
    for lease in granted.into_iter().flatten().filter(|lease| !lease.already_held) {
        coord.release(session, &lease).await?;
    }
    Ok(())
}
