//! Requests for locks that are under way, over as many calls as it takes.
//!
//! The call that begins a request carries it out for a moment, which is all that most of them take. One that waits for
//! longer, or whose call has ended, goes on in a task of its own, and calls only attend it. So a call that ends, on
//! purpose or because a connection broke, loses nothing: the next one with the same request id finds the request where it
//! was, or its answer. A request that nobody attends for [`COME_BACK_WITHIN`] is given up, and a grant that nobody came
//! for is given back. A grant that was told is forgotten here: the store knows it by its request id.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_coord::{Ask, Coord, Lease, Session};
use bell_core::key::Key;
use bell_core::session::{RequestId, SessionId};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::limits::{COME_BACK_WITHIN, WAITS_MAX};
use crate::recent::Recent;
use crate::refusal::Refusal;

/// What a request came to.
pub(crate) type Answer = Result<LockAnswer, Refusal>;

type Name = (SessionId, RequestId);

/// The requests that are under way, or whose answer nobody has come for yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waits {
    all: Arc<Mutex<BTreeMap<Name, Arc<Request>>>>,
    tasks: TaskTracker,
    recent: Recent,
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
    name: Name,
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
pub(crate) struct Attending {
    request: Arc<Request>,
    waits: Waits,
    /// The request itself, while this call carries it out.
    work: Option<Work>,
    /// Where it goes on afterwards.
    runtime: Handle,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Waits {
    /// Until `over`, at most so many.
    pub(crate) fn new(over: CancellationToken, at_end: AtEnd, most: usize) -> Self {
        Self { all: Arc::default(), tasks: TaskTracker::new(), recent: Recent::default(), over, at_end, most }
    }

    /// What was granted here lately.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
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
            return Ok(Attending::of(request, self, None));
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
            name: name.clone(),
            keys: wanted.ask.keys.clone(),
            mode: wanted.ask.mode,
            present: watch::Sender::new(0),
            answer: watch::Sender::new(None),
            was_told: AtomicBool::new(false),
            given_up: CancellationToken::new(),
            over: self.over.clone(),
        });
        all.insert(name, Arc::clone(&request));
        let work = Box::pin(self.clone().see_through(Arc::clone(&request), wanted));
        Ok(Attending::of(&request, self, Some(work)))
    }

    /// Gives up a request. Whether there was one.
    pub(crate) fn give_up(&self, session: &SessionId, request: &RequestId) -> bool {
        let found = self.lock().get(&(session.clone(), request.clone())).cloned();
        found.inspect(|request| request.given_up.cancel()).is_some()
    }

    /// Asks, waits, keeps the answer for whoever comes for it.
    async fn see_through(self, request: Arc<Request>, wanted: Wanted) {
        let Wanted { coord, session, ask, first } = wanted;
        let answered = tokio::select! {
            biased;
            answered = coord.acquire_until(&session, &ask, self.handed_on()) => answered.transpose(),
            // Dropped half-way, the library gives back what it got and leaves the queue.
            () = self.deserted(&request, COME_BACK_WITHIN) => return,
        };
        let Some(answered) = answered else {
            self.lock().remove(&request.name);
            return;
        };
        let (leases, answer, patience) = match answered {
            Ok(leases) => {
                self.recent.granted(&session, &leases);
                let answer = answer::granted(&session, &first, &leases);
                (leases, Ok(answer), COME_BACK_WITHIN)
            }
            // Asked once more it may be otherwise, so this is told to those who are here and forgotten.
            Err(denied) => (Vec::new(), Err(Refusal::about(&first)(denied)), Duration::ZERO),
        };
        request.answer.send_replace(Some(answer));
        self.deserted(&request, patience).await;
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
    async fn deserted(&self, request: &Request, patience: Duration) {
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
                all.remove(&request.name);
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Request>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// Whether whoever attended it has heard all that there is to hear.
    fn was_answered(&self) -> bool {
        self.was_told.load(Ordering::Acquire) || matches!(&*self.answer.borrow(), Some(Err(_)))
    }
}

impl Attending {
    fn of(request: &Arc<Request>, waits: &Waits, work: Option<Work>) -> Self {
        request.present.send_modify(|count| *count += 1);
        Self { request: Arc::clone(request), waits: waits.clone(), work, runtime: Handle::current() }
    }

    /// The answer, if it comes within this time. From then on it is the caller's.
    pub(crate) async fn answer(&mut self, within: Duration) -> Option<Answer> {
        let request = &self.request;
        let mut answer = request.answer.subscribe();
        let come = async {
            tokio::select! {
                biased;
                never = carry_out(&mut self.work) => match never {},
                found = answer.wait_for(Option::is_some) => found.ok().and_then(|answer| (*answer).clone()),
                () = request.given_up.cancelled() => Some(Err(given_up())),
                () = request.over.cancelled() => None,
            }
        };
        let answer = timeout(within, come).await.ok().flatten();
        if matches!(answer, Some(Ok(_))) {
            request.was_told.store(true, Ordering::Release);
        }
        answer
    }

    /// Leaves the request to a task of its own.
    pub(crate) fn hand_over(&mut self) {
        if let Some(work) = self.work.take() {
            self.waits.tasks.spawn_on(work, &self.runtime);
        }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.request.present.send_modify(|count| *count = count.saturating_sub(1));
        if self.work.is_none() {
            return;
        }
        let mut all = self.waits.lock();
        // Calls join under the same lock, so nobody is overlooked.
        if *self.request.present.borrow() == 0 && self.request.was_answered() {
            all.remove(&self.request.name);
            return;
        }
        drop(all);
        self.hand_over();
    }
}

/// Carries out a request; whoever attends it learns from it what came of it.
async fn carry_out(work: &mut Option<Work>) -> Infallible {
    if let Some(request) = work {
        request.await;
        *work = None;
    }
    std::future::pending().await
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

#[cfg(test)]
mod tests {
    use bell_coord::Keep;
    use bell_core::session::Identity;
    use bell_store::memory::Memory;

    use super::*;

    const KEY: &str = "deploy://x";

    struct Scene {
        coord: Coord,
        waits: Waits,
    }

    impl Scene {
        fn new() -> Self {
            let waits = Waits::new(CancellationToken::new(), AtEnd::Leave, WAITS_MAX);
            Self { coord: Coord::new(Arc::new(Memory::new())), waits }
        }

        fn wanted(&self, session: &Session, wait: Duration) -> Wanted {
            let first = Key::parse(KEY).unwrap();
            let ask = Ask::new(first.clone()).wait(wait).request(RequestId::from("r1"));
            Wanted { coord: self.coord.clone(), session: session.clone(), ask, first }
        }

        fn count(&self) -> (usize, usize) {
            (self.waits.lock().len(), self.waits.tasks.len())
        }
    }

    fn session() -> Session {
        Session::new(Identity::default(), Keep::Detached).unwrap()
    }

    #[tokio::test]
    async fn a_request_that_is_answered_at_once_takes_no_task_and_leaves_nothing() {
        let (scene, session) = (Scene::new(), session());
        let mut call = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
        assert!(call.answer(Duration::from_secs(60)).await.unwrap().is_ok());
        drop(call);
        assert_eq!(scene.count(), (0, 0));
        assert!(scene.waits.recent().take(session.id(), &Key::parse(KEY).unwrap()).is_some());
        let mut refused = scene.waits.attend(scene.wanted(&self::session(), Duration::ZERO)).unwrap();
        assert!(refused.answer(Duration::from_secs(60)).await.unwrap().is_err());
        drop(refused);
        assert_eq!(scene.count(), (0, 0));
    }

    #[tokio::test]
    async fn a_request_whose_call_ends_goes_on_and_the_next_call_finds_its_answer() {
        let (scene, holder, waiter) = (Scene::new(), session(), session());
        let held = scene.coord.acquire(&holder, &scene.wanted(&holder, Duration::ZERO).ask).await.unwrap();
        let minute = Duration::from_secs(60);
        let mut call = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
        assert!(call.answer(Duration::from_millis(5)).await.is_none());
        drop(call);
        assert_eq!(scene.count(), (1, 1));
        scene.coord.release(&holder, &held[0]).await.unwrap();
        let mut call = scene.waits.attend(scene.wanted(&waiter, minute)).unwrap();
        assert!(call.answer(minute).await.unwrap().is_ok());
        drop(call);
        scene.waits.tasks.close();
        scene.waits.tasks.wait().await;
        assert_eq!(scene.count(), (0, 0));
    }

    #[tokio::test]
    async fn of_two_calls_the_second_gets_its_answer_too() {
        let (scene, session) = (Scene::new(), session());
        let mut first = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
        let mut second = scene.waits.attend(scene.wanted(&session, Duration::ZERO)).unwrap();
        assert!(first.answer(Duration::from_secs(60)).await.unwrap().is_ok());
        drop(first);
        assert!(second.answer(Duration::from_secs(60)).await.unwrap().is_ok());
    }
}
