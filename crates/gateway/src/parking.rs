//! Where a request that waits is put aside.
//!
//! Thousands may wait for a lock, each for up to a minute on a connection of its own. All that is needed meanwhile is the
//! stream and what is waited for. So a request that has to wait leaves its answer to come here and returns; the parser
//! with its buffers, the router and its layers go, and the connection makes a parser anew for the answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::Response;

/// An answer that is still to come. Dropped, nobody waits for it any more.
pub(crate) struct ToCome {
    answer: Pin<Box<dyn Future<Output = Response> + Send>>,
    change: Option<fn(&mut Response)>,
}

impl ToCome {
    /// The answer, as it goes out.
    pub(crate) async fn answer(&mut self) -> Response {
        let mut answer = self.answer.as_mut().await;
        if let Some(change) = self.change {
            change(&mut answer);
        }
        answer
    }
}

/// The place of one connection. A request that may use it carries it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Parking(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    to_come: Option<ToCome>,
    has_come: Option<Response>,
    /// Something that was answered before is still on its way out.
    is_stuck: bool,
}

impl Parking {
    /// Leaves an answer that is to come. What this returns takes its place on the way out, and reaches nobody.
    pub(crate) fn leave(&self, answer: impl Future<Output = Response> + Send + 'static) -> Response {
        self.lock().to_come = Some(ToCome { answer: Box::pin(answer), change: None });
        Response::default()
    }

    /// Has the answer that is to come changed on its way out, as those are that have come.
    pub(crate) fn change(&self, change: fn(&mut Response)) {
        if let Some(to_come) = &mut self.lock().to_come {
            to_come.change = Some(change);
        }
    }

    /// Whether an answer is to come.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().to_come.is_some()
    }

    /// The answer that is to come, once nothing else is on its way out.
    pub(crate) fn take(&self) -> Option<ToCome> {
        let mut place = self.lock();
        if place.is_stuck { None } else { place.to_come.take() }
    }

    /// The answer has come: the next request of the connection stands for the one that waited.
    pub(crate) fn has_come(&self, answer: Response) {
        self.lock().has_come = Some(answer);
    }

    /// The answer to the request that waited.
    pub(crate) fn answer(&self) -> Option<Response> {
        self.lock().has_come.take()
    }

    /// Whether the peer takes nothing of what it is sent.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.lock().is_stuck = is_stuck;
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
