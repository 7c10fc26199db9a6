//! Which record is where in the store.
//!
//! ```text
//! lock/<key>               who holds and who waits
//! session/<id>             a session, and its mailbox
//! held/<id>/<key>          that the session holds the key: for ending it without reading every lock
//! audit/chain/<number>     what operators did; audit/head: where that ends
//! apikey/<name>            what a key may do, and a hash of it
//! login/<id>               whose key a browser showed, and a hash of what it shows instead
//! work/pool                everything that runs
//! work/line/<agent>        an agent's queue: where it begins and ends
//! ticket/<agent>/<place>   a place in it
//! job/<id>, payload/<id>   a job, and what came with its trigger
//! run/<id>                 a try at a job
//! fire/<agent>/<when>      a tick of a schedule, the latest first
//! once/<what>              that something led to a job
//! delay/<when>/<job>       a job to be queued again
//! undone/<when>-<job>      a job that was not done, the latest first
//! history/<when>-<what>    what happened, the latest first
//! delivery/<when>-<source>/<id>  what was told from outside, the latest first
//! seen/<source>/<id>       when that was told for the first time
//! ```
//! A scope other than the root puts `@<scope>/` in front of all of them.

use std::ops::Deref;

use bell_core::key::Key;
use bell_core::session::SessionId;
use bell_core::work::Wall;
use bell_core::work::delivery::DeliveryKey;
use bell_core::work::row::RowId;
use bell_store::Name;

/// Bytes in a scope's path: with it, the longest prefix and the longest key still make a legal name.
pub const MAX_SCOPE_BYTES: usize = 256;

/// A part of a store that shares nothing with other parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    prefix: String,
}

/// A scope's path is no path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a scope is one or more words of letters, digits, '-', '_' and '.', joined by '/', in {MAX_SCOPE_BYTES} bytes"
)]
pub struct BadScope;

impl Space {
    /// The whole store's own space.
    pub fn root() -> Self {
        Self { prefix: String::new() }
    }

    /// The space `path` inside this one.
    ///
    /// # Errors
    /// If the path is empty, too long, or has characters that could be mistaken for a separator.
    pub fn scoped(&self, path: &str) -> Result<Self, BadScope> {
        let words_are_plain = path.split('/').all(|word| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !word.is_empty() && word.chars().all(plain)
        });
        let prefix = format!("{}@{path}/", self.prefix);
        if words_are_plain && prefix.len() <= MAX_SCOPE_BYTES { Ok(Self { prefix }) } else { Err(BadScope) }
    }

    pub(crate) fn lock(&self, key: &Key) -> Name {
        self.name(&["lock/", key.as_str()])
    }

    pub(crate) fn session(&self, id: &SessionId) -> Name {
        self.name(&["session/", id.as_str()])
    }

    pub(crate) fn held(&self, id: &SessionId, key: &Key) -> Name {
        self.name(&["held/", id.as_str(), "/", key.as_str()])
    }

    /// Made several times for each request, so in one piece and without a format.
    fn name(&self, parts: &[&str]) -> Name {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut name = String::with_capacity(self.prefix.len() + bytes);
        name.push_str(&self.prefix);
        name.extend(parts.iter().copied());
        name.into()
    }

    /// Where a record of the work is.
    pub(crate) fn row(&self, id: &RowId) -> Name {
        match id {
            RowId::Pool => self.name(&["work/pool"]),
            RowId::Line(agent) => self.name(&["work/line/", agent.as_str()]),
            RowId::Ticket(agent, place) => self.name(&["ticket/", agent.as_str(), "/", &Digits::of(*place)]),
            RowId::Job(job) => self.name(&["job/", job.as_str()]),
            RowId::Payload(job) => self.name(&["payload/", job.as_str()]),
            RowId::Run(run) => self.name(&["run/", run.as_str()]),
            RowId::Fire(agent, nominal) => {
                self.name(&["fire/", agent.as_str(), "/", &Digits::latest_first(*nominal)])
            }
            RowId::Once(what) => self.name(&["once/", what]),
            RowId::Delay(due, job) => self.name(&["delay/", &Digits::of(due.as_ms()), "/", job.as_str()]),
            RowId::Undone(at, job) => self.name(&["undone/", &Digits::latest_first(*at), "-", job.as_str()]),
            RowId::History(at, about) => self.name(&["history/", &Digits::latest_first(*at), "-", about]),
            RowId::Delivery(at, DeliveryKey { source, id }) => {
                self.name(&["delivery/", &Digits::latest_first(*at), "-", source, "/", id])
            }
            RowId::Seen(DeliveryKey { source, id }) => self.name(&["seen/", source, "/", id]),
        }
    }

    /// What records of one kind start with, as in `history/`.
    pub(crate) fn kind(&self, kind: &str) -> String {
        format!("{}{kind}", self.prefix)
    }

    pub(crate) fn locks(&self) -> String {
        format!("{}lock/", self.prefix)
    }

    pub(crate) fn sessions(&self) -> String {
        format!("{}session/", self.prefix)
    }

    pub(crate) fn held_of(&self, id: &SessionId) -> String {
        format!("{}held/{id}/", self.prefix)
    }
}

