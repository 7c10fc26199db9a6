//! What operators did: each act is written into the chain of `bell_core::audit` in the commit that carries it out, which
//! expects the end of the chain to be where it was seen, so that any number of nodes write one chain.
//!
//! What is no commit of ours (a daemon that stops, a login, a job that was queued together with others) is written right
//! after it. Nothing is ever removed: acts are made by people and by programs that people gave keys to, an entry is a few
//! hundred bytes, and a chain that may be cut is one whose cutting somebody must be believed about.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bell_core::audit::{Act, Break, Checking, Entry, Head, Way, Who, next};
use bell_core::key::Key;
use bell_store::clock::wall;
use bell_store::info::Limits;
use bell_store::{Error, Expect, Kind, Name, Outcome, Stamp, Txn, Version, Write};
use serde::Deserialize;

use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::load::decode;

const KIND: &str = "audit/";
const CHAIN: &str = "audit/chain/";
const HEAD: &str = "audit/head";
const BREAK: &str = "break";

/// Records that an act adds to what a commit expects, and to what it writes: the end of the chain and the entry.
pub(crate) const RECORDS: usize = 2;

/// How often somebody else's act may come first before an act gives up: operators are few.
const MAX_CONFLICTS: usize = 100;

/// How far from the end an act is looked for whose commit got no answer: acts that others made in the meantime.
const LOOK_BACK: u64 = 100;

/// An act, under a name of its own. It counts as done, since it is recorded with what it does.
pub fn act(who: &Who, act: &str, on: impl ToString) -> Act {
    Act {
        id: fresh::uuid().to_string(),
        who: who.clone(),
        act: act.to_owned(),
        on: on.to_string(),
        reason: String::new(),
        touches: Vec::new(),
        outcome: "done".to_owned(),
    }
}

/// Entries that are looked at for who broke a lock: a breaking is rare, and who needs more reads the log itself.
const BREAKINGS_MAX: u64 = 10_000;

/// That an operator took a lock from its holder.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Breaking {
    /// The key.
    pub key: String,
    /// Who did it.
    pub by: String,
    /// In whose words.
    pub reason: String,
    /// The sessions that held it.
    #[serde(default)]
    pub holders: Vec<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

impl From<Entry> for Breaking {
    fn from(entry: Entry) -> Self {
        let Entry { on, who, reason, touches, at_ms, .. } = entry;
        Self { key: on, by: who, reason, holders: touches, at_ms }
    }
}

/// Entries as they were found, by place; `None` for one that can't be read.
pub type Found = BTreeMap<u64, Option<Entry>>;

impl Coord {
    /// The same, in somebody's name: whatever it commits is on record as this act, in the same commit. What changes
    /// nothing leaves no record.
    #[must_use]
    pub fn acting(&self, act: Act) -> Self {
        Self { act: Some(Arc::new(act)), ..self.clone() }
    }

    /// The same, in nobody's name.
    pub(crate) fn in_nobodys_name(&self) -> Self {
        Self { act: None, ..self.clone() }
    }

    /// In whose name it commits.
    pub(crate) fn act(&self) -> Option<&Act> {
        self.act.as_deref()
    }

