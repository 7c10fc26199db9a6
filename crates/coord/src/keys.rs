//! API keys: who may look at a fleet from outside of it, and who may steer it.
//!
//! A key is a name and a secret. The store keeps the name, what the key may do, and a hash of the secret, so every
//! node knows it and a key that is revoked is worth nothing anywhere. The text of a key is shown once, to whoever made it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bell_core::session::{Proof, Secret};
use bell_store::clock::{boottime, wall};
use bell_store::info::Limits;
use bell_store::{Expect, Name, Outcome, Stamp, Txn, Write};
use serde::{Deserialize, Serialize};

use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::transact::encode;

/// Characters in a key's name: a word or two.
const NAME_CHARS_MAX: usize = 32;
/// Keys of one fleet that count: one for each person and program, and then some.
pub const KEYS_MAX: usize = 1_000;
/// How long a key that was read is believed: one that is revoked is refused after this at the latest.
const FRESH: Duration = Duration::from_secs(1);
/// What the text of every key begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "bell_";
const KIND: &str = "apikey/";

/// What a key may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Read,
    /// Look and act.
    Full,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Full => "full",
        })
    }
}

/// What a key is called: letters, digits and hyphens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyName(String);

/// A name that no key can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a key's name has 1 to {NAME_CHARS_MAX} of a-z, 0-9 and -")]
pub struct BadKeyName;

impl KeyName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyName {
    type Err = BadKeyName;

    fn from_str(text: &str) -> Result<Self, BadKeyName> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = !text.is_empty() && text.len() <= NAME_CHARS_MAX;
        if fits && text.chars().all(is_plain) { Ok(Self(text.to_owned())) } else { Err(BadKeyName) }
    }
}

/// A key, as its owner has it. It can't be compared or printed.
#[derive(Clone, Debug)]
pub struct ApiKey {
    name: KeyName,
    secret: Secret,
}

impl ApiKey {
    /// What it is called.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// What it is known by again, without keeping it.
    pub fn proof(&self) -> Proof {
        self.secret.proof()
    }

    /// Whether it is the one that this was taken of.
    pub fn is_proved_by(&self, proof: &Proof) -> bool {
        proof.matches(&self.secret)
    }

    /// The text to hand over: never in an argument, a URL or a log.
    pub fn expose(&self) -> String {
        let secret: String = self.secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{}_{secret}", self.name)
    }

    /// Reads what [`Self::expose`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, secret) = text.trim().strip_prefix(PREFIX)?.split_once('_')?;
        let mut bytes = [0; 32];
        if secret.len() != 2 * bytes.len() || !secret.is_ascii() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(secret.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self { name: name.parse().ok()?, secret: Secret::from_bytes(bytes) })
    }
}

/// A key, as anybody who may look can see it.
#[derive(Clone, Debug)]
pub struct KnownKey {
    /// What it is called.
    pub name: KeyName,
    /// What it may do.
    pub role: Role,
    /// When it was made, in ms since 1970.
    pub made_ms: u64,
    /// When it was made worthless, if it was.
    pub revoked_ms: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    role: Role,
    proof: Proof,
    made_ms: u64,
    /// A name that was revoked is not given again: whoever reads it in a log knows which key it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_ms: Option<u64>,
}

impl Coord {
    /// Makes a key; `None` if there is or was one of that name.
    ///
    /// # Errors
    /// If the store can't be reached, or has [`KEYS_MAX`] keys that count.
    pub async fn add_key(&self, name: &KeyName, role: Role) -> Result<Option<ApiKey>, Denied> {
        let live = self.keys().await?.iter().filter(|key| key.revoked_ms.is_none()).count();
        if live >= KEYS_MAX {
            return Err(Denied::Invalid(format!(
                "there are {KEYS_MAX} keys, and that is the most: revoke some"
            )));
        }
        let key = ApiKey { name: name.clone(), secret: fresh::secret()? };
        let record = Record { role, proof: key.secret.proof(), made_ms: now_ms(), revoked_ms: None };
        let write = Write::Put(encode(&record)?, Stamp::New);
        let txn = Txn {
            at: None,
            expect: vec![(self.key_record(name), Expect::seen(0))],
            writes: vec![(self.key_record(name), write)],
        };
        Ok(match self.commit(txn).await? {
            Outcome::Committed(_) => Some(key),
            Outcome::Conflict(_) => None,
        })
    }

