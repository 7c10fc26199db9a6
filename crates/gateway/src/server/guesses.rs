//! How often somebody may be wrong about a key.
//!
//! A key can't be guessed: it has 256 random bits. The limit is there so that nobody can try for long without anybody
//! noticing, and so that trying costs this server nothing. Each address may be wrong so often in a while, and all of them
//! together; whoever is over that is not looked at. A key that was right from the same address a while ago goes on
//! being looked at, so that nobody can shut others out by being wrong in their place; and the first key that an address
//! shows is always looked at, so that nobody elsewhere is shut out by many who are wrong together. Whoever comes by the
//! socket owns it, and is not counted.
//!
//! Time is an argument, on a clock that does not go back.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_coord::keys::{ApiKey, KeyName};
use bell_core::session::Proof;

use crate::serve::Peer;

/// Wrong keys that one address may show at once: a person who mixes keys up has a few.
const WRONG_MAX: u32 = 10;
/// After this long one more is forgiven: ten in a minute.
const FORGIVEN_EVERY: Duration = Duration::from_secs(6);
/// Wrong keys of all addresses together, and how long until one more is forgiven.
const WRONG_IN_ALL_MAX: u32 = 100;
const FORGIVEN_IN_ALL_EVERY: Duration = Duration::from_secs(1);
/// How long a right key is remembered.
const KNOWN_FOR: Duration = Duration::from_secs(3_600);
/// Addresses, and right keys by address, that are remembered: a few hundred bytes each.
const REMEMBERED_MAX: usize = 4_096;

/// What is known of those who ask.
#[derive(Default)]
pub(crate) struct Guesses(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    wrong: BTreeMap<IpAddr, Wrong>,
    in_all: Wrong,
    right: BTreeMap<(IpAddr, KeyName), (Proof, Duration)>,
    turns: BTreeMap<IpAddr, Arc<tokio::sync::Mutex<()>>>,
}

/// How often somebody was wrong, less what was forgiven by `at`.
#[derive(Clone, Copy, Default)]
struct Wrong {
    count: u32,
    at: Duration,
}

impl Wrong {
    fn forgive(&mut self, every: Duration, now: Duration) {
        let forgiven = now.saturating_sub(self.at).as_millis() / every.as_millis();
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        self.count = self.count.saturating_sub(forgiven);
        self.at = if self.count == 0 { now } else { self.at + every * forgiven };
    }
}

/// That somebody is over the limit, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany(pub(crate) Duration);

impl Guesses {
    /// Whether a key of this peer is to be looked at.
    pub(crate) fn check(&self, peer: Peer, key: Option<&ApiKey>, now: Duration) -> Result<(), TooMany> {
        let Some(address) = address(peer) else { return Ok(()) };
        let mut seen = self.seen();
        if key.is_some_and(|key| seen.knows(address, key, now)) {
            return Ok(());
        }
        seen.in_all.forgive(FORGIVEN_IN_ALL_EVERY, now);
        let in_all = seen.in_all.count;
        let Some(wrong) = seen.wrong.get_mut(&address) else { return Ok(()) };
        wrong.forgive(FORGIVEN_EVERY, now);
        let is_over = wrong.count >= WRONG_MAX || (wrong.count > 0 && in_all >= WRONG_IN_ALL_MAX);
        let wait = (wrong.at + FORGIVEN_EVERY).saturating_sub(now);
        if is_over { Err(TooMany(wait)) } else { Ok(()) }
    }

    /// Keys of one address that are not known are looked at one after the other, or many at once would all be looked at
    /// before the first was found to be wrong. `None`: this one need not wait.
    pub(crate) fn turn(
        &self,
        peer: Peer,
        key: Option<&ApiKey>,
        now: Duration,
    ) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let address = address(peer)?;
        let mut seen = self.seen();
        if key.is_some_and(|key| seen.knows(address, key, now)) {
            return None;
        }
        seen.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Some(Arc::clone(seen.turns.entry(address).or_default()))
    }

    /// Takes note of a wrong key.
    pub(crate) fn wrong(&self, peer: Peer, now: Duration) {
        let Some(address) = address(peer) else { return };
        let mut seen = self.seen();
        seen.in_all.forgive(FORGIVEN_IN_ALL_EVERY, now);
        seen.in_all.count = (seen.in_all.count + 1).min(WRONG_IN_ALL_MAX);
        if seen.wrong.len() >= REMEMBERED_MAX && !seen.wrong.contains_key(&address) {
            seen.wrong.retain(|_, wrong| {
                wrong.forgive(FORGIVEN_EVERY, now);
                wrong.count > 0
            });
            if seen.wrong.len() >= REMEMBERED_MAX {
                seen.wrong.pop_first();
            }
        }
        let wrong = seen.wrong.entry(address).or_insert(Wrong { count: 0, at: now });
        wrong.forgive(FORGIVEN_EVERY, now);
        wrong.count = (wrong.count + 1).min(WRONG_MAX);
    }

    /// Takes note of a right key.
    pub(crate) fn right(&self, peer: Peer, key: &ApiKey, now: Duration) {
        let Some(address) = address(peer) else { return };
        let mut seen = self.seen();
        if seen.right.len() >= REMEMBERED_MAX {
            seen.right.retain(|_, (_, at)| now.saturating_sub(*at) < KNOWN_FOR);
            if seen.right.len() >= REMEMBERED_MAX {
                seen.right.pop_first();
            }
        }
        seen.right.insert((address, key.name().clone()), (key.proof(), now));
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn knows(&self, address: IpAddr, key: &ApiKey, now: Duration) -> bool {
        let known = self.right.get(&(address, key.name().clone()));
        known.is_some_and(|(proof, at)| now.saturating_sub(*at) < KNOWN_FOR && key.is_proved_by(proof))
    }
}

