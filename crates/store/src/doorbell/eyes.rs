//! Looking, where the kernel can't tell: at every bell and every presence file, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Bell;
use super::stop::{Stop, Woken};
use super::{Place, Ring};
use crate::presence::{KernelLocks, Sight};

/// What this process has seen so far.
pub(super) struct Eyes {
    bell: Arc<Bell>,
    presence: Arc<KernelLocks>,
    rung: BTreeMap<String, Vec<u8>>,
    sessions: BTreeMap<String, Sight>,
}

impl Eyes {
    /// Takes a first look, so that whatever happens from now on is seen as new.
    pub(super) fn open(place: &Place) -> Self {
        let (bell, presence) = (Arc::clone(&place.bell), Arc::clone(&place.presence));
        let mut eyes = Self { bell, presence, rung: BTreeMap::new(), sessions: BTreeMap::new() };
        eyes.has_changed();
        eyes.has_died();
        eyes
    }

    pub(super) fn look(mut self, stop: &Stop, interval: Duration, on_ring: &dyn Fn(Ring)) {
        while let Ok(Woken::TimedOut | Woken::Ready) = stop.wait(None, Some(interval)) {
            if self.has_changed() {
                on_ring(Ring::Changed);
            }
            if self.has_died() {
                on_ring(Ring::Died);
            }
        }
    }

    /// Whether another bell rang since the last look. One that came or went counts: it may have rung.
    fn has_changed(&mut self) -> bool {
        match self.bell.others() {
            Ok(others) => std::mem::replace(&mut self.rung, others) != self.rung,
            // Nothing can be seen, so nothing can be ruled out.
            Err(_) => true,
        }
    }

    /// Whether somebody has left since the last look, or has come and left in between.
    fn has_died(&mut self) -> bool {
        let names = self.presence.sessions().unwrap_or_default();
        let look = |name: String| {
            let seen = self.presence.look(&name);
            (name, seen)
        };
        let sessions = names.into_iter().map(look).collect();
        let before = std::mem::replace(&mut self.sessions, sessions);
        let newly_gone =
            |(name, seen): (&String, &Sight)| *seen == Sight::Gone && before.get(name) != Some(seen);
        let vanished =
            |(name, seen): (&String, &Sight)| *seen == Sight::Present && !self.sessions.contains_key(name);
        self.sessions.iter().any(newly_gone) || before.iter().any(vanished)
    }
}