    /// Every key there is or was.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn keys(&self) -> Result<Vec<KnownKey>, Denied> {
        let prefix = self.space().kind(KIND);
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let page = self.store().scan(&prefix, &from, Limits::CONTRACT.page).await?;
            all.extend(page.records.iter().filter_map(|(name, found)| {
                let name = name.as_str().strip_prefix(&prefix)?.parse().ok()?;
                let record: Record = serde_json::from_slice(&found.value).ok()?;
                let Record { role, made_ms, revoked_ms, .. } = record;
                Some(KnownKey { name, role, made_ms, revoked_ms })
            }));
            match page.records.keys().next_back() {
                // No name has a control character, so this is the first name after it.
                Some(last) if page.more => from = format!("{last}\u{1}"),
                _ => return Ok(all),
            }
        }
    }

    /// Makes a key worthless. Whether there was one that was not.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn revoke_key(&self, name: &KeyName) -> Result<bool, Denied> {
        let Some(record) = self.stored_key(name).await?.filter(|record| record.revoked_ms.is_none()) else {
            return Ok(false);
        };
        let record = Record { revoked_ms: Some(now_ms()), ..record };
        let write = Write::Put(encode(&record)?, Stamp::Keep);
        let txn = Txn { at: None, expect: Vec::new(), writes: vec![(self.key_record(name), write)] };
        self.commit(txn).await?;
        Ok(true)
    }

    /// What became of a key; `None` if this store never had one of that name.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn known_key(&self, name: &KeyName) -> Result<Option<KnownKey>, Denied> {
        let known = |Record { role, made_ms, revoked_ms, .. }| KnownKey {
            name: name.clone(),
            role,
            made_ms,
            revoked_ms,
        };
        Ok(self.stored_key(name).await?.map(known))
    }

    async fn stored_key(&self, name: &KeyName) -> Result<Option<Record>, Denied> {
        let record = self.key_record(name);
        let snapshot = self.store().read(std::slice::from_ref(&record)).await?;
        let Some(found) = snapshot.records.get(&record) else { return Ok(None) };
        // A record that can't be read proves nobody.
        Ok(serde_json::from_slice(&found.value).ok())
    }

    fn key_record(&self, name: &KeyName) -> Name {
        format!("{}{name}", self.space().kind(KIND)).into()
    }
}

fn now_ms() -> u64 {
    u64::try_from(wall().as_millis()).unwrap_or(u64::MAX)
}

/// Tells who has which key, without asking the store each time.
pub struct KeyRing {
    coord: Coord,
    /// What was read, and when, on the boot clock. Keys that do not exist are not kept.
    seen: Mutex<BTreeMap<KeyName, (Record, Duration)>>,
}

impl KeyRing {
    /// The keys of this store.
    pub fn new(coord: Coord) -> Self {
        Self { coord, seen: Mutex::default() }
    }

