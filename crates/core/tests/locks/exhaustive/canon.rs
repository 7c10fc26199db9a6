//! A state as bytes that are equal for states that can't be told apart: times as distances from now,
//! fences as ranks, requests by whose they are, actors by what they do.

use bell_core::key::Key;
use bell_core::lock::{Fence, Lock, Mode};
use bell_core::session::{RequestId, SessionId};
use bell_core::time::Timestamp;

use super::node::{ACTORS, Actor, KEYS, Node, TICK};
use crate::support::op::Op;

/// Further away than time can pass in a search.
const NEVER: u8 = u8::MAX;

/// Actors in the order in which they are written.
type Order = [usize; ACTORS];

impl Node {
    /// The first two actors are alike: a state and the one with them exchanged are one.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        self.bytes([0, 1, 2]).min(self.bytes([1, 0, 2]))
    }

    fn bytes(&self, order: Order) -> Vec<u8> {
        let mut bytes = vec![self.ticks, self.crashes];
        for (k, key) in KEYS.iter().enumerate() {
            self.write_lock(key, k, order, &mut bytes);
        }
        for n in order {
            let actor = &self.actors[n];
            self.write_session(actor, &mut bytes);
            bytes.push(actor.waits.as_ref().map_or(0, |waits| keys_mask(&waits.keys)));
            write_pending(self, actor, &mut bytes);
        }
        bytes
    }

    fn write_lock(&self, key: &Key, k: usize, order: Order, bytes: &mut Vec<u8>) {
        const NOBODY: &Lock = &Lock { holders: Vec::new(), queue: Vec::new() };
        let lock = self.world.lock(key).unwrap_or(NOBODY);
        let ranks = self.fences(lock, k);
        let rank = |fence: Option<Fence>| fence.and_then(|f| ranks.iter().position(|other| *other == f));
        bytes.push(lock.holders.len() as u8);
        for holder in &lock.holders {
            bytes.extend([
                self.number(&holder.session, order),
                mode(holder.mode),
                self.ticks_until(holder.expires),
            ]);
            bytes.push(rank(holder.fence).map_or(NEVER, |rank| rank as u8));
            bytes.push(self.is_current(&holder.session, &holder.request));
        }
        bytes.push(lock.queue.len() as u8);
        for waiter in &lock.queue {
            bytes.extend([
                self.number(&waiter.session, order),
                mode(waiter.mode),
                self.ticks_until(waiter.until),
            ]);
            bytes.extend([keys_mask(&waiter.keys), self.is_current(&waiter.session, &waiter.request)]);
        }
        for n in order {
            bytes.push(rank(self.actors[n].leases[k]).map_or(NEVER, |rank| rank as u8));
        }
    }

    fn write_session(&self, actor: &Actor, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.world.gone.contains(&actor.id)));
        match self.world.session(&actor.id) {
            Some(session) => {
                bytes.push(session.expires.map_or(NEVER, |ends| self.ticks_until(ends)));
                bytes.push(session.waits.len() as u8);
            }
            None => bytes.extend([0, 0]),
        }
    }

    /// Every fence of a key that anybody still knows, in order.
    fn fences(&self, lock: &Lock, k: usize) -> Vec<Fence> {
        let stored = lock.holders.iter().filter_map(|holder| holder.fence);
        let believed = self.actors.iter().filter_map(|actor| actor.leases[k]);
        let mut fences: Vec<Fence> = stored.chain(believed).collect();
        fences.sort();
        fences.dedup();
        fences
    }

    fn number(&self, id: &SessionId, order: Order) -> u8 {
        order.iter().position(|n| self.actors[*n].id == *id).map_or(NEVER, |n| n as u8)
    }

    fn is_current(&self, id: &SessionId, request: &RequestId) -> u8 {
        let mut owner = self.actors.iter().filter(|actor| actor.id == *id);
        u8::from(owner.any(|actor| actor.waits.as_ref().is_some_and(|waits| waits.request == *request)))
    }

    fn ticks_until(&self, moment: Timestamp) -> u8 {
        let left = moment.since(self.world.now).as_millis().div_ceil(TICK.as_millis());
        u8::try_from(left).unwrap_or(NEVER).min(self.ticks + 1)
    }
}

fn write_pending(node: &Node, actor: &Actor, bytes: &mut Vec<u8>) {
    let Some(decision) = &actor.pending else {
        bytes.push(0);
        return;
    };
    let (kind, keys) = match &decision.op {
        Op::Acquire(ask) => (1 + ask.wait.as_secs().min(7) as u8, ask.keys.clone()),
        Op::Renew { lease, .. } => (10, vec![lease.key.clone()]),
        Op::Release(lease) => (11, vec![lease.key.clone()]),
        Op::LookAfter(waits) => (12, waits.keys.clone()),
        Op::Leave(waits) => (13, waits.keys.clone()),
        Op::Serve(_) | Op::Heartbeat { .. } | Op::End { .. } | Op::Break(_) => (14, Vec::new()),
    };
    // Who was known to be dead when it was decided changes what it stores.
    bytes.extend([kind, keys_mask(&keys), decision.gone.len() as u8]);
    bytes.push(u8::from(node.world.stands(decision)));
}

fn keys_mask(keys: &[Key]) -> u8 {
    u8::from(keys.contains(&KEYS[0])) + 2 * u8::from(keys.contains(&KEYS[1]))
}

fn mode(mode: Mode) -> u8 {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
    }
}
