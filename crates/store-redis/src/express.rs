//! A way to the server for those on the runtime that opened the store.
//!
//! A request that goes by the store's thread changes threads twice, which takes longer than the server does. So
//! that runtime has a connection of its own, and whoever asks from there needs no other thread. All others go by
//! the store's thread: renewals first of all, which come from the keeper's runtime and must not wait for a busy
//! one. When the connection is lost, the thread takes over until there is a new one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Name, Outcome, Result, Snapshot, Txn};
use redis::PushInfo;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::address::Address;
use crate::batch;
use crate::fault::Fault;
use crate::link::{
    COMMIT, Commit, Job, carry_out, commit_within, connection_lost, no_outcome, open_session, read_within,
};
use crate::notice::Notice;
use crate::session::{Ears, Session, Shared};

/// Batches on the way at the same time. With few, client and server sleep and wake each other for every batch, which
/// takes longer than the batch; with many, nothing is shared. At 16 sessions 8 took a quarter less CPU than 2, at 64 the same.
const MAX_ON_THE_WAY: usize = 8;

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// The way, and those who wait to take it.
pub(crate) struct Express {
    address: Address,
    shared: Arc<Shared>,
    /// The runtime that drives the connection. Nobody else's requests may depend on it.
    home: Id,
    /// To the thread, for what can't be sent from here.
    jobs: UnboundedSender<Job>,
    state: Mutex<State>,
}

struct State {
    way: Way,
    unsent: VecDeque<Commit>,
    on_the_way: usize,
}

enum Way {
    Open(Session),
    Opening,
    /// Since when, on this machine's boot clock.
    Lost(Duration),
}

impl Express {
    /// Connects from this runtime. `None`: there is none, it can't have connections, or it does nothing unless
    /// somebody blocks on it.
    pub(crate) async fn open(
        address: &Address,
        shared: &Arc<Shared>,
        jobs: UnboundedSender<Job>,
    ) -> Option<Arc<Self>> {
        let home = Handle::try_current().ok()?;
        if home.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        // A task, since a runtime that was made without input and output panics.
        let connecting = home.spawn(connect(address.clone(), Arc::clone(shared)));
        let (session, pushes) = connecting.await.ok()?.ok()?;
        let state = State { way: Way::Open(session), unsent: VecDeque::new(), on_the_way: 0 };
        let (address, shared) = (address.clone(), Arc::clone(shared));
        let express = Arc::new(Self { address, shared, home: home.id(), jobs, state: Mutex::new(state) });
        drop(home.spawn(notice_the_end(Arc::downgrade(&express), pushes)));
        Some(express)
    }

    /// Commits; the transaction comes back if it has to go by the thread.
    ///
    /// Whoever comes while there is room on the way goes alone, without a task in between. Dropped half-way, it has
    /// happened or not, and nobody else's commit is affected.
    pub(crate) async fn commit(self: &Arc<Self>, txn: Txn) -> Result<Result<Outcome>, Txn> {
        let Some(session) = self.session() else { return Err(txn) };
        if let Some(turn) = self.turn_alone(&session) {
            let answered = commit_within(std::slice::from_ref(&txn), &session).await;
            let outcome =
                answered.and_then(|outcomes| outcomes.into_iter().next().unwrap_or_else(no_outcome));
            if outcome.as_ref().is_err_and(|fault| fault.elsewhere) {
                self.lose();
            }
            drop(turn);
            return Ok(outcome.map_err(|fault| fault.error(COMMIT)));
        }
        let (answer, answered) = oneshot::channel();
        self.hand_in(Commit { txn, answer }, session);
        Ok(answered.await.unwrap_or_else(|_| Err(connection_lost().error(COMMIT))))
    }

    /// The turn of one who goes alone; `None` if others wait, or too many are on the way.
    fn turn_alone(self: &Arc<Self>, session: &Session) -> Option<Turn> {
        let mut state = self.lock();
        if state.on_the_way >= MAX_ON_THE_WAY || !state.unsent.is_empty() {
            return None;
        }
        state.on_the_way += 1;
        Some(Turn { express: Arc::clone(self), session: session.clone() })
    }

