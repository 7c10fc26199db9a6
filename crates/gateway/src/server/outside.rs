//! What the daemon has for programs outside of any run.

use bell_coord::Coord;
use tokio_util::sync::CancellationToken;

use super::outsiders::Outsiders;
use super::stream::Streams;
use crate::limits::{HELD_PER_KEY_MAX, SERVER_CONNECTIONS_MAX, SERVER_WAITS_MAX};
use crate::quota::Quota;
use crate::waits::{AtEnd, Waits};

/// Sessions, what they hold, what they wait for.
pub(crate) struct Outside {
    pub(crate) sessions: Outsiders,
    pub(crate) waits: Waits,
    pub(crate) quota: Quota,
    /// Connections that keep sessions alive.
    pub(crate) holds: Streams,
}

impl Outside {
    /// On the store of locks, until `stopping`.
    pub(crate) fn new(locks: Coord, stopping: CancellationToken) -> Self {
        let quota = Quota::new(HELD_PER_KEY_MAX);
        Self {
            sessions: Outsiders::new(locks, quota.clone(), stopping.clone()),
            waits: Waits::new(stopping.clone(), AtEnd::Stand, SERVER_WAITS_MAX),
            quota,
            holds: Streams::with_places(SERVER_CONNECTIONS_MAX, stopping),
        }
    }
}
