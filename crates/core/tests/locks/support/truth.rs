//! What is true in a world, worked out as naively as possible and without the code under test.

use std::collections::{BTreeMap, BTreeSet};

use bell_core::key::Key;
use bell_core::lock::{Holder, Lock, Mode, Waiter};
use bell_core::session::SessionId;

use super::world::World;

/// `from` waits for `key`, and `to` stands in the way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Edge {
    pub(crate) from: SessionId,
    pub(crate) key: Key,
    pub(crate) to: SessionId,
}

impl World {
    pub(crate) fn is_alive(&self, id: &SessionId) -> bool {
        let live = self.session(id).is_some_and(|s| s.expires.is_none_or(|ends| self.now < ends));
        live && !self.gone.contains(id)
    }

    pub(crate) fn is_live_lease(&self, holder: &Holder) -> bool {
        self.now < holder.expires && self.is_alive(&holder.session)
    }

    pub(crate) fn is_live_waiter(&self, waiter: &Waiter) -> bool {
        self.now < waiter.until && self.is_alive(&waiter.session)
    }

    /// Who stands between the waiter at `place` and this key.
    pub(crate) fn in_the_way<'l>(&'l self, lock: &'l Lock, place: usize) -> Vec<&'l SessionId> {
        let waiter = &lock.queue[place];
        let enough = |mode: Mode| mode == Mode::Exclusive || waiter.mode == Mode::Shared;
        let own = |h: &&Holder| h.session == waiter.session && enough(h.mode) && self.is_live_lease(h);
        if lock.holders.iter().any(|holder| own(&holder)) {
            return Vec::new();
        }
        let clash = |session: &SessionId, mode: Mode| {
            *session != waiter.session && !(mode == Mode::Shared && waiter.mode == Mode::Shared)
        };
        let holders = lock.holders.iter().filter(|h| clash(&h.session, h.mode) && self.is_live_lease(h));
        let ahead = &lock.queue[..place];
        let earlier = ahead
            .iter()
            .position(|w| w.session == waiter.session && enough(w.mode) && self.is_live_waiter(w));
        let ahead = &ahead[..earlier.unwrap_or(place)];
        let ahead = ahead.iter().filter(|w| clash(&w.session, w.mode) && self.is_live_waiter(w));
        holders.map(|holder| &holder.session).chain(ahead.map(|waiter| &waiter.session)).collect()
    }

    /// The wait-for graph of those who live and wait.
    pub(crate) fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (key, stored) in &self.locks {
            let lock = &stored.1;
            for (place, waiter) in lock.queue.iter().enumerate() {
                if self.is_live_waiter(waiter) {
                    let edge = |to: &SessionId| Edge {
                        from: waiter.session.clone(),
                        key: key.clone(),
                        to: to.clone(),
                    };
                    edges.extend(self.in_the_way(lock, place).into_iter().map(edge));
                }
            }
        }
        edges
    }

    /// Sessions that wait, over however many others, for themselves.
    pub(crate) fn deadlocked(&self) -> BTreeSet<SessionId> {
        let mut reaches: BTreeMap<SessionId, BTreeSet<SessionId>> = BTreeMap::new();
        for edge in self.edges() {
            reaches.entry(edge.from).or_default().insert(edge.to);
        }
        // Whoever waits for nobody who waits is in no cycle.
        if reaches.len() < 2 {
            return BTreeSet::new();
        }
        loop {
            let mut grown = reaches.clone();
            for further in grown.values_mut() {
                let next: Vec<_> =
                    further.iter().filter_map(|id| reaches.get(id)).flatten().cloned().collect();
                further.extend(next);
            }
            if grown == reaches {
                let caught = reaches.into_iter().filter(|(from, to)| to.contains(from));
                return caught.map(|(from, _)| from).collect();
            }
            reaches = grown;
        }
    }

    /// Whether nothing keeps a request in a queue from being granted on all its keys.
    pub(crate) fn could_be_granted(&self, waiter: &Waiter) -> bool {
        let is_open = |lock: &Lock| {
            let place = lock.queue.iter().position(|other| other.is(&waiter.session, &waiter.request));
            place.is_none_or(|place| self.in_the_way(lock, place).is_empty())
        };
        self.is_live_waiter(waiter) && self.locks.values().all(|stored| is_open(&stored.1))
    }

    /// Those who wait for nothing.
    pub(crate) fn forgotten(&self) -> Vec<&Waiter> {
        let queues = self.locks.values().flat_map(|stored| &stored.1.queue);
        queues.filter(|waiter| self.could_be_granted(waiter)).collect()
    }
}
