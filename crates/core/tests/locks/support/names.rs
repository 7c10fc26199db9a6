//! Short names for what every test needs.

use std::sync::LazyLock;
use std::time::Duration;

use bell_core::acquire::{Acquire, canonical_order};
use bell_core::key::Key;
use bell_core::lock::{Mode, Ttl};
use bell_core::session::{Identity, Proof, RequestId, Secret, Session, SessionId};
use bell_core::time::Timestamp;

/// The ttl of leases in tests, unless they say otherwise.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// Longer than any test lasts.
pub(crate) const LONG: Duration = Duration::from_secs(100_000);

pub(crate) fn key(name: &str) -> Key {
    Key::parse(&format!("test:{name}")).expect("a test's key is a key")
}

pub(crate) fn keys(names: &[&str]) -> Vec<Key> {
    canonical_order(names.iter().map(|name| key(name)).collect())
}

pub(crate) fn session(name: &str) -> SessionId {
    name.into()
}

pub(crate) fn request(name: &str) -> RequestId {
    name.into()
}

pub(crate) fn ttl(length: Duration) -> Ttl {
    Ttl::new(length).expect("a test's ttl is within bounds")
}

/// A session's record that ends at `expires`, or stands for itself.
pub(crate) fn new_session(name: &SessionId, expires: Option<Timestamp>) -> Session {
    static PROOF: LazyLock<Proof> = LazyLock::new(|| Secret::from_bytes([7; 32]).proof());
    let who = Identity { label: Some(name.to_string()), ..Identity::default() };
    Session::new(who, PROOF.clone(), expires)
}

/// Asks for keys exclusively, without waiting. The session must exist.
pub(crate) fn ask(who: &str, what: &str, names: &[&str]) -> Acquire {
    Acquire {
        session: session(who),
        request: request(what),
        keys: keys(names),
        mode: Mode::Exclusive,
        ttl: ttl(TTL),
        wait: Duration::ZERO,
        new_session: None,
        call: None,
    }
}
