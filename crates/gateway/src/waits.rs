//! Requests for locks that are under way, over as many calls as it takes.
//!
//! The call that begins a request carries it out for a moment, which is all that most of them take. One that waits for
//! longer, or whose call has ended, goes on in a task of its own, and calls only attend it. So a call that ends, on
//! purpose or because a connection broke, loses nothing: the next one with the same request id finds the request where it
//! was, or its answer. A request that nobody attends for [`COME_BACK_WITHIN`] is given up, and a grant that nobody came
//! for is given back. A grant that was told is forgotten here: the store knows it by its request id.
//!
//! Ten thousand may wait at a time, so what one of them keeps is small: one record, behind one lock, with one place
//! where its calls and its task are told of news.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_coord::told::Told;
use bell_coord::{Ask, Coord, Denied, Lease, Session};
use bell_core::key::Key;
use bell_core::lock::{Mode, Ttl};
use bell_core::session::{RequestId, SessionId};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer;
use crate::limits::{COME_BACK_WITHIN, MOMENTS_MAX, WAITS_MAX};
use crate::recent::Recent;
use crate::refusal::Refusal;

/// Somebody who waited may have been served by then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a request came to: in a box, since a request that waits keeps the place for it.
pub(crate) type Answer = Result<Box<LockAnswer>, Refusal>;

type Name = (SessionId, RequestId);

/// The requests that are under way, or whose answer nobody has come for yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waits(Arc<Inner>);

struct Inner {
    all: Mutex<BTreeMap<Name, Arc<Request>>>,
    tasks: TaskTracker,
    recent: Recent,
    /// Places for requests that their own calls carry out for a moment.
    moments: Semaphore,
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
    mode: Mode,
    standing: Told<Standing>,
}

/// How a request stands.
#[derive(Default)]
struct Standing {
    /// Calls that attend it.
    present: usize,
    /// The longest ttl that they want: that is what counts.
    ttl: Option<Ttl>,
    answer: Option<Answer>,
    was_told: bool,
    is_given_up: bool,
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
        let (all, tasks, recent) = (Mutex::default(), TaskTracker::new(), Recent::default());
        let moments = Semaphore::new(MOMENTS_MAX);
        Self(Arc::new(Inner { all, tasks, recent, moments, over, at_end, most }))
    }

    /// What was granted here lately.
    pub(crate) fn recent(&self) -> &Recent {
        &self.0.recent
    }

    /// A place for a request that its own call carries out for a moment, which may have to wait then; `None` if so many
    /// do that already.
    pub(crate) fn moment(&self) -> Option<SemaphorePermit<'_>> {
        self.0.moments.try_acquire().ok()
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
            if request.is_asked_for(wanted.ask.ttl) {
                return Ok(Attending::of(request, self, None));
            }
        }
        if all.len() >= self.0.most {
            return Err(Refusal::limit(
                format!("could not ask for more: {} requests are under way here", self.0.most),
                "Wait for some of them, or give them up.",
            )
            .after(AGAIN_AFTER));
        }
        if of_session(&all, &name.0) >= WAITS_MAX {
            return Err(Refusal::limit(
                format!("could not ask for more: this session has {WAITS_MAX} requests under way"),
                "Wait for some of them, or give them up.",
            )
            .after(AGAIN_AFTER));
        }
        let request = Arc::new(Request {
            name: name.clone(),
            keys: wanted.ask.keys.clone(),
            mode: wanted.ask.mode,
            standing: Told::default(),
        });
        request.is_asked_for(wanted.ask.ttl);
        all.insert(name, Arc::clone(&request));
        let work = Box::pin(self.clone().see_through(Arc::clone(&request), wanted));
        Ok(Attending::of(&request, self, Some(work)))
    }

    /// Gives up a request. Whether there was one.
    pub(crate) fn give_up(&self, session: &SessionId, request: &RequestId) -> bool {
        let found = self.lock().get(&(session.clone(), request.clone())).cloned();
        found.inspect(|request| request.standing.change(|standing| standing.is_given_up = true)).is_some()
    }

    /// Asks, waits, keeps the answer for whoever comes for it.
    ///
    /// Thousands of these wait at a time, so what is done once or never is in boxes.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function has two places for what it is given, a block one"
    )]
    fn see_through(self, request: Arc<Request>, wanted: Wanted) -> impl Future<Output = ()> + Send {
        async move {
            let answered = {
                let handed_on = pin!(self.handed_on());
                tokio::select! {
                    biased;
                    answered = wanted.coord.acquire_until(&wanted.session, &wanted.ask, handed_on) => answered.transpose(),
                    // Dropped half-way, the library gives back what it got and leaves the queue.
                    () = self.deserted(&request, COME_BACK_WITHIN) => return,
                }
            };
            let Some(answered) = answered else { return self.forget(&request) };
            let mut answered = answered;
            let (leases, patience) = loop {
                match self.keep_answer(&request, &wanted, answered) {
                    Ok(kept) => break kept,
                    Err(longer) => {
                        let ask = wanted.ask.clone().ttl(longer).wait(Duration::ZERO);
                        answered = Box::pin(wanted.coord.acquire(&wanted.session, &ask)).await;
                    }
                }
            };
            self.deserted(&request, patience).await;
            // What was granted in the last moment may be on its way, and the same request will find it.
            let is_handed_on = self.0.at_end == AtEnd::Stand && self.0.over.is_cancelled();
            if !request.standing.look().was_told && !is_handed_on {
                Box::pin(give_back(&wanted.coord, &wanted.session, leases)).await;
            }
        }
    }

    /// Keeps an answer for whoever comes for it: what was granted, and how long it is kept. The ttl to ask for once more, if
    /// a call has come in the meantime that wants a longer one.
    fn keep_answer(
        &self,
        request: &Request,
        wanted: &Wanted,
        answered: Result<Vec<Lease>, Denied>,
    ) -> Result<(Vec<Lease>, Duration), Ttl> {
        let granted = answered.as_ref().ok().and_then(|leases| leases.iter().map(|lease| lease.ttl).min());
        let (leases, answer, patience) = match answered {
            Ok(leases) => {
                self.recent().granted(&wanted.session, &leases);
                let answer = answer::granted(&wanted.session, &wanted.first, &leases);
                (leases, Ok(Box::new(answer)), COME_BACK_WITHIN)
            }
            // Asked once more it may be otherwise, so this is told to those who are here and forgotten.
            Err(denied) => (Vec::new(), Err(Refusal::about(&wanted.first)(denied)), Duration::ZERO),
        };
        let mut longer = None;
        request.standing.change(|standing| {
            longer = standing.ttl.filter(|ttl| granted.is_some_and(|granted| granted < *ttl));
            if longer.is_none() {
                standing.answer = Some(answer);
            }
        });
        longer.map_or(Ok((leases, patience)), Err)
    }

    /// Returns when whoever serves next is to go on with what waits here.
    async fn handed_on(&self) {
        match self.0.at_end {
            AtEnd::Stand => self.0.over.cancelled().await,
            AtEnd::Leave => std::future::pending().await,
        }
    }

    /// Returns when nobody has attended the request for so long, or it was given up; then it is forgotten.
    async fn deserted(&self, request: &Arc<Request>, patience: Duration) {
        loop {
            tokio::select! {
                biased;
                () = self.0.over.cancelled() => {}
                () = request.left_alone(patience) => {}
            }
            let mut all = self.lock();
            let is_final = request.standing.look().is_given_up || self.0.over.is_cancelled();
            // Calls join under the same lock, so nobody is overlooked.
            if is_final || request.standing.look().present == 0 {
                return remove(&mut all, request);
            }
        }
    }

    fn forget(&self, request: &Arc<Request>) {
        remove(&mut self.lock(), request);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Request>>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// Notes that a call wants it with this ttl. False if it was granted with a shorter one, and is to be asked for once more:
    /// the store knows it by its id.
    fn is_asked_for(&self, ttl: Ttl) -> bool {
        let mut is_enough = true;
        self.standing.change(|standing| {
            let is_longer = standing.ttl.is_none_or(|asked| asked < ttl);
            is_enough = !(is_longer && matches!(standing.answer, Some(Ok(_))));
            standing.ttl = standing.ttl.max(Some(ttl));
            // What was granted is the next one's.
            standing.was_told |= !is_enough;
        });
        is_enough
    }

    /// Returns when it was given up, or nobody has attended it for so long: at once, if it was told what there is to tell.
    async fn left_alone(&self, patience: Duration) {
        loop {
            self.standing.until(|standing| standing.present == 0 || standing.is_given_up).await;
            let patience = if self.standing.look().was_told { Duration::ZERO } else { patience };
            let back = self.standing.until(|standing| standing.present > 0 || standing.is_given_up);
            // In a box: nearly always somebody is there.
            if Box::pin(timeout(patience, back)).await.is_err() || self.standing.look().is_given_up {
                return;
            }
        }
    }
}

