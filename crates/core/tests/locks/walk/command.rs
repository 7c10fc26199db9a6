//! What may happen next.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) const SESSIONS: usize = 4;
pub(crate) const KEYS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Acquire { session: usize, keys: Vec<usize>, shared: bool, wait_ms: u64, ttl_ms: u64 },
    CallAgain { session: usize, wait_ms: u64 },
    Renew { session: usize, key: usize, which: Which },
    Release { session: usize, key: usize, which: Which },
    Leave { session: usize },
    Pass { ms: u64 },
    Heartbeat { session: usize },
    Crash { session: usize },
    End { session: usize, lists_leases: bool },
    Break { key: usize },
    Reborn { session: usize },
}

/// Which lease a renewal or release means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Whatever,
    Newest,
    Older,
}

pub(crate) fn commands() -> impl Strategy<Value = Vec<Command>> {
    vec(command(), 1..60)
}

fn command() -> impl Strategy<Value = Command> {
    let session = 0..SESSIONS;
    let key = 0..KEYS;
    let which = || select(vec![Which::Whatever, Which::Newest, Which::Older]);
    let wait = || select(vec![0, 2_000, 500_000, 500_000, 500_000]);
    let ttl = select(vec![5_000, 30_000, 300_000]);
    let one = key.clone().prop_map(|key| vec![key]);
    let some = proptest::sample::subsequence((0..KEYS).collect::<Vec<_>>(), 1..=3);
    let keys = prop_oneof![3 => one, 2 => some];
    prop_oneof![
        14 => (session.clone(), keys, proptest::bool::weighted(0.35), wait(), ttl).prop_map(
            |(session, keys, shared, wait_ms, ttl_ms)| Command::Acquire { session, keys, shared, wait_ms, ttl_ms }
        ),
        3 => (session.clone(), select(vec![2_000, 500_000]))
            .prop_map(|(session, wait_ms)| Command::CallAgain { session, wait_ms }),
        3 => (session.clone(), key.clone(), which())
            .prop_map(|(session, key, which)| Command::Renew { session, key, which }),
        6 => (session.clone(), key.clone(), which())
            .prop_map(|(session, key, which)| Command::Release { session, key, which }),
        2 => session.clone().prop_map(|session| Command::Leave { session }),
        3 => select(vec![100, 1_000, 4_000, 8_000, 20_000]).prop_map(|ms| Command::Pass { ms }),
        2 => session.clone().prop_map(|session| Command::Heartbeat { session }),
        1 => session.clone().prop_map(|session| Command::Crash { session }),
        1 => (session.clone(), any::<bool>())
            .prop_map(|(session, lists_leases)| Command::End { session, lists_leases }),
        1 => key.prop_map(|key| Command::Break { key }),
        2 => session.prop_map(|session| Command::Reborn { session }),
    ]
}