/// Whom wrong keys are counted for. A machine with one address of IPv6 has a network of them.
fn address(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Socket => None,
        Peer::Port(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => {
            Some(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into())
        }
        Peer::Port(ip) => Some(ip.to_canonical()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn at(ip: &str) -> Peer {
        Peer::Port(ip.parse().unwrap())
    }

    fn key(digit: char) -> ApiKey {
        let secret = digit.to_string().repeat(64);
        ApiKey::parse(&format!("bell_ci_{secret}")).unwrap()
    }

    fn many(guesses: &Guesses, peer: Peer, count: usize) -> usize {
        let looked_at = |_: &usize| {
            let is_looked_at = guesses.check(peer, Some(&key('0')), NOW).is_ok();
            if is_looked_at {
                guesses.wrong(peer, NOW);
            }
            is_looked_at
        };
        (0..count).filter(looked_at).count()
    }

    #[test]
    fn of_a_thousand_guesses_ten_are_looked_at_and_nobody_else_is_shut_out() {
        let guesses = Guesses::default();
        assert_eq!(many(&guesses, at("192.0.2.1"), 1_000), 10);
        assert_eq!(guesses.check(at("192.0.2.1"), Some(&key('1')), NOW), Err(TooMany(FORGIVEN_EVERY)));
        assert!(guesses.check(at("192.0.2.2"), Some(&key('1')), NOW).is_ok());
        assert!(guesses.check(Peer::Socket, Some(&key('1')), NOW).is_ok());
    }

    #[test]
    fn one_more_is_forgiven_after_a_while() {
        let guesses = Guesses::default();
        let peer = at("192.0.2.1");
        many(&guesses, peer, 10);
        let later = NOW + FORGIVEN_EVERY;
        assert!(guesses.check(peer, None, later).is_ok());
        guesses.wrong(peer, later);
        assert!(guesses.check(peer, None, later).is_err());
        assert!(guesses.check(peer, None, later + 2 * FORGIVEN_EVERY).is_ok());
    }

    #[test]
    fn many_addresses_together_are_slowed_and_one_that_was_never_wrong_is_not() {
        let guesses = Guesses::default();
        for number in 0..100 {
            guesses.wrong(at(&format!("198.51.100.{number}")), NOW);
        }
        assert!(guesses.check(at("198.51.100.7"), Some(&key('1')), NOW).is_err());
        assert!(guesses.check(at("203.0.113.1"), Some(&key('1')), NOW).is_ok());
    }

    #[test]
    fn a_key_that_was_right_goes_on_counting_whoever_else_is_wrong_there() {
        let guesses = Guesses::default();
        let peer = at("127.0.0.1");
        guesses.right(peer, &key('1'), NOW);
        many(&guesses, peer, 1_000);
        assert!(guesses.check(peer, Some(&key('1')), NOW).is_ok());
        assert!(guesses.check(peer, Some(&key('2')), NOW).is_err());
        assert!(guesses.check(peer, Some(&key('1')), NOW + KNOWN_FOR).is_ok(), "all is forgiven by then");
    }

    #[test]
    fn a_network_of_addresses_counts_as_one() {
        let guesses = Guesses::default();
        for number in 0..20 {
            guesses.wrong(at(&format!("2001:db8::{number:x}")), NOW);
        }
        assert!(guesses.check(at("2001:db8::ffff"), None, NOW).is_err());
        assert!(guesses.check(at("2001:db8:0:1::1"), None, NOW).is_ok());
        assert_eq!(address(at("::ffff:192.0.2.1")), address(at("192.0.2.1")));
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let guesses = Guesses::default();
        for number in 0..2 * REMEMBERED_MAX as u32 {
            let ip = IpAddr::from(std::net::Ipv4Addr::from_bits(number));
            guesses.wrong(Peer::Port(ip), NOW);
            guesses.right(Peer::Port(ip), &key('1'), NOW);
        }
        let seen = guesses.seen();
        assert!(seen.wrong.len() <= REMEMBERED_MAX && seen.right.len() <= REMEMBERED_MAX);
    }
}
