//! Logins: somebody showed a key to a page, and their browser shows this instead until they leave.
//!
//! The store keeps a hash of what the browser has, so a login counts on every node and whoever reads the store can't use
//! it. It may do what its key may do, and ends with it; a key's name is never given again.

use std::fmt;
use std::time::Duration;

use bell_core::session::{Proof, Secret};
use bell_core::time::Timestamp;
use bell_store::{Expect, Name, Stamp, Txn, Write};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::keys::KeyName;
use crate::transact::encode;

/// How long a login counts: a working day.
pub const LOGIN_FOR: Duration = Duration::from_secs(12 * 3_600);
/// How long a login may go unused: whoever has left has left.
pub const LOGIN_IDLE: Duration = Duration::from_secs(3_600);
/// How often it is written down that a login is in use.
const SEEN_EVERY: Duration = Duration::from_secs(60);
const _: () = assert!(SEEN_EVERY.as_secs() * 10 <= LOGIN_IDLE.as_secs());
/// Logins of one fleet: each person has a few browsers.
pub const LOGINS_MAX: usize = 1_000;
const KIND: &str = "login/";

/// A login, as a browser has it. It can't be compared or printed.
#[derive(Clone, Debug)]
pub struct Login {
    id: Uuid,
    secret: Secret,
}

#[derive(Serialize, Deserialize)]
struct Record {
    key: KeyName,
    proof: Proof,
    since: Timestamp,
    seen: Timestamp,
}

impl Record {
    fn counts(&self, now: Timestamp) -> bool {
        now < self.since + LOGIN_FOR && now < self.seen + LOGIN_IDLE
    }
}

impl Login {
    /// The text for the browser: never in a URL or a log.
    pub fn expose(&self) -> String {
        let secret: String = self.secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{secret}", self.id.simple())
    }

    /// Reads what [`Self::expose`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let mut bytes = [0; 32];
        let is_plain = secret.len() == 2 * bytes.len() && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_plain || id.len() != Uuid::nil().simple().to_string().len() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(secret.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self { id: Uuid::try_parse(id).ok()?, secret: Secret::from_bytes(bytes) })
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id.simple())
    }
}

