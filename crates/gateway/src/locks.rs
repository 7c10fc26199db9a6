//! The routes of locks, at the desk of a run and at the daemon alike.

use std::time::Duration;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use bell_api::ask::{AcquireRequest, LeaveRequest, ReleaseRequest, RenewRequest};
use bell_api::lock::{ChangesAnswer, ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::{Ask, Session};
use bell_core::acquire::canonical_order;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::RequestId;

use crate::answer;
use crate::body::Asked;
use crate::counter::Counter;
use crate::limits::{ANSWER_WITHIN, LIST_MAX, POLL_MAX, REQUEST_CHARS_MAX, WAIT_MAX};
use crate::parking::Parking;
use crate::query::Query;
use crate::quota::Quota;
use crate::refusal::{Answer, Refusal};
use crate::waits::{self, Attending, Wanted};

type Answered<T> = Result<Answer<T>, Refusal>;

pub(crate) async fn acquire<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    parking: Option<Extension<Parking>>,
    Asked(request): Asked<AcquireRequest>,
) -> Result<Response, Refusal> {
    let (first, ask) = read(&request, counter.ttl())?;
    if let Some(key) = ask.keys.iter().find(|key| key.as_str().starts_with(RESERVED)) {
        return Err(Refusal::forbidden(format!("could not take {key}: keys of bell: are Bellwether's own")));
    }
    let session = counter.holder(&caller)?.clone();
    counter.quota().room(counter.locks(), &session, &ask.keys).await?;
    let wait = ask.wait;
    let kept = (!wait.is_zero()).then(|| counter.keep(&session));
    let (keys, coord) = (ask.keys.clone(), counter.locks().clone());
    let wanted = Wanted { coord, session: session.clone(), ask, first: first.clone() };
    let attending = counter.waits().attend(wanted)?;
    let mut call = Call { quota: counter.quota().clone(), session, keys, first, attending, _kept: kept };
    // Who does not want to wait is answered as soon as the store is.
    if wait.is_zero() {
        return Ok(call.answer(ANSWER_WITHIN).await);
    }
    if let Some(answer) = call.attending.answer(MOMENT).await {
        return Ok(call.answered(answer));
    }
    call.attending.hand_over();
    let within = POLL_MAX.min(wait + SETTLE) - MOMENT;
    Ok(match parking {
        Some(Extension(parking)) => parking.leave(async move { call.answer(within).await }),
        None => call.answer(within).await,
    })
}

/// A call that waits for what it asked for.
struct Call<K> {
    quota: Quota,
    session: Session,
    keys: Vec<Key>,
    first: Key,
    attending: Attending,
    _kept: Option<K>,
}

impl<K> Call<K> {
    async fn answer(mut self, within: Duration) -> Response {
        match self.attending.answer(within).await {
            Some(answer) => self.answered(answer),
            None => Answer(Outcome::Waiting, waiting(self.first)).into_response(),
        }
    }

    fn answered(self, answer: waits::Answer) -> Response {
        match answer {
            Ok(answer) => {
                self.quota.granted(self.session.id(), self.keys);
                Answer(answer.outcome, answer).into_response()
            }
            Err(refusal) => refusal.into_response(),
        }
    }
}

/// Daemons hold keys like this: who has them is who is there.
const RESERVED: &str = "bell:";

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
    Ok((first, Ask { keys, mode: request.mode.into(), ttl, wait, request: request_id }))
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

pub(crate) async fn leave<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<LeaveRequest>,
) -> Answered<LockAnswer> {
    let id = request_id(&request.request_id)?;
    let session = counter.holder(&caller)?;
    if !counter.waits().give_up(session.id(), &id) {
        counter.give_up(session, &id).await?;
    }
    Ok(Answer(Outcome::Ended, LockAnswer::new(Outcome::Ended, None)))
}

pub(crate) async fn renew<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<RenewRequest>,
) -> Answered<LockAnswer> {
    let key = Key::parse(&request.key)?;
    let ttl = request.ttl_ms.map(read_ttl).transpose()?;
    let session = counter.holder(&caller)?;
    let renewed = counter.locks().renew_key(session, &key, request.fence.map(Fence), ttl).await;
    let renewed = renewed.map_err(Refusal::about(&key))?;
    Ok(Answer(Outcome::Renewed, answer::lease(Outcome::Renewed, session, &renewed)))
}

pub(crate) async fn release<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<ReleaseRequest>,
) -> Answered<LockAnswer> {
    let (key, fence) = (Key::parse(&request.key)?, request.fence.map(Fence));
    let session = counter.holder(&caller)?;
    let released = match counter.waits().recent().take(session.id(), &key) {
        Some(lease) => counter.locks().release_remembered(session, fence, lease).await,
        None => counter.locks().release_key(session, &key, fence).await,
    };
    released.map_err(Refusal::about(&key))?;
    counter.quota().released(session.id(), &key);
    Ok(Answer(Outcome::Released, answer::ended(Outcome::Released, &key, fence)))
}

pub(crate) async fn show<C: Counter>(
    State(counter): State<C>,
    RawQuery(query): RawQuery,
) -> Answered<LockAnswer> {
    let query = Query::read(query.as_deref(), &["key"])?;
    let key = Key::parse(query.text("key").unwrap_or_default())?;
    let state = counter.locks().show(&key).await.map_err(Refusal::about(&key))?;
    let shown = answer::shown(&state);
    Ok(Answer(shown.outcome, shown))
}

pub(crate) async fn list<C: Counter>(
    State(counter): State<C>,
    RawQuery(query): RawQuery,
) -> Answered<ListAnswer> {
    let query = Query::read(query.as_deref(), &["prefix", "after", "limit"])?;
    let prefix = query.text("prefix").unwrap_or_default();
    let mut after = query.text("after").map(Key::parse).transpose()?;
    let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIST_MAX);
    let limit = limit.clamp(1, LIST_MAX);
    let mut locks = Vec::new();
    // A page of the store has fewer than it looked at, where leases have run out.
    let more = loop {
        let page = counter.locks().list(prefix, after.as_ref(), limit - locks.len()).await?;
        locks.extend(page.locks.iter().map(answer::state));
        if page.next.is_none() || locks.len() >= limit {
            break page.next.is_some();
        }
        after = page.next;
    };
    Ok(Answer(Outcome::Listed, ListAnswer { outcome: Outcome::Listed, locks, more }))
}

pub(crate) async fn changes<C: Counter>(
    State(counter): State<C>,
    RawQuery(query): RawQuery,
) -> Answered<ChangesAnswer> {
    let query = Query::read(query.as_deref(), &["prefix", "after", "wait_ms"])?;
    let locks = counter.locks();
    if let Some(after) = query.number("after")? {
        let prefix = query.text("prefix").unwrap_or_default();
        let changed = tokio::time::timeout(query.wait()?, locks.changed(prefix, after)).await;
        if changed.map_or(Ok(false), |changed| changed.map(|()| true))? {
            let revision = locks.revision().await?;
            return Ok(Answer(Outcome::Listed, ChangesAnswer { outcome: Outcome::Listed, revision }));
        }
        let unchanged = ChangesAnswer { outcome: Outcome::Waiting, revision: after };
        return Ok(Answer(Outcome::Waiting, unchanged));
    }
    let revision = locks.revision().await?;
    Ok(Answer(Outcome::Listed, ChangesAnswer { outcome: Outcome::Listed, revision }))
}