    /// Writes down what was done a moment ago.
    ///
    /// Dropped half-way, it is on record or not.
    ///
    /// # Errors
    /// If the store can't be reached. It was done all the same.
    pub async fn audit(&self, act: Act) -> Result<(), Denied> {
        let id = act.id.clone();
        let acting = self.acting(act);
        match acting.commit(Txn::default()).await {
            Ok(Outcome::Committed(_)) => Ok(()),
            Ok(Outcome::Conflict(_)) => Err(overtaken().into()),
            Err(error) if error.kind() == Kind::Unknown && self.find_act(&id).await?.is_some() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Commits, in the name of whoever acts. A conflict is one about what was asked for: that others act too is dealt
    /// with here.
    pub(crate) async fn commit(&self, txn: Txn) -> Result<Outcome, Error> {
        match self.act() {
            None => self.store().commit(txn).await,
            // In a box: nearly all commits are in nobody's name, and keep no room for this.
            Some(act) => Box::pin(self.commit_as(act, txn)).await,
        }
    }

    async fn commit_as(&self, act: &Act, txn: Txn) -> Result<Outcome, Error> {
        let mut is_taken = false;
        for _ in 0..MAX_CONFLICTS {
            let (head, version) = self.audit_head().await?;
            let head = head.unwrap_or_else(Head::none);
            let head = if is_taken { self.last_entry(head).await? } else { head };
            let at_ms = u64::try_from(wall().as_millis()).unwrap_or(u64::MAX);
            let entry = next(&head, act, at_ms);
            let name = self.entry_name(entry.number);
            let signed = self.signed(&txn, &entry, version)?;
            match self.store().commit(signed).await? {
                Outcome::Committed(committed) => {
                    let Entry { number, who, via, act, on, hash, .. } = &entry;
                    tracing::info!(number, who, %via, act, on, %hash, "an operator acted");
                    return Ok(Outcome::Committed(committed));
                }
                Outcome::Conflict(mut found) => {
                    is_taken = found.version(name.as_str()) != 0;
                    let head_stands = found.version(self.head_name().as_str()) == version;
                    let others_stand = txn.expectations_hold(|name| found.version(name.as_str()));
                    if !others_stand || (head_stands && !is_taken) {
                        found.records.remove(&name);
                        found.records.remove(&self.head_name());
                        return Ok(Outcome::Conflict(found));
                    }
                }
            }
        }
        Err(overtaken())
    }

    fn signed(&self, txn: &Txn, entry: &Entry, seen: Version) -> Result<Txn, Error> {
        let mut signed = txn.clone();
        let name = self.entry_name(entry.number);
        signed.expect.push((self.head_name(), Expect::seen(seen)));
        signed.expect.push((name.clone(), Expect::Absent));
        signed.writes.push((name, Write::Put(json(entry)?, Stamp::New)));
        signed.writes.push((self.head_name(), Write::Put(json(&entry.head())?, Stamp::New)));
        Ok(signed)
    }

    /// Where the chain ends if its record was lost, or points at what is not the end: the last entry is the end. Nothing
    /// that was written is overwritten, whatever somebody did to that record.
    async fn last_entry(&self, mut head: Head) -> Result<Head, Error> {
        loop {
            let (found, more) = self.entries(head.number + 1, Limits::CONTRACT.page).await?;
            if let Some((number, entry)) = found.last_key_value() {
                let hash = entry.as_ref().map_or(Head::none().hash, |entry| entry.hash.clone());
                head = Head { number: *number, hash };
            }
            if !more {
                return Ok(head);
            }
        }
    }

    async fn audit_head(&self) -> Result<(Option<Head>, Version), Error> {
        let name = self.head_name();
        let snapshot = self.store().read(std::slice::from_ref(&name)).await?;
        let head = snapshot.records.get(&name).map(|record| decode(&name, &record.value)).transpose()?;
        Ok((head, snapshot.version(name.as_str())))
    }

    /// The entry of an act that was made lately, and the revision of its commit.
    pub(crate) async fn find_act(&self, id: &str) -> Result<Option<(Entry, Version)>, Denied> {
        let end = self.audit_head().await?.0.map_or(0, |head| head.number);
        let first = end.saturating_sub(LOOK_BACK) + 1;
        let names: Vec<Name> = (first..=end).map(|number| self.entry_name(number)).collect();
        let snapshot = self.store().read(&names).await?;
        let entries = snapshot.records.values().filter_map(|record| {
            let entry: Entry = serde_json::from_slice(&record.value).ok()?;
            Some((entry, record.version))
        });
        Ok(entries.into_iter().find(|(entry, _)| entry.id == id))
    }

    /// Entries from this number on, at most `limit`, and whether there are more.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn audited(&self, from: u64, limit: usize) -> Result<(Found, bool), Denied> {
        Ok(self.entries(from, limit).await?)
    }

    /// The latest entries that were made at `since_ms` or later, at most `limit`, the latest last; and whether there are
    /// earlier ones.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn latest_acts(&self, since_ms: u64, limit: usize) -> Result<(Vec<Entry>, bool), Denied> {
        let head = self.audit_head().await?.0.unwrap_or_else(Head::none);
        let mut end = self.last_entry(head).await?.number;
        let mut latest = VecDeque::new();
        while end > 0 {
            let from = end.saturating_sub(Limits::CONTRACT.page as u64 - 1).max(1);
            let (found, _) = self.entries(from, Limits::CONTRACT.page).await?;
            for entry in found.into_values().rev().flatten().filter(|entry| entry.number <= end) {
                if entry.at_ms < since_ms || latest.len() >= limit {
                    return Ok((latest.into(), true));
                }
                latest.push_front(entry);
            }
            end = from - 1;
        }
        Ok((latest.into(), false))
    }

