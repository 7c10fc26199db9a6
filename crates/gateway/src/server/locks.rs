//! The routes of locks at the daemon: the same as at the desk of a run, and following changes. Taking a lock from its
//! holder is an operator's act, and stands with the others.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use bell_api::lock::{ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::{Coord, Denied, Session};
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::{RequestId, SessionId};
use http::HeaderMap;

use super::Server;
use super::guard::Caller;
use super::outsiders::Kept;
use super::stream::{Gone, Outlet};
use crate::answer;
use crate::counter::{self, Counter};
use crate::limits::LIST_MAX;
use crate::query::Query;
use crate::quota::{Account, Quota};
use crate::refusal::Refusal;
use crate::routes::wrong_method;
use crate::waits::Waits;

/// The least time between two looks of one reader, however much changes: what happens in between is told as one.
const PAUSE: Duration = Duration::from_millis(50);
/// Nobody announces that a lease has run out, so this looks now and then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What sessions may do, and keys that look.
pub(crate) fn routes() -> Router<Server> {
    counter::routes::<Server>().route("/v1/locks/watch", get(watch).fallback(wrong_method))
}

impl Counter for Server {
    type Caller = Caller;
    type Kept = Kept;

    fn locks(&self) -> &Coord {
        &self.control().locks
    }

    fn holder<'a>(&'a self, caller: &'a Caller) -> Result<&'a Session, Refusal> {
        caller.session()
    }

    fn keep(&self, session: &Session) -> Kept {
        self.outside().sessions.keep(session)
    }

    fn waits(&self) -> &Waits {
        &self.outside().waits
    }

    fn quota(&self) -> &Quota {
        &self.outside().quota
    }

    fn account(&self, session: &Session) -> Account {
        self.outside().sessions.account(session.id())
    }

    fn ttl(&self) -> Ttl {
        Ttl::new(self.control().loaded().settings.resource_lock_timeout.get()).unwrap_or(Ttl::DEFAULT)
    }

    /// It may have waited in a daemon that is gone.
    async fn give_up(&self, session: &Session, request: &RequestId) -> Result<(), Denied> {
        self.locks().give_up(session, request).await
    }
}

/// The locks of a prefix as they change: first `state`, all of them, unless the reader has seen them; then `changed`, one
/// for each key. A reader that comes back with the last `id` is told nothing if nothing has changed since, and else
/// `state` anew.
async fn watch(
    State(server): State<Server>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let query = Query::read(query.as_deref(), &["prefix", "after"])?;
    let prefix = query.text("prefix").unwrap_or_default().to_owned();
    let after = match headers.get("last-event-id") {
        Some(id) => Some(id.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(no_position)?),
        None => query.number("after")?,
    };
    let (streams, locks) = (server.streams().clone(), server.locks().clone());
    streams.open(|outlet| async move {
        match follow(&locks, &prefix, after, &outlet).await {
            Ok(never) => match never {},
            Err(Ended::Gone) => Err(Gone),
            Err(Ended::Store(denied)) => outlet.say("failed", None, &*Refusal::from(denied).answer).await,
        }
    })
}

fn no_position() -> Refusal {
    Refusal::invalid(
        "could not go on from Last-Event-ID: it is no position of this stream",
        "Send the last id that the stream gave, or none.",
    )
}

/// Why a reader is told nothing more.
enum Ended {
    Gone,
    Store(Denied),
}

impl From<Denied> for Ended {
    fn from(denied: Denied) -> Self {
        Self::Store(denied)
    }
}

impl From<Gone> for Ended {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

async fn follow(
    locks: &Coord,
    prefix: &str,
    seen: Option<u64>,
    outlet: &Outlet,
) -> Result<std::convert::Infallible, Ended> {
    if let Some(after) = seen {
        locks.changed(prefix, after).await?;
    }
    let (mut revision, mut known) = look(locks, prefix).await?;
    let all = ListAnswer {
        outcome: Outcome::Listed,
        more: known.len() >= LIST_MAX,
        locks: known.values().cloned().collect(),
    };
    outlet.say("state", Some(&revision.to_string()), &all).await?;
    drop(all);
    loop {
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            changed = locks.changed(prefix, revision) => changed?,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let (at, now) = look(locks, prefix).await?;
        for lock in changes(&known, &now) {
            outlet.say("changed", Some(&at.to_string()), &lock).await?;
        }
        (revision, known) = (at, now);
    }
}

/// The keys that are held or waited for, up to a page of them, and the revision before which nothing is missing.
async fn look(locks: &Coord, prefix: &str) -> Result<(u64, BTreeMap<Key, LockAnswer>), Denied> {
    let page = locks.list(prefix, None, LIST_MAX).await?;
    let found = page.locks.iter().map(|state| (state.key.clone(), answer::state(state))).collect();
    Ok((page.revision, found))
}

/// The keys whose holders or queue differ, as they are now.
fn changes(before: &BTreeMap<Key, LockAnswer>, now: &BTreeMap<Key, LockAnswer>) -> Vec<LockAnswer> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let freed =
        gone.map(|key| LockAnswer { waiting: Some(0), ..LockAnswer::new(Outcome::Free, Some(key.clone())) });
    let differs =
        |(key, lock): &(&Key, &LockAnswer)| before.get(*key).is_none_or(|old| marks(old) != marks(lock));
    freed.chain(now.iter().filter(differs).map(|(_, lock)| lock.clone())).collect()
}

/// What makes two states different: times alone do not.
fn marks(lock: &LockAnswer) -> (Vec<(&SessionId, Option<Fence>)>, Option<u64>) {
    (lock.holders().map(|(holder, fence)| (&holder.session, fence)).collect(), lock.waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_listed_no_more_has_become_free_and_time_alone_is_no_change() {
        let key = Key::parse("deploy://x").unwrap();
        let held = LockAnswer::new(Outcome::Held, Some(key.clone()));
        let before = BTreeMap::from([(key.clone(), held.clone())]);
        let told = changes(&before, &BTreeMap::new());
        assert_eq!(
            told.first().map(|lock| (lock.outcome, lock.key.as_ref())),
            Some((Outcome::Free, Some(&key)))
        );
        let later = BTreeMap::from([(key, LockAnswer { ttl_ms: Some(1), ..held })]);
        assert!(changes(&before, &later).is_empty());
    }
}
