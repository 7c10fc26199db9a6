//! The routes of locks, at the desk of a run and at the daemon alike: acts, and looking.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bell_api::ask::{AcquireRequest, LeaveRequest, ReleaseRequest, RenewRequest};
use bell_api::lock::{ChangesAnswer, ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_core::key::Key;

use crate::acts::{self, Done};
use crate::answer;
use crate::body::Asked;
use crate::counter::Counter;
use crate::limits::LIST_MAX;
use crate::parking::Parking;
use crate::query::Query;
use crate::refusal::{Answer, Refusal};

type Answered<T> = Result<Answer<T>, Refusal>;

pub(crate) async fn acquire<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    parking: Option<Extension<Parking>>,
    Asked(request): Asked<AcquireRequest>,
) -> Result<Response, Refusal> {
    acts::acquire(&counter, &caller, parking.map(|Extension(parking)| parking), request).await
}

pub(crate) async fn leave<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<LeaveRequest>,
) -> Done {
    acts::leave(&counter, &caller, request).await
}

pub(crate) async fn renew<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<RenewRequest>,
) -> Done {
    acts::renew(&counter, &caller, request).await
}

pub(crate) async fn release<C: Counter>(
    State(counter): State<C>,
    Extension(caller): Extension<C::Caller>,
    Asked(request): Asked<ReleaseRequest>,
) -> Done {
    acts::release(&counter, &caller, request).await
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
