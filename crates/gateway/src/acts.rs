//! Taking, keeping and giving back locks, as they are asked for over HTTP. Who asks is proved, and what is asked for has
//! been read; the routes are in `locks`.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bell_api::ask::{AcquireRequest, LeaveRequest, ReleaseRequest, RenewRequest};
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Ask;
use bell_core::acquire::canonical_order;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::RequestId;

use crate::answer;
use crate::counter::Counter;
use crate::limits::{POLL_MAX, REQUEST_CHARS_MAX, WAIT_MAX};
use crate::parking::Parking;
use crate::quota::Reserved;
use crate::refusal::{Answer, Refusal};
use crate::waits::{self, Attending, Wanted};

/// What became of an act on one lock.
pub(crate) type Done = Result<Answer<LockAnswer>, Refusal>;

pub(crate) async fn acquire<C: Counter>(
    counter: &C,
    caller: &C::Caller,
    parking: Option<Parking>,
    request: AcquireRequest,
) -> Result<Response, Refusal> {
    let (first, ask) = read(&request, counter.ttl())?;
    if let Some(key) = ask.keys.iter().find(|key| key.is_reserved()) {
        return Err(Refusal::forbidden(format!("could not take {key}: keys of bell: are Bellwether's own")));
    }
    let session = counter.holder(caller)?.clone();
    let account = counter.account(&session);
    let reserved = counter.quota().reserve(counter.locks(), &session, account, &ask.keys).await?;
    let wait = ask.wait;
    let kept = (!wait.is_zero()).then(|| counter.keep(&session));
    let coord = counter.locks().clone();
    let wanted = Wanted { coord, session: session.clone(), ask, first: first.clone() };
    let attending = counter.waits().attend(wanted)?;
    let mut call = Call { reserved, first, attending, _kept: kept };
    // Who does not want to wait is answered as soon as the store is.
    if wait.is_zero() {
        let answer = call.attending.answer().await;
        return Ok(call.answered(answer));
    }
    if let Some(_moment) = counter.waits().moment() {
        let answer = call.attending.answer_within(MOMENT).await;
        if answer.is_some() {
            return Ok(call.answered(answer));
        }
    }
    call.attending.hand_over();
    let within = POLL_MAX.min(wait + SETTLE) - MOMENT;
    Ok(match parking {
        Some(parking) => parking.leave(call.answer_within(within)),
        None => call.answer_within(within).await,
    })
}

/// A call that waits for what it asked for.
struct Call<K> {
    reserved: Reserved,
    first: Key,
    attending: Attending,
    _kept: Option<K>,
}

impl<K: Send> Call<K> {
    /// The answer if it comes within this time, and else that it still waits.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function has two places for what it is given, a block one"
    )]
    fn answer_within(mut self, time: Duration) -> impl Future<Output = Response> + Send {
        async move {
            let answer = self.attending.answer_within(time).await;
            self.answered(answer)
        }
    }

    fn answered(self, answer: Option<waits::Answer>) -> Response {
        match answer {
            Some(Ok(answer)) => {
                self.reserved.granted();
                Answer(answer.outcome, answer).into_response()
            }
            Some(Err(refusal)) => refusal.into_response(),
            None => Answer(Outcome::Waiting, waiting(self.first)).into_response(),
        }
    }
}

/// A wait that is over is answered by the library, which takes a moment.
const SETTLE: Duration = Duration::from_secs(5);

/// How long a request that may wait is carried out by its own call, before that is put aside: a store has answered by
/// then, and many a lock was free or has become so.
const MOMENT: Duration = Duration::from_millis(20);
const _: () = assert!(MOMENT.as_millis() < SETTLE.as_millis());

fn waiting(key: Key) -> LockAnswer {
    let mut answer = LockAnswer::new(Outcome::Waiting, Some(key));
    answer.hint = Some(Outcome::Waiting.next().to_owned());
    answer
}

/// What is asked for, and the key that was named first: answers are about that one.
fn read(request: &AcquireRequest, ttl: Ttl) -> Result<(Key, Ask), Refusal> {
    let keys = request.keys.iter().map(|key| Key::parse(key)).collect::<Result<Vec<Key>, _>>()?;
    let first = keys.first().cloned().map_or_else(|| Key::parse(""), Ok)?;
    let wait = Duration::from_millis(request.wait_ms);
    if wait > WAIT_MAX {
        return Err(Refusal::invalid(
            "could not wait so long: 7 days are the most",
            "Give wait_ms in milliseconds, 604800000 at the most.",
        ));
    }
    let ttl = request.ttl_ms.map_or(Ok(ttl), read_ttl)?;
    let (keys, request_id) = (canonical_order(keys), request_id(&request.request_id)?);
    Ok((first, Ask { keys, mode: request.mode.into(), ttl, wait, request: request_id, call: None }))
}

fn read_ttl(ms: u64) -> Result<Ttl, Refusal> {
    Ttl::new(Duration::from_millis(ms)).map_err(|error| {
        Refusal::invalid(
            format!("could not use the ttl: {error}"),
            "Give ttl_ms in milliseconds, 1000 to 604800000.",
        )
    })
}

pub(crate) fn request_id(id: &str) -> Result<RequestId, Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if id.is_empty() || id.len() > REQUEST_CHARS_MAX || !id.chars().all(is_plain) {
        return Err(Refusal::invalid(
            "could not use the request id: it has characters that an id can't have, none, or too many",
            format!("Use letters, digits, -, _, . and :, {REQUEST_CHARS_MAX} at the most."),
        ));
    }
    Ok(RequestId::from(id))
}

pub(crate) async fn leave<C: Counter>(counter: &C, caller: &C::Caller, request: LeaveRequest) -> Done {
    let id = request_id(&request.request_id)?;
    let session = counter.holder(caller)?;
    if !counter.waits().give_up(session.id(), &id) {
        counter.give_up(session, &id).await?;
    }
    Ok(Answer(Outcome::Ended, LockAnswer::new(Outcome::Ended, None)))
}

pub(crate) async fn renew<C: Counter>(counter: &C, caller: &C::Caller, request: RenewRequest) -> Done {
    let key = Key::parse(&request.key)?;
    let ttl = request.ttl_ms.map(read_ttl).transpose()?;
    let session = counter.holder(caller)?;
    let renewed = counter.locks().renew_key(session, &key, request.fence.map(Fence), ttl).await;
    let renewed = renewed.map_err(Refusal::about(&key))?;
    Ok(Answer(Outcome::Renewed, answer::lease(Outcome::Renewed, session, &renewed)))
}

pub(crate) async fn release<C: Counter>(counter: &C, caller: &C::Caller, request: ReleaseRequest) -> Done {
    let (key, fence) = (Key::parse(&request.key)?, request.fence.map(Fence));
    let session = counter.holder(caller)?;
    let released = match counter.waits().recent().take(session.id(), &key) {
        Some(lease) => counter.locks().release_remembered(session, fence, lease).await,
        None => counter.locks().release_key(session, &key, fence).await,
    };
    released.map_err(Refusal::about(&key))?;
    counter.quota().released(session.id(), &key);
    Ok(Answer(Outcome::Released, answer::ended(Outcome::Released, &key, fence)))
}