impl Coord {
    /// Makes a login of whoever has proved to have this key. `None`: there are [`LOGINS_MAX`] that count.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn log_in(&self, key: &KeyName) -> Result<Option<Login>, Denied> {
        let prefix = self.space().kind(KIND);
        let page = self.store().scan(&prefix, "", LOGINS_MAX).await?;
        let counts =
            |value: &[u8]| serde_json::from_slice(value).is_ok_and(|login: Record| login.counts(page.now));
        let over = page.records.iter().filter(|(_, record)| !counts(&record.value)).map(|(name, _)| name);
        let over: Vec<Name> = over.take(self.store().info().limits.txn_ops / 2).cloned().collect();
        if page.records.len() >= LOGINS_MAX && over.is_empty() {
            return Ok(None);
        }
        let login = Login { id: fresh::uuid(), secret: fresh::secret()? };
        let record =
            Record { key: key.clone(), proof: login.secret.proof(), since: page.now, seen: page.now };
        // Those that no longer count go with the same commit.
        let mut writes: Vec<_> = over.into_iter().map(|name| (name, Write::Delete)).collect();
        writes.push((self.login_record(&login), Write::Put(encode(&record)?, Stamp::New)));
        self.commit(Txn { at: None, expect: Vec::new(), writes }).await?;
        Ok(Some(login))
    }

    /// Whose key this login is of, if it counts.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn logged_in(&self, login: &Login) -> Result<Option<KeyName>, Denied> {
        let name = self.login_record(login);
        let snapshot = self.store().read(std::slice::from_ref(&name)).await?;
        let stored = snapshot.records.get(&name);
        let record: Option<Record> = stored.and_then(|stored| serde_json::from_slice(&stored.value).ok());
        // Compared even if there is none, so that nobody can tell by the time which there are.
        let nobody = Secret::from_bytes([0; 32]).proof();
        let is_proved = record.as_ref().map_or(&nobody, |record| &record.proof).matches(&login.secret);
        let Some(record) = record.filter(|record| is_proved && record.counts(snapshot.now)) else {
            return Ok(None);
        };
        let key = record.key.clone();
        if snapshot.now.since(record.seen) >= SEEN_EVERY {
            let seen = Record { seen: snapshot.now, ..record };
            let expect = vec![(name.clone(), Expect::seen(snapshot.version(name.as_str())))];
            let writes = vec![(name, Write::Put(encode(&seen)?, Stamp::Keep))];
            // Whoever was faster has written the same, or has left.
            let _ = self.store().commit(Txn { at: None, expect, writes }).await;
        }
        Ok(Some(key))
    }

    /// Ends a login.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn log_out(&self, login: &Login) -> Result<(), Denied> {
        if self.logged_in(login).await?.is_some() {
            let writes = vec![(self.login_record(login), Write::Delete)];
            self.commit(Txn { writes, ..Txn::default() }).await?;
        }
        Ok(())
    }

    fn login_record(&self, login: &Login) -> Name {
        format!("{}{login}", self.space().kind(KIND)).into()
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

    async fn stored(coord: &Coord) -> Vec<(Name, Record)> {
        let page = coord.store().scan(KIND, "", 10).await.unwrap();
        let read = |(name, record): (Name, bell_store::Record)| {
            (name, serde_json::from_slice(&record.value).unwrap())
        };
        page.records.into_iter().map(read).collect()
    }

    #[tokio::test]
    async fn a_login_is_known_until_it_ends() {
        let (coord, key) = (coord(), "laptop".parse().unwrap());
        let login = coord.log_in(&key).await.unwrap().unwrap();
        let shown = Login::parse(&login.expose()).unwrap();
        assert_eq!(coord.logged_in(&shown).await.unwrap(), Some(key));
        let forged = Login { secret: Secret::from_bytes([7; 32]), ..shown.clone() };
        assert_eq!(coord.logged_in(&forged).await.unwrap(), None);
        coord.log_out(&forged).await.unwrap();
        assert!(coord.logged_in(&shown).await.unwrap().is_some(), "nobody else can end it");
        coord.log_out(&shown).await.unwrap();
        assert_eq!(coord.logged_in(&shown).await.unwrap(), None);
    }

    #[tokio::test]
    async fn neither_the_store_nor_the_debugger_sees_what_the_browser_has() {
        let coord = coord();
        let login = coord.log_in(&"laptop".parse().unwrap()).await.unwrap().unwrap();
        let text = login.expose();
        let secret = text.split_once('.').unwrap().1;
        assert!(!serde_json::to_string(&stored(&coord).await[0].1).unwrap().contains(secret));
        assert!(!format!("{login:?}{login}").contains(secret));
    }

    #[test]
    fn what_is_no_login_is_not_read_as_one() {
        let (id, secret) = ("0".repeat(32), "ab".repeat(32));
        assert!(Login::parse(&format!("{id}.{secret}")).is_some());
        for wrong in [
            "",
            ".",
            &id,
            &format!("{id}.{secret}0"),
            &format!("../x.{secret}"),
            &format!("{id}.+{}", &secret[1..]),
        ] {
            assert!(Login::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_login_counts_for_a_day_of_work_and_not_once_it_was_left_alone() {
        let at = |time: Duration| Timestamp::default() + time;
        let (key, proof) = ("laptop".parse().unwrap(), Secret::from_bytes([0; 32]).proof());
        let mut record = Record { key, proof, since: at(Duration::ZERO), seen: at(Duration::ZERO) };
        let moment = Duration::from_millis(1);
        assert!(record.counts(at(LOGIN_IDLE - moment)) && !record.counts(at(LOGIN_IDLE)));
        record.seen = at(LOGIN_FOR - moment);
        assert!(record.counts(at(LOGIN_FOR - moment)) && !record.counts(at(LOGIN_FOR)));
    }

    #[tokio::test]
    async fn what_no_longer_counts_is_cleared_away_by_the_next_login() {
        let coord = coord();
        let over = Write::Put(b"{}".to_vec(), Stamp::New);
        let writes = vec![(Name::from("login/over"), over)];
        coord.store().commit(Txn { writes, ..Txn::default() }).await.unwrap();
        coord.log_in(&"laptop".parse().unwrap()).await.unwrap().unwrap();
        let left = coord.store().scan(KIND, "", 10).await.unwrap();
        assert_eq!((left.records.len(), left.version("login/over")), (1, 0));
    }
}