    async fn entries(&self, from: u64, limit: usize) -> Result<(Found, bool), Error> {
        let prefix = self.space().kind(CHAIN);
        let page = self.store().scan(&prefix, self.entry_name(from).as_str(), limit).await?;
        let entries = page.records.iter().filter_map(|(name, record)| {
            let number = u64::from_str_radix(name.as_str().strip_prefix(&prefix)?, 16).ok()?;
            Some((number, serde_json::from_slice(&record.value).ok()))
        });
        Ok((entries.collect(), page.more))
    }

    /// Reads the whole chain, and finds the first break in it. Others may go on acting meanwhile. Answers where it ends.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn audit_check(&self, remembered: Option<Head>) -> Result<Result<Head, Break>, Denied> {
        let mut checking = Checking::new(remembered);
        let mut at = 1;
        loop {
            // Before the entries: those that it speaks of are there by then.
            let Some(head) = self.readable_head().await? else { return Ok(Err(Break::NoHead)) };
            let end = head.as_ref().map_or(0, |head| head.number);
            while at <= end {
                let (found, _) = self.entries(at, Limits::CONTRACT.page).await?;
                let found: Found = found.into_iter().take_while(|(number, _)| *number <= end).collect();
                if found.is_empty() {
                    return Ok(Err(Break::Missing(at)));
                }
                for (number, entry) in &found {
                    if let Err(broken) = checking.take(*number, entry.as_ref()) {
                        return Ok(Err(broken));
                    }
                    at = number + 1;
                }
            }
            let (after, _) = self.entries(end + 1, 1).await?;
            let Some((stray, _)) = after.first_key_value() else {
                return Ok(checking.end(head.as_ref()));
            };
            // Somebody has just acted; then the head says so too.
            let (again, _) = self.audit_head().await?;
            match again {
                Some(again) if again.number >= *stray => {}
                Some(_) => return Ok(Err(Break::AfterTheEnd(*stray))),
                None => return Ok(Err(Break::NoHead)),
            }
        }
    }

    /// Where the chain is recorded to end, if anywhere; the outer `None` if that record can't be read.
    async fn readable_head(&self) -> Result<Option<Option<Head>>, Denied> {
        match self.audit_head().await {
            Ok((head, _)) => Ok(Some(head)),
            Err(error) if error.kind() == Kind::Corrupt => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What earlier versions wrote down of broken locks: in no chain, so nothing shows whether it was touched.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn audit_unchained(&self) -> Result<Vec<Breaking>, Denied> {
        let prefix = self.space().kind(KIND);
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let page = self.store().scan(&prefix, &from, Limits::CONTRACT.page).await?;
            let old = page.records.values().filter_map(|record| serde_json::from_slice(&record.value).ok());
            all.extend(old);
            // They are named by time and id in hexadecimal digits, and so stand before the chain.
            match page.records.keys().next_back() {
                Some(last) if page.more && !last.as_str().starts_with(&self.space().kind(CHAIN)) => {
                    from = format!("{last}\u{1}");
                }
                _ => return Ok(all),
            }
        }
    }

    /// Who took this key from its holder, the latest last.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn breakings(&self, key: &Key) -> Result<Vec<Breaking>, Denied> {
        let mut all = self.audit_unchained().await?;
        let end = self.audit_head().await?.0.map_or(0, |head| head.number);
        let mut at = end.saturating_sub(BREAKINGS_MAX) + 1;
        while at <= end {
            let (found, more) = self.entries(at, Limits::CONTRACT.page).await?;
            at = found.last_key_value().map_or(end, |(number, _)| *number) + 1;
            let entries = found.into_values().flatten().filter(|entry| entry.act == BREAK);
            all.extend(entries.map(Breaking::from));
            if !more {
                break;
            }
        }
        all.retain(|breaking| breaking.key == key.as_str());
        Ok(all)
    }

    /// The act in whose name a lock is broken, if nobody acts yet.
    pub(crate) fn breaking(&self, by: &str, key: &str) -> Act {
        let who = Who { name: by.to_owned(), via: Way::Cli };
        self.act().cloned().unwrap_or_else(|| act(&who, BREAK, key))
    }

    fn entry_name(&self, number: u64) -> Name {
        format!("{}{number:016x}", self.space().kind(CHAIN)).into()
    }

    fn head_name(&self) -> Name {
        self.space().kind(HEAD).into()
    }
}

fn json(record: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(record).map_err(|error| Error::new(Kind::Invalid, "encode a record").because(error))
}

fn overtaken() -> Error {
    Error::new(Kind::Unavailable, "record the act: other acts were faster a hundred times").hint("Try again.")
}
