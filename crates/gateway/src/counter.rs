//! Where requests for locks are answered: at the desk of a run, or by the daemon for programs outside of any run.
//!
//! The routes of locks are written once, for both. What differs is who asks, in which session its locks are held, and how
//! much it may have.

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use bell_coord::{Coord, Denied, Session};
use bell_core::lock::Ttl;
use bell_core::session::RequestId;

use crate::locks;
use crate::quota::{Account, Quota};
use crate::refusal::Refusal;
use crate::routes::wrong_method;
use crate::waits::Waits;

/// What the routes of locks act on.
pub(crate) trait Counter: Clone + Send + Sync + 'static {
    /// Who asks, proved.
    type Caller: Clone + Send + Sync + 'static;
    /// Keeps a session alive until dropped.
    type Kept: Send + 'static;

    /// Where locks are.
    fn locks(&self) -> &Coord;

    /// The session in which a caller takes locks.
    fn holder<'a>(&'a self, caller: &'a Self::Caller) -> Result<&'a Session, Refusal>;

    /// Keeps a session alive while its owner's connection is open and waits.
    fn keep(&self, session: &Session) -> Self::Kept;

    /// Requests that wait.
    fn waits(&self) -> &Waits;

    /// What sessions hold.
    fn quota(&self) -> &Quota;

    /// Who what a session holds counts for.
    fn account(&self, session: &Session) -> Account;

    /// How long a lock lasts if nobody says.
    fn ttl(&self) -> Ttl;

    /// Gives up a request of a session that nobody here knows of.
    fn give_up(
        &self,
        session: &Session,
        request: &RequestId,
    ) -> impl Future<Output = Result<(), Denied>> + Send;
}

/// The routes of locks.
pub(crate) fn routes<C: Counter>() -> Router<C> {
    let only = |route: MethodRouter<C>| route.fallback(wrong_method);
    Router::new()
        .route("/v1/locks", only(get(locks::list::<C>)))
        .route("/v1/locks/show", only(get(locks::show::<C>)))
        .route("/v1/locks/changes", only(get(locks::changes::<C>)))
        .route("/v1/locks/acquire", only(post(locks::acquire::<C>)))
        .route("/v1/locks/leave", only(post(locks::leave::<C>)))
        .route("/v1/locks/renew", only(post(locks::renew::<C>)))
        .route("/v1/locks/release", only(post(locks::release::<C>)))
}
