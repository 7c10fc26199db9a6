//! What operators did, as a chain: each entry carries the hash of the one before it and its own, and a record of its own
//! says where the chain ends. Whoever changes, removes, inserts or moves an entry breaks it, and so does whoever cuts off
//! its end without rewriting that record.
//!
//! A chain shows that nobody touched a part of it. It can't show that nobody wrote all of it anew: for that, somebody
//! elsewhere must remember a hash (`bell audit verify` prints the last one, and takes one to compare with).

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the hash of every entry begins with, so that it is the hash of nothing else.
const DOMAIN: &[u8] = b"bell-audit-1";

/// The way by which somebody acted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The command line, on the store itself.
    Cli,
    /// The daemon's port.
    Http,
    /// The daemon's socket.
    Socket,
    /// A tool of a model.
    Mcp,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cli => "cli",
            Self::Http => "http",
            Self::Socket => "socket",
            Self::Mcp => "mcp",
        })
    }
}

/// Who acts, and how they came in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Who {
    /// In words, as in `key laptop` or `local user ann`.
    pub name: String,
    /// The way.
    pub via: Way,
}

/// Something that an operator does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Act {
    /// A name of its own, so that one whose commit got no answer is found again.
    pub id: String,
    /// Who does it.
    pub who: Who,
    /// What, in one word: `pause`, `kill`, `break`.
    pub act: String,
    /// On what: a run, an agent, a key.
    pub on: String,
    /// Why, in their words, and what else belongs to it.
    pub reason: String,
    /// Whom else it touches: the sessions that held a lock that is broken.
    pub touches: Vec<String>,
    /// What came of it, in one word.
    pub outcome: String,
}

impl Act {
    /// The same, for this reason.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The same, with what came of it.
    #[must_use]
    pub fn ended(self, outcome: impl Into<String>) -> Self {
        Self { outcome: outcome.into(), ..self }
    }
}

/// The hash of an entry, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(String);

impl Hash {
    /// What the first entry has as the hash of the one before it.
    pub fn none() -> Self {
        Self("0".repeat(64))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One act, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its place in the chain, from 1.
    pub number: u64,
    /// A name of its own.
    pub id: String,
    /// When, in milliseconds since 1970, by the clock of the machine that carried it out.
    pub at_ms: u64,
    /// Who did it.
    pub who: String,
    /// How they came in.
    pub via: Way,
    /// What, in one word.
    pub act: String,
    /// On what.
    pub on: String,
    /// Why, in their words.
    pub reason: String,
    /// Whom else it touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
    /// What came of it, in one word.
    pub outcome: String,
    /// The hash of the entry before.
    pub before: Hash,
    /// The hash of this one.
    pub hash: Hash,
}

impl Entry {
    /// What its hash must be.
    fn own_hash(&self) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        let (number, at) = (self.number.to_string(), self.at_ms.to_string());
        let via = self.via.to_string();
        let before = self.before.as_str();
        let (id, act, on) = (&self.id, &self.act, &self.on);
        let fixed = [before, &number, id, &at, &self.who, &via, act, on, &self.reason, &self.outcome];
        // Each with its length, so that no text can be moved from one field into the next. The one of which there can be
        // several comes last.
        for field in fixed.into_iter().chain(self.touches.iter().map(String::as_str)) {
            hasher.update((field.len() as u64).to_be_bytes());
            hasher.update(field.as_bytes());
        }
        Hash(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Where a chain ends that ends with this.
    pub fn head(&self) -> Head {
        Head { number: self.number, hash: self.hash.clone() }
    }
}

/// Where the chain ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// How many entries there are.
    pub number: u64,
    /// The hash of the last one.
    pub hash: Hash,
}

impl Head {
    /// The end of a chain without entries.
    pub fn none() -> Self {
        Self { number: 0, hash: Hash::none() }
    }
}

/// The entry that follows.
pub fn next(head: &Head, act: &Act, at_ms: u64) -> Entry {
    let mut entry = Entry {
        number: head.number + 1,
        id: act.id.clone(),
        at_ms,
        who: act.who.name.clone(),
        via: act.who.via,
        act: act.act.clone(),
        on: act.on.clone(),
        reason: act.reason.clone(),
        touches: act.touches.clone(),
        outcome: act.outcome.clone(),
        before: head.hash.clone(),
        hash: Hash::none(),
    };
    entry.hash = entry.own_hash();
    entry
}

/// Where a chain is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Break {
    /// There is no entry of this number, though later ones or the head say that there was.
    Missing(u64),
    /// There are entries, and nothing says where they end.
    NoHead,
    /// Another entry stands in the place of one.
    Moved {
        /// Which should be here.
        wanted: u64,
        /// Which is.
        found: u64,
    },
    /// What an entry says is not what its hash was made of.
    Changed(u64),
    /// An entry does not follow the one before it.
    Unlinked(u64),
    /// An entry can't be read.
    Unreadable(u64),
    /// An entry stands after the one that the chain ends with.
    AfterTheEnd(u64),
    /// The last entry is not the one that the chain ends with.
    OtherEnd(u64),
    /// Whoever remembers the hash of this entry remembers another.
    NotRemembered(u64),
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(number) => write!(f, "entry {number} is missing"),
            Self::NoHead => f.write_str("there are entries, and no record of where they end"),
            Self::Moved { wanted, found } => write!(f, "entry {found} stands in the place of entry {wanted}"),
            Self::Changed(number) => {
                write!(f, "entry {number} was changed: what it says is not what its hash was made of")
            }
            Self::Unlinked(number) => write!(f, "entry {number} does not follow the one before it"),
            Self::Unreadable(number) => write!(f, "entry {number} can't be read"),
            Self::AfterTheEnd(number) => {
                write!(f, "entry {number} stands after the recorded end of the chain")
            }
            Self::OtherEnd(number) => {
                write!(f, "entry {number} is the last, and the chain is recorded to end otherwise")
            }
            Self::NotRemembered(number) => {
                write!(f, "entry {number} is not the one whose hash is remembered")
            }
        }
    }
}

