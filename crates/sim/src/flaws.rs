//! Seeded flaws: each makes the fleet wrong in one known way, and must be caught by the invariant it breaks. A check that
//! can't fail proves nothing.

use bell_core::time::Timestamp;
use bell_store::{Expect, Name, Snapshot, Stamp, Txn, Write};

use crate::chance::Chance;

/// Something that is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Flaw {
    /// The store does not check what a commit expects of the pool.
    PoolUnguarded,
    /// The store answers that it has taken a job on, and has not.
    AcceptanceForgotten,
    /// Expiry is judged by each node's own wall clock.
    ExpiryByOwnClock,
    /// A reaper ends runs that live.
    EagerReaper,
    /// The end of a run leaves its session and locks as they are.
    EndWithoutRelease,
    /// The sink takes every write.
    BlindSink,
    /// A new grant gets the fence of the one before.
    FenceKept,
    /// Nobody sees that a tick was decided before.
    TickUnseen,
    /// The first in the queue is overlooked.
    FirstOverlooked,
    /// Nobody sees that a run has ended.
    EndUnseen,
    /// Nobody looks for retries that are due.
    RetryForgotten,
    /// A delivery that was seen before is not recognised.
    DeliveryUnseen,
}

impl Flaw {
    /// The invariant that must catch it.
    pub fn breaks(self) -> &'static str {
        match self {
            Self::PoolUnguarded => "caps_hold",
            Self::AcceptanceForgotten | Self::DeliveryUnseen => "accepted_is_never_lost",
            Self::ExpiryByOwnClock => "mutual_exclusion",
            Self::EagerReaper => "one_live_claim",
            Self::EndWithoutRelease => "locks_end_with_their_session",
            Self::BlindSink => "no_stale_write",
            Self::FenceKept => "fences_rise",
            Self::TickUnseen => "one_row_per_tick",
            Self::FirstOverlooked => "first_come_first_served",
            Self::EndUnseen => "runs_end_once",
            Self::RetryForgotten => "it_heals",
        }
    }
}

/// What a store with a flaw makes of a commit; `None`: it says that it has done it.
pub(crate) fn bend(flaw: Flaw, mut txn: Txn, chance: &Chance) -> Option<Txn> {
    let unguarded = |txn: &mut Txn, prefix: &str| txn.expect.retain(|(name, _)| !starts(name, prefix));
    match flaw {
        Flaw::PoolUnguarded => unguarded(&mut txn, "work/pool"),
        Flaw::TickUnseen => unguarded(&mut txn, "fire/"),
        Flaw::DeliveryUnseen => unguarded(&mut txn, "once/"),
        Flaw::FirstOverlooked => unguarded(&mut txn, "ticket/"),
        Flaw::AcceptanceForgotten => {
            let accepts = txn.written().any(|name| starts(name, "payload/"));
            let is_new =
                txn.expect.iter().any(|(name, seen)| starts(name, "job/") && *seen == Expect::Absent);
            if accepts && is_new && chance.one_in(3) {
                return None;
            }
        }
        Flaw::EndWithoutRelease if txn.written().any(|name| starts(name, "history/")) => {
            let kept = |name: &Name| ["lock/", "held/", "session/"].iter().any(|kind| starts(name, kind));
            txn.writes.retain(|(name, _)| !kept(name));
        }
        Flaw::FenceKept => {
            for (name, write) in &mut txn.writes {
                if let Write::Put(_, stamp) = write
                    && starts(name, "lock/")
                {
                    *stamp = Stamp::Keep;
                }
            }
        }
        _ => {}
    }
    Some(txn)
}

/// What a store with a flaw shows.
pub(crate) fn blur(flaw: Flaw, snapshot: &mut Snapshot) {
    match flaw {
        Flaw::TickUnseen => snapshot.records.retain(|name, _| !starts(name, "fire/")),
        Flaw::DeliveryUnseen => snapshot.records.retain(|name, _| !starts(name, "once/")),
        Flaw::RetryForgotten => snapshot.records.retain(|name, _| !starts(name, "delay/")),
        Flaw::FirstOverlooked => {
            let tickets = || snapshot.records.keys().filter(|name| starts(name, "ticket/"));
            if let (Some(first), 2..) = (tickets().next().cloned(), tickets().count()) {
                snapshot.records.remove(&first);
            }
        }
        Flaw::EndUnseen => {
            for (_, record) in snapshot.records.iter_mut().filter(|(name, _)| starts(name, "run/")) {
                if let Ok(mut run) = serde_json::from_slice::<serde_json::Value>(&record.value)
                    && run.as_object_mut().and_then(|run| run.remove("ended")).is_some()
                {
                    record.value = run.to_string().into_bytes();
                }
            }
        }
        _ => {}
    }
}

/// The store's time as somebody sees it whose clock is off, and back.
pub(crate) fn shift(now: Timestamp, by_ms: i64) -> Timestamp {
    Timestamp::from_ms(now.as_ms().saturating_add_signed(by_ms))
}

fn starts(name: &Name, prefix: &str) -> bool {
    name.as_str().starts_with(prefix)
}
