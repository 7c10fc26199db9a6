//! The routes of locks, at the desk of a run and at the daemon alike.

use std::time::Duration;

use axum::Extension;
use axum::extract::{RawQuery, State};
use bell_api::ask::{AcquireRequest, LeaveRequest, ReleaseRequest, RenewRequest};
use bell_api::lock::{ChangesAnswer, ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::Ask;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::RequestId;

use crate::answer;
use crate::body::Asked;
use crate::counter::Counter;
use crate::limits::{LIST_MAX, POLL_MAX, REQUEST_CHARS_MAX, WAIT_MAX};
use crate::query::Query;
use crate::refusal::{Answer, Refusal};
use crate::waits::Wanted;

type Answered<T> = Result<Answer<T>, Refusal>;

pub(crate) async fn acquire<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<AcquireRequest>,
) -> Answered<LockAnswer> {
    let first = Key::parse(request.keys.first().map_or("", String::as_str))?;
    let ask = read(&request, counter.ttl())?;
    if let Some(key) = ask.keys.iter().find(|key| key.as_str().starts_with(RESERVED)) {
        return Err(Refusal::forbidden(format!("could not take {key}: keys of bell: are Bellwether's own")));
    }
    let (keys, wait) = (ask.keys.clone(), ask.wait);
    let session = counter.holder(&caller)?;
    counter.quota().room(counter.locks(), session, &keys).await?;
    let _kept = (!wait.is_zero()).then(|| counter.keep(session));
    let wanted =
        Wanted { coord: counter.locks().clone(), session: session.clone(), ask, first: first.clone() };
    let attending = counter.waits().attend(wanted)?;
    // Who does not want to wait is answered as soon as the store is.
    let within = if wait.is_zero() { crate::limits::ANSWER_WITHIN } else { POLL_MAX.min(wait + SETTLE) };
    match attending.answer(within).await {
        Some(answer) => {
            let answer = answer?;
            counter.quota().granted(session.id(), keys);
            Ok(Answer(answer.outcome, answer))
        }
        None => Ok(Answer(Outcome::Waiting, waiting(first))),
    }
}

/// Daemons hold keys like this: who has them is who is there.
const RESERVED: &str = "bell:";

/// A wait that is over is answered by the library, which takes a moment.
const SETTLE: Duration = Duration::from_secs(5);

fn waiting(key: Key) -> LockAnswer {
    let mut answer = LockAnswer::new(Outcome::Waiting, Some(key));
    answer.hint = Some(Outcome::Waiting.next().to_owned());
    answer
}

fn read(request: &AcquireRequest, ttl: Ttl) -> Result<Ask, Refusal> {
    let keys = request.keys.iter().map(|key| Key::parse(key)).collect::<Result<Vec<Key>, _>>()?;
    let wait = Duration::from_millis(request.wait_ms);
    if wait > WAIT_MAX {
        return Err(Refusal::invalid(
            "could not wait so long: 7 days are the most",
            "Give wait_ms in milliseconds, 604800000 at the most.",
        ));
    }
    let ttl = request.ttl_ms.map_or(Ok(ttl), read_ttl)?;
    let ask = Ask::all(keys).ttl(ttl).wait(wait).request(request_id(&request.request_id)?);
    Ok(Ask { mode: request.mode.into(), ..ask })
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
    counter.locks().release_key(session, &key, fence).await.map_err(Refusal::about(&key))?;
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