impl Standing {
    /// Whether whoever attended it has heard all that there is to hear.
    fn was_answered(&self) -> bool {
        self.was_told || matches!(self.answer, Some(Err(_)))
    }
}

impl Attending {
    fn of(request: &Arc<Request>, waits: &Waits, work: Option<Work>) -> Self {
        request.standing.change(|standing| standing.present += 1);
        Self { request: Arc::clone(request), waits: waits.clone(), work, runtime: Handle::current() }
    }

    /// The answer, if it comes within this time.
    pub(crate) async fn answer_within(&mut self, time: Duration) -> Option<Answer> {
        timeout(time, self.answer()).await.ok().flatten()
    }

    /// The answer, which is the caller's from then on. `None` if nothing waits here any more.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let request = &self.request;
        let has_come = tokio::select! {
            biased;
            never = carry_out(&mut self.work) => match never {},
            () = request.standing.until(|standing| standing.answer.is_some() || standing.is_given_up) => true,
            () = self.waits.0.over.cancelled() => false,
        };
        has_come.then(|| self.hear())
    }

    /// Hears what there is to hear. Whoever is the only one takes it along, and the request is forgotten.
    fn hear(&mut self) -> Answer {
        let mut all = self.waits.lock();
        let mut standing = self.request.standing.look();
        let answer = if standing.present > 1 { standing.answer.clone() } else { standing.answer.take() };
        standing.was_told |= matches!(answer, Some(Ok(_)));
        if standing.present == 1 && answer.is_some() {
            drop(standing);
            remove(&mut all, &self.request);
            self.work = None;
        }
        answer.unwrap_or_else(|| Err(given_up()))
    }

    /// Leaves the request to a task of its own.
    pub(crate) fn hand_over(&mut self) {
        if let Some(work) = self.work.take() {
            self.waits.0.tasks.spawn_on(work, &self.runtime);
        }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.request.standing.change(|standing| standing.present = standing.present.saturating_sub(1));
        if self.work.is_none() {
            return;
        }
        let mut all = self.waits.lock();
        // Calls join under the same lock, so nobody is overlooked.
        let is_over = |standing: &Standing| standing.present == 0 && standing.was_answered();
        if is_over(&self.request.standing.look()) {
            return remove(&mut all, &self.request);
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

/// Forgets a request, unless the name is another's by now.
fn remove(all: &mut BTreeMap<Name, Arc<Request>>, request: &Arc<Request>) {
    if all.get(&request.name).is_some_and(|found| Arc::ptr_eq(found, request)) {
        all.remove(&request.name);
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