/// Names are in byte order, so what is to come first counts down.
pub(crate) fn latest_first(at: Wall) -> String {
    Digits::latest_first(at).to_owned()
}

/// A number as it stands in names: sixteen digits in hex, so that names are in the order of their numbers.
struct Digits([u8; 16]);

impl Digits {
    fn of(number: u64) -> Self {
        let digit = |place: usize| b"0123456789abcdef"[(number >> (60 - 4 * place) & 0xf) as usize];
        Self(std::array::from_fn(digit))
    }

    fn latest_first(at: Wall) -> Self {
        Self::of(u64::MAX - at.0)
    }
}

impl Deref for Digits {
    type Target = str;

    fn deref(&self) -> &str {
        // Digits are text.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The time that [`latest_first`] wrote.
pub(crate) fn time_of(text: &str) -> Option<Wall> {
    u64::from_str_radix(text.get(..16)?, 16).ok().map(|down| Wall(u64::MAX - down))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_work_are_where_they_always_were() {
        let space = Space::root().scoped("a").unwrap();
        let (agent, job) = ("clock".parse().unwrap(), bell_core::work::job::JobId::from("j-1"));
        let key = DeliveryKey { source: "hub".into(), id: "d/1".into() };
        let at = Wall(0x1_2345_6789_abcd);
        for (id, name) in [
            (RowId::Pool, "work/pool"),
            (RowId::Line(agent), "work/line/clock"),
            (RowId::Ticket("clock".parse().unwrap(), 0xfedc_ba98_7654_3210), "ticket/clock/fedcba9876543210"),
            (RowId::Payload(job.clone()), "payload/j-1"),
            (RowId::Fire("clock".parse().unwrap(), at), "fire/clock/fffedcba98765432"),
            (
                RowId::Delay(bell_core::time::Timestamp::from_ms(255), job.clone()),
                "delay/00000000000000ff/j-1",
            ),
            (RowId::Undone(at, job), "undone/fffedcba98765432-j-1"),
            (RowId::History(at, "x".to_owned()), "history/fffedcba98765432-x"),
            (RowId::Delivery(at, key.clone()), "delivery/fffedcba98765432-hub/d/1"),
            (RowId::Seen(key), "seen/hub/d/1"),
        ] {
            assert_eq!(space.row(&id).as_str(), format!("@a/{name}"));
        }
        assert_eq!(time_of(&latest_first(at)), Some(at));
    }

    #[test]
    fn a_scope_inside_a_scope_shares_no_prefix_with_its_neighbours() {
        let a = Space::root().scoped("a").unwrap();
        let ab = a.scoped("b").unwrap();
        let a_slash_b = Space::root().scoped("a/b").unwrap();
        assert_eq!(a.locks(), "@a/lock/");
        assert_eq!(ab.locks(), "@a/@b/lock/");
        assert_eq!(a_slash_b.locks(), "@a/b/lock/");
    }

    #[test]
    fn a_scope_that_could_escape_is_refused() {
        for path in ["", "/", "a//b", "a/", "@a", "a b", "ä", &"x".repeat(300)] {
            assert_eq!(Space::root().scoped(path), Err(BadScope), "{path:?}");
        }
    }
}
