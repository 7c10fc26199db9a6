//! What guarded writes go to: it takes a write if no later holder of the key has written, and remembers its fence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;

use crate::flaws::Flaw;
use crate::journal::Event;
use crate::process::Process;
use crate::world::World;

/// A sink with a guard.
pub struct Sink {
    highest: Mutex<BTreeMap<Key, Fence>>,
    is_blind: bool,
}

impl Sink {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self { highest: Mutex::default(), is_blind: flaw == Some(Flaw::BlindSink) }
    }

    fn takes(&self, key: &Key, fence: Fence) -> bool {
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = highest.entry(key.clone()).or_insert(fence);
        let takes = *known <= fence || self.is_blind;
        *known = fence.max(*known);
        takes
    }
}

/// Sends a write to the sink. It arrives after a while, whatever becomes of who sent it.
pub(crate) fn send(world: &Arc<World>, from: &Arc<Process>, key: Key, fence: Fence, after: Duration) {
    let (world, from) = (Arc::clone(world), Arc::clone(from));
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        if world.sink.takes(&key, fence) {
            world.server.happened(&from, &Event::Wrote { key, fence });
        } else {
            world.server.note("stale write refused", || {
                format!("{}: the sink refused fence {fence} on {key}", from.name)
            });
        }
    });
}
