//! What a connection lends to each of its requests.

use crate::parking::Parking;
use crate::patience::Patience;
use crate::serve::Peer;

/// One request's share of its connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Visit {
    /// Where it comes from.
    pub(crate) peer: Peer,
    /// Where it may be put aside while it waits.
    pub(crate) parking: Option<Parking>,
    /// What measures its time.
    pub(crate) patience: Patience,
}