    fn hand_in(self: &Arc<Self>, commit: Commit, session: Session) {
        let mut state = self.lock();
        state.unsent.push_back(commit);
        if state.on_the_way < MAX_ON_THE_WAY {
            state.on_the_way += 1;
            // Ends when nobody waits. A task, since callers may go away, and others' commits with them.
            drop(tokio::spawn(Arc::clone(self).send_all(session)));
        }
    }

    /// Reads records; `None` if that has to go by the thread.
    pub(crate) async fn read(self: &Arc<Self>, names: &[Name]) -> Option<Result<Snapshot>> {
        match read_within(&self.session()?, names).await {
            Err(fault) if fault.elsewhere => {
                self.lose();
                None
            }
            answered => Some(answered.map_err(|fault| fault.error("read records"))),
        }
    }

    /// The connection, if the caller is at home and there is one.
    fn session(self: &Arc<Self>) -> Option<Session> {
        if Handle::try_current().ok()?.id() != self.home {
            return None;
        }
        let mut state = self.lock();
        match &state.way {
            Way::Open(session) => return Some(session.clone()),
            Way::Lost(since) if boottime().saturating_sub(*since) >= PAUSE => {
                state.way = Way::Opening;
                drop(tokio::spawn(Arc::clone(self).open_again()));
            }
            Way::Lost(_) | Way::Opening => {}
        }
        None
    }

    async fn open_again(self: Arc<Self>) {
        let way = match connect(self.address.clone(), Arc::clone(&self.shared)).await {
            Ok((session, pushes)) => {
                drop(tokio::spawn(notice_the_end(Arc::downgrade(&self), pushes)));
                Way::Open(session)
            }
            Err(_) => Way::Lost(boottime()),
        };
        self.lock().way = way;
    }

    async fn send_all(self: Arc<Self>, session: Session) {
        while let Some(batch) = self.next() {
            if let Some(Fault { elsewhere: true, .. }) = carry_out(batch, session.clone()).await {
                self.lose();
            }
            // Those who were just answered often have more to commit: let them in first.
            tokio::task::yield_now().await;
        }
    }

    /// Those who go together next. `None`: nobody waits, or there is no way any more.
    fn next(&self) -> Option<Vec<Commit>> {
        let mut state = self.lock();
        if !matches!(state.way, Way::Open(_)) {
            for commit in state.unsent.drain(..) {
                // If the thread has ended too, whoever waits hears of that.
                drop(self.jobs.send(Job::Commit(commit)));
            }
        }
        let size = batch::size(state.unsent.iter().map(|commit| &commit.txn));
        if size == 0 {
            state.on_the_way -= 1;
            return None;
        }
        Some(state.unsent.drain(..size).collect())
    }

    fn lose(&self) {
        self.lock().way = Way::Lost(boottime());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic half-way runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place on the way. Dropped, it goes on to those who wait.
struct Turn {
    express: Arc<Express>,
    session: Session,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.express.lock();
        if state.unsent.is_empty() {
            state.on_the_way -= 1;
            return;
        }
        match Handle::try_current() {
            Ok(home) => drop(home.spawn(Arc::clone(&self.express).send_all(self.session.clone()))),
            // The runtime has ended under its callers, who are gone too.
            Err(_) => {
                state.on_the_way -= 1;
                state.unsent.clear();
            }
        }
    }
}

async fn connect(
    address: Address,
    shared: Arc<Shared>,
) -> Result<(Session, UnboundedReceiver<PushInfo>), Fault> {
    let (sender, pushes) = mpsc::unbounded_channel();
    Ok((open_session(&address, &shared, Ears::Closed, sender).await?.0, pushes))
}

/// Loses the way when the server closes the connection, before anybody sends something into the void. Ends with
/// the connection.
async fn notice_the_end(express: Weak<Express>, mut pushes: UnboundedReceiver<PushInfo>) {
    while let Some(push) = pushes.recv().await {
        if Notice::of(&push) == Some(Notice::Disconnected)
            && let Some(express) = express.upgrade()
        {
            express.lose();
        }
    }
}
