//! Requests for locks that are under way, over as many calls as it takes.
//!
//! A request has a task of its own, which asks and waits; a call only attends it. So a call that ends, on purpose or
//! because a connection broke, loses nothing: the next one with the same request id finds the request where it was, or
//! its answer. A request that nobody attends for [`COME_BACK_WITHIN`] is given up, and a grant that nobody came for is
//! given back. A grant that was told is forgotten here: the store knows it by its request id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_coord::{Ask, Coord, Lease, Session};
use bell_core::key::Key;
use bell_core::session::{RequestId, SessionId};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::limits::{COME_BACK_WITHIN, WAITS_MAX};
use crate::refusal::Refusal;

/// What a request came to.
pub(crate) type Answer = Result<LockAnswer, Refusal>;

type Name = (SessionId, RequestId);

/// The requests that are under way, or whose answer nobody has come for yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waits {
    all: Arc<Mutex<BTreeMap<Name, Arc<Request>>>>,
    tasks: TaskTracker,
    /// Nothing waits here any more.
    over: CancellationToken,
    at_end: AtEnd,
    most: usize,
}

/// What becomes of requests when nothing waits here any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtEnd {
    /// They leave their queues: whom they are for has ended.
    Leave,
    /// They keep their places: the same requests will come again, to whoever serves next.
    Stand,
}

/// What is asked for, and by whom.
pub(crate) struct Wanted {
    pub(crate) coord: Coord,
    pub(crate) session: Session,
    pub(crate) ask: Ask,
    /// The key that the caller named first: answers are about that one.
    pub(crate) first: Key,
}

struct Request {
    keys: Vec<Key>,
    mode: bell_core::lock::Mode,
    /// Calls that attend it.
    present: watch::Sender<usize>,
    answer: watch::Sender<Option<Answer>>,
    was_told: AtomicBool,
    given_up: CancellationToken,
    over: CancellationToken,
}

/// A call that attends a request, until it is dropped.
pub(crate) struct Attending(Arc<Request>);

impl Waits {
    /// Until `over`, at most so many.
    pub(crate) fn new(over: CancellationToken, at_end: AtEnd, most: usize) -> Self {
        Self { all: Arc::default(), tasks: TaskTracker::new(), over, at_end, most }
    }

    /// Attends the request of this id, which is begun if nobody has done so.
    pub(crate) fn attend(&self, wanted: Wanted) -> Result<Attending, Refusal> {
        let name = (wanted.session.id().clone(), wanted.ask.request.clone());
        let mut all = self.lock();
        if let Some(request) = all.get(&name) {
            if request.keys != wanted.ask.keys || request.mode != wanted.ask.mode {
                return Err(Refusal::invalid(
                    "could not use the request id: it names another request, for other keys",
                    "Use a new id for each request.",
                ));
            }
            return Ok(Attending::of(request));
        }
        if all.len() >= self.most {
            return Err(Refusal::too_many(
                format!("could not ask for more: {} requests are under way here", self.most),
                "Wait for some of them, or give them up.",
            ));
        }
        if of_session(&all, &name.0) >= WAITS_MAX {
            return Err(Refusal::too_many(
                format!("could not ask for more: this session has {WAITS_MAX} requests under way"),
                "Wait for some of them, or give them up.",
            ));
        }
        let request = Arc::new(Request {
            keys: wanted.ask.keys.clone(),
            mode: wanted.ask.mode,
            present: watch::Sender::new(0),
            answer: watch::Sender::new(None),
            was_told: AtomicBool::new(false),
            given_up: CancellationToken::new(),
            over: self.over.clone(),
        });
        all.insert(name.clone(), Arc::clone(&request));
        let attending = Attending::of(&request);
        self.tasks.spawn(self.clone().see_through(name, request, wanted));
        Ok(attending)
    }

    /// Gives up a request. Whether there was one.
    pub(crate) fn give_up(&self, session: &SessionId, request: &RequestId) -> bool {
        let found = self.lock().get(&(session.clone(), request.clone())).cloned();
        found.inspect(|request| request.given_up.cancel()).is_some()
    }

