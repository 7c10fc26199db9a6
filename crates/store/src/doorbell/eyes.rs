//! Looking, where the kernel can't tell: at every bell and every presence file, again and again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Bell;
use super::ears::Ears;
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

/// How a kernel that could not tell is asked again.
pub(super) struct Asking<'a> {
    pub(super) looks_between: u32,
    pub(super) ask: &'a dyn Fn() -> io::Result<Ears>,
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
            self.tell(on_ring);
        }
    }

    /// Looks until the kernel can tell. None if it was told to stop before.
    pub(super) fn look_until_told(
        mut self,
        stop: &Stop,
        interval: Duration,
        on_ring: &dyn Fn(Ring),
        asking: Asking<'_>,
    ) -> Option<Ears> {
        let mut looks = 0;
        while let Ok(Woken::TimedOut | Woken::Ready) = stop.wait(None, Some(interval)) {
            looks += 1;
            let mut told = None;
            if looks >= asking.looks_between {
                looks = 0;
                told = (asking.ask)().ok();
            }
            // After asking: what happens from then on is heard, and what happened before is seen now.
            self.tell(on_ring);
            if let Some(ears) = told {
                return Some(ears.expecting(self.sessions.into_keys()));
            }
        }
        None
    }

    fn tell(&mut self, on_ring: &dyn Fn(Ring)) {
        if self.has_changed() {
            on_ring(Ring::Changed);
        }
        if self.has_died() {
            on_ring(Ring::Died);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn a_kernel_that_had_no_instance_left_is_asked_again_and_heard_once_it_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let (place, other) = (Place::open(folder.path()).unwrap(), Place::open(folder.path()).unwrap());
        let stop = Stop::new().unwrap();
        let (asked, rings) = (Cell::new(0), Cell::new(0));
        let on_ring = |_| rings.set(rings.get() + 1);
        let ask = || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 {
                return Err(io::ErrorKind::Other.into());
            }
            // Between the look before and the first time that anybody listens.
            other.bell.ring()?;
            Ears::open(&place)
        };
        let asking = Asking { looks_between: 2, ask: &ask };
        let told = Eyes::open(&place).look_until_told(&stop, MOMENT, &on_ring, asking);
        assert_eq!((asked.get(), rings.get()), (3, 1), "what nobody could hear was seen");

        other.bell.ring().unwrap();
        let ends = |_| {
            on_ring(Ring::Changed);
            stop.stop();
        };
        told.unwrap().listen(&stop, &ends);
        assert_eq!(rings.get(), 2);
    }

    #[test]
    fn whoever_is_told_to_stop_asks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path()).unwrap();
        let stop = Stop::new().unwrap();
        stop.stop();
        let asking = Asking { looks_between: 1, ask: &|| panic!("asked") };
        assert!(Eyes::open(&place).look_until_told(&stop, MOMENT, &|_| {}, asking).is_none());
    }
}