    /// What the owner of this key may do; `None` if there is no such key, whatever is wrong with it.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn role_of(&self, key: &ApiKey) -> Result<Option<Role>, Denied> {
        let record = match self.remembered(&key.name) {
            Some(record) => Some(record),
            None => self.look_up(&key.name).await?,
        };
        // Compared even if there is no key of that name, so that nobody can tell by the time which names there are.
        let nobody = Secret::from_bytes([0; 32]).proof();
        let proof = record.as_ref().map_or(&nobody, |record| &record.proof);
        let is_proved = proof.matches(&key.secret);
        Ok(record.filter(|record| is_proved && record.revoked_ms.is_none()).map(|record| record.role))
    }

    /// What the key of this name may do, for whoever proved before that it is theirs; `None` if it counts no longer.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn role_named(&self, name: &KeyName) -> Result<Option<Role>, Denied> {
        let record = match self.remembered(name) {
            Some(record) => Some(record),
            None => self.look_up(name).await?,
        };
        Ok(record.filter(|record| record.revoked_ms.is_none()).map(|record| record.role))
    }

    fn remembered(&self, name: &KeyName) -> Option<Record> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (record, at) = seen.get(name)?;
        (boottime().saturating_sub(*at) < FRESH).then(|| record.clone())
    }

    async fn look_up(&self, name: &KeyName) -> Result<Option<Record>, Denied> {
        let asked = boottime();
        let record = self.coord.stored_key(name).await?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &record {
            Some(record) => seen.insert(name.clone(), (record.clone(), asked)),
            None => seen.remove(name),
        };
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bell_store::memory::Memory;

    use super::*;

    fn coord() -> Coord {
        Coord::new(Arc::new(Memory::new()))
    }

    fn name(text: &str) -> KeyName {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_key_is_known_by_its_secret_and_worthless_once_it_is_revoked() {
        let coord = coord();
        let key = coord.add_key(&name("laptop"), Role::Read).await.unwrap().unwrap();
        assert!(coord.add_key(&name("laptop"), Role::Full).await.unwrap().is_none(), "the name is taken");
        let read = ApiKey::parse(&key.expose()).unwrap();
        assert_eq!(KeyRing::new(coord.clone()).role_of(&read).await.unwrap(), Some(Role::Read));
        let forged = ApiKey { name: name("laptop"), secret: Secret::from_bytes([0; 32]) };
        assert_eq!(KeyRing::new(coord.clone()).role_of(&forged).await.unwrap(), None);
        assert!(coord.revoke_key(&name("laptop")).await.unwrap());
        assert!(!coord.revoke_key(&name("laptop")).await.unwrap());
        assert_eq!(KeyRing::new(coord.clone()).role_of(&read).await.unwrap(), None);
        assert!(coord.add_key(&name("laptop"), Role::Full).await.unwrap().is_none(), "the name stays taken");
        assert!(coord.keys().await.unwrap()[0].revoked_ms.is_some());
    }

    #[tokio::test]
    async fn as_many_keys_count_as_may_and_a_revoked_one_makes_room() {
        let coord = coord();
        for number in 0..KEYS_MAX {
            let key = coord.add_key(&name(&format!("k{number}")), Role::Read).await.unwrap();
            assert!(key.is_some());
        }
        assert_eq!(coord.keys().await.unwrap().len(), KEYS_MAX);
        assert!(matches!(coord.add_key(&name("late"), Role::Read).await, Err(Denied::Invalid(_))));
        assert!(coord.revoke_key(&name("k0")).await.unwrap());
        assert!(coord.add_key(&name("late"), Role::Read).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn the_store_and_the_debugger_never_see_a_secret() {
        let coord = coord();
        let key = coord.add_key(&name("ci"), Role::Full).await.unwrap().unwrap();
        let text = key.expose();
        let secret = text.rsplit('_').next().unwrap();
        let stored = coord.store().scan("", "", 10).await.unwrap();
        for record in stored.records.values() {
            assert!(!String::from_utf8_lossy(&record.value).contains(secret));
        }
        assert!(!format!("{key:?}").contains(secret));
    }

    #[test]
    fn what_is_no_key_is_not_read_as_one() {
        let hex = "ab".repeat(32);
        assert!(ApiKey::parse(&format!("bell_ci_{hex}")).is_some());
        for wrong in [
            "",
            "bell_",
            "bell_ci",
            "bell__",
            &format!("ci_{hex}"),
            &format!("bell_Ci_{hex}"),
            &format!("bell_ci_{hex}0"),
            &format!("bell__{hex}"),
        ] {
            assert!(ApiKey::parse(wrong).is_none(), "{wrong}");
        }
    }
}