impl std::error::Error for Break {}

/// Reads a chain from its beginning and finds the first break in it.
#[derive(Clone, Debug)]
pub struct Checking {
    end: Head,
    remembered: Option<Head>,
}

impl Default for Checking {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Checking {
    /// Begins, with what somebody elsewhere remembers of it.
    pub fn new(remembered: Option<Head>) -> Self {
        Self { end: Head::none(), remembered }
    }

    /// Takes the entry that was found in the place of `place`; `None` if it can't be read.
    ///
    /// # Errors
    /// The break between it and those before.
    pub fn take(&mut self, place: u64, entry: Option<&Entry>) -> Result<(), Break> {
        let wanted = self.end.number + 1;
        if place != wanted {
            return Err(Break::Missing(wanted));
        }
        let entry = entry.ok_or(Break::Unreadable(wanted))?;
        if entry.number != wanted {
            return Err(Break::Moved { wanted, found: entry.number });
        }
        if entry.own_hash() != entry.hash {
            return Err(Break::Changed(wanted));
        }
        if entry.before != self.end.hash {
            return Err(Break::Unlinked(wanted));
        }
        self.end = entry.head();
        match &self.remembered {
            Some(remembered) if remembered.number == wanted && *remembered != self.end => {
                Err(Break::NotRemembered(wanted))
            }
            _ => Ok(()),
        }
    }