    /// Asks, waits, keeps the answer for whoever comes for it.
    async fn see_through(self, name: Name, request: Arc<Request>, wanted: Wanted) {
        let Wanted { coord, session, ask, first } = wanted;
        let answered = tokio::select! {
            biased;
            answered = coord.acquire_until(&session, &ask, self.handed_on()) => answered.transpose(),
            // Dropped half-way, the library gives back what it got and leaves the queue.
            () = self.deserted(&name, &request, COME_BACK_WITHIN) => return,
        };
        let Some(answered) = answered else {
            self.lock().remove(&name);
            return;
        };
        let (leases, answer, patience) = match answered {
            Ok(leases) => {
                let answer = answer::granted(&session, &first, &leases);
                (leases, Ok(answer), COME_BACK_WITHIN)
            }
            // Asked once more it may be otherwise, so this is told to those who are here and forgotten.
            Err(denied) => (Vec::new(), Err(Refusal::about(&first)(denied)), Duration::ZERO),
        };
        request.answer.send_replace(Some(answer));
        self.deserted(&name, &request, patience).await;
        // What was granted in the last moment may be on its way, and the same request will find it.
        let is_handed_on = self.at_end == AtEnd::Stand && self.over.is_cancelled();
        if !request.was_told.load(Ordering::Acquire) && !is_handed_on {
            give_back(&coord, &session, leases).await;
        }
    }

    /// Returns when whoever serves next is to go on with what waits here.
    async fn handed_on(&self) {
        match self.at_end {
            AtEnd::Stand => self.over.cancelled().await,
            AtEnd::Leave => std::future::pending().await,
        }
    }

    /// Returns when nobody has attended the request for so long, or it was given up; then it is forgotten.
    async fn deserted(&self, name: &Name, request: &Arc<Request>, patience: Duration) {
        let mut present = request.present.subscribe();
        loop {
            let alone = async {
                loop {
                    // The sender lives in the request.
                    let _ = present.wait_for(|count| *count == 0).await;
                    let was_told = request.was_told.load(Ordering::Acquire);
                    let patience = if was_told { Duration::ZERO } else { patience };
                    if timeout(patience, present.wait_for(|count| *count > 0)).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                () = request.given_up.cancelled() => {}
                () = self.over.cancelled() => {}
                () = alone => {}
            }
            let mut all = self.lock();
            let is_final = request.given_up.is_cancelled() || self.over.is_cancelled();
            // Calls join under the same lock, so nobody is overlooked.
            if is_final || *request.present.borrow() == 0 {
                all.remove(name);
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Request>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attending {
    fn of(request: &Arc<Request>) -> Self {
        request.present.send_modify(|count| *count += 1);
        Self(Arc::clone(request))
    }

    /// The answer, if it comes within this time. From then on it is the caller's.
    pub(crate) async fn answer(&self, within: Duration) -> Option<Answer> {
        let mut answer = self.0.answer.subscribe();
        let come = async {
            tokio::select! {
                biased;
                found = answer.wait_for(Option::is_some) => found.ok().and_then(|answer| (*answer).clone()),
                () = self.0.given_up.cancelled() => Some(Err(given_up())),
                () = self.0.over.cancelled() => None,
            }
        };
        let answer = timeout(within, come).await.ok().flatten();
        if matches!(answer, Some(Ok(_))) {
            self.0.was_told.store(true, Ordering::Release);
        }
        answer
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.present.send_modify(|count| *count = count.saturating_sub(1));
    }
}

fn given_up() -> Refusal {
    Refusal::new(
        bell_api::outcome::Outcome::TimedOut,
        "could not go on waiting: the request was given up",
        "Ask again, with a new request id.",
    )
}

fn of_session(all: &BTreeMap<Name, Arc<Request>>, session: &SessionId) -> usize {
    let from = (session.clone(), RequestId::from(""));
    all.range(from..).take_while(|((of, _), _)| of == session).count()
}

/// What was granted to a caller that has gone.
async fn give_back(coord: &Coord, session: &Session, leases: Vec<Lease>) {
    for lease in leases.iter().filter(|lease| !lease.already_held) {
        if let Err(error) = coord.release(session, lease).await {
            tracing::warn!(%error, key = %lease.key, "could not give back what nobody came for");
        }
    }
}