    /// Compares what was read with where the chain is recorded to end.
    ///
    /// # Errors
    /// The break at its end.
    pub fn end(self, head: Option<&Head>) -> Result<Head, Break> {
        let number = self.end.number;
        match head {
            None if number > 0 => return Err(Break::NoHead),
            Some(head) if head.number > number => return Err(Break::Missing(number + 1)),
            Some(head) if head.number < number => return Err(Break::AfterTheEnd(head.number + 1)),
            Some(head) if *head != self.end => return Err(Break::OtherEnd(number)),
            Some(_) | None => {}
        }
        match self.remembered {
            Some(remembered) if remembered.number > number => Err(Break::Missing(number + 1)),
            _ => Ok(self.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn act(number: u64) -> Act {
        Act {
            id: format!("id-{number}"),
            who: Who { name: "key laptop".to_owned(), via: Way::Http },
            act: "pause".to_owned(),
            on: format!("agent-{number}"),
            reason: "deploying".to_owned(),
            touches: Vec::new(),
            outcome: "done".to_owned(),
        }
    }

    fn chain(length: u64) -> (Vec<Entry>, Head) {
        let (mut entries, mut head) = (Vec::new(), Head::none());
        for number in 1..=length {
            let entry = next(&head, &act(number), 1_000 + number);
            head = entry.head();
            entries.push(entry);
        }
        (entries, head)
    }

    /// As a store would hold it: by number of place.
    fn check(entries: &[(u64, Entry)], head: Option<&Head>) -> Result<Head, Break> {
        let mut checking = Checking::default();
        for (place, entry) in entries {
            checking.take(*place, Some(entry))?;
        }
        checking.end(head)
    }

    fn placed(entries: &[Entry]) -> Vec<(u64, Entry)> {
        entries.iter().map(|entry| (entry.number, entry.clone())).collect()
    }

    #[test]
    fn an_untouched_chain_holds_and_says_where_it_ends() {
        let (entries, head) = chain(5);
        assert_eq!(check(&placed(&entries), Some(&head)), Ok(head));
        assert_eq!(check(&[], None), Ok(Head::none()));
    }

    #[test]
    fn a_changed_entry_is_found() {
        let (mut entries, head) = chain(5);
        entries[2].reason = "another".to_owned();
        assert_eq!(check(&placed(&entries), Some(&head)), Err(Break::Changed(3)));
    }

    #[test]
    fn an_entry_that_was_changed_with_its_hash_does_not_lead_to_the_next() {
        let (mut entries, head) = chain(5);
        entries[2].reason = "another".to_owned();
        entries[2].hash = entries[2].own_hash();
        assert_eq!(check(&placed(&entries), Some(&head)), Err(Break::Unlinked(4)));
    }

    #[test]
    fn removed_inserted_and_moved_entries_are_found() {
        let (entries, head) = chain(5);
        let mut removed = placed(&entries);
        removed.remove(1);
        assert_eq!(check(&removed, Some(&head)), Err(Break::Missing(2)));

        let mut inserted = placed(&entries);
        inserted.push((6, next(&head, &act(6), 9)));
        assert_eq!(check(&inserted, Some(&head)), Err(Break::AfterTheEnd(6)));

        let mut moved = placed(&entries);
        let (third, fourth) = (moved[2].1.clone(), moved[3].1.clone());
        (moved[2].1, moved[3].1) = (fourth, third);
        assert_eq!(check(&moved, Some(&head)), Err(Break::Moved { wanted: 3, found: 4 }));
    }

    #[test]
    fn an_end_that_was_cut_off_is_found_by_the_head_and_then_by_whoever_remembers() {
        let (mut entries, head) = chain(5);
        entries.truncate(3);
        assert_eq!(check(&placed(&entries), Some(&head)), Err(Break::Missing(4)));
        assert_eq!(check(&placed(&entries), None), Err(Break::NoHead));
        // Cut off with a head to match, the chain looks whole to everybody but those who remember.
        let shorter = entries[2].head();
        assert_eq!(check(&placed(&entries), Some(&shorter)), Ok(shorter.clone()));
        let mut checking = Checking::new(Some(head));
        for entry in &entries {
            checking.take(entry.number, Some(entry)).unwrap();
        }
        assert_eq!(checking.end(Some(&shorter)), Err(Break::Missing(4)));
    }

    #[test]
    fn a_chain_that_was_written_anew_is_not_the_one_that_is_remembered() {
        let (entries, head) = chain(3);
        let mut checking = Checking::new(Some(Head { number: 3, hash: chain(4).1.hash }));
        let taken: Result<(), Break> =
            entries.iter().try_for_each(|entry| checking.take(entry.number, Some(entry)));
        assert_eq!(taken, Err(Break::NotRemembered(3)));
        assert_eq!(head.number, 3);
    }

    proptest! {
        /// Whatever text stands in it, a change of any field changes the hash.
        #[test]
        fn no_text_can_be_moved_from_one_field_into_the_next(on in ".{0,20}", reason in ".{1,20}") {
            let whole = Act { on: on.clone(), reason: reason.clone(), ..act(1) };
            let mut chars = reason.chars();
            let first: String = chars.by_ref().take(1).collect();
            let shifted = Act { on: on + &first, reason: chars.collect(), ..act(1) };
            let hash = |act: &Act| next(&Head::none(), act, 1).hash;
            prop_assert_ne!(hash(&whole), hash(&shifted));
        }
    }
}
