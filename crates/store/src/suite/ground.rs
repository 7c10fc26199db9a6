//! What a case stands on: two handles on one storage, names of its own, and ways to say what went wrong.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Fixture;
use crate::clock::wall;
use crate::error::Error;
use crate::record::{Name, Record, Revision, Snapshot, Timestamp, Version};
use crate::txn::{Committed, Expect, Outcome, Stamp, Txn, Write};
use crate::{Kind, Store};

/// How long to wait for what should come at once. Only a failure takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a case comes to.
pub(super) type Done = Result<(), Stop>;

/// Why a case ended early.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(String),
    Skipped(&'static str),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(format!("could not {error} ({:?})", error.kind()))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(end: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a task of the case ended early: {end}"))
    }
}

/// Ends the case unless this holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::suite::ground::Stop::Failed(format!($($why)+)));
        }
    };
}
pub(super) use ensure;

/// Ends the case unless both are the same.
pub(super) fn same<T: PartialEq + Debug>(what: &str, actual: T, expected: T) -> Done {
    ensure!(actual == expected, "{what}: expected {expected:?}, got {actual:?}");
    Ok(())
}

/// Two handles on the storage and a prefix that no other case uses.
#[derive(Clone)]
pub(super) struct Ground {
    /// The handle that a case works through.
    pub(super) store: Arc<dyn Store>,
    /// A second one, as somebody else has it.
    pub(super) other: Arc<dyn Store>,
    fixture: Arc<dyn Fixture>,
    prefix: Arc<str>,
}

impl Ground {
    pub(super) async fn open(fixture: Arc<dyn Fixture>, case: &str) -> Result<Self, Stop> {
        let (store, other) = (fixture.open().await?, fixture.open().await?);
        Ok(Self { store, other, fixture, prefix: format!("suite/{case}/{}/", unique()).into() })
    }

    /// The same ground with the handles exchanged.
    pub(super) fn elsewhere(&self) -> Self {
        let turned = self.clone();
        Self { store: turned.other, other: turned.store, ..turned }
    }

    /// Lets go of both handles and opens two new ones.
    pub(super) async fn reopened(self) -> Result<Self, Stop> {
        let Self { store, other, fixture, prefix } = self;
        if !fixture.survives_reopen() {
            return Err(Stop::Skipped("nothing is kept when the last handle is dropped"));
        }
        drop((store, other));
        let (store, other) = (fixture.open().await?, fixture.open().await?);
        Ok(Self { store, other, fixture, prefix })
    }

    /// What the names of this case start with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A name of this case.
    pub(super) fn name(&self, rest: &str) -> Name {
        format!("{}{rest}", self.prefix).into()
    }

    /// A session id of this case.
    pub(super) fn session(&self) -> String {
        format!("suite-{}", unique())
    }

    /// A transaction to fill in.
    pub(super) fn plan(&self) -> Plan<'_> {
        Plan { ground: self, txn: Txn::default() }
    }

    pub(super) async fn read(&self, rests: &[&str]) -> Result<Snapshot, Stop> {
        let names: Vec<Name> = rests.iter().map(|rest| self.name(rest)).collect();
        Ok(self.store.read(&names).await?)
    }

    pub(super) async fn get(&self, rest: &str) -> Result<Option<Record>, Stop> {
        Ok(self.read(&[rest]).await?.records.remove(self.name(rest).as_str()))
    }

    /// The record, which must be there.
    pub(super) async fn existing(&self, rest: &str) -> Result<Record, Stop> {
        self.get(rest).await?.ok_or_else(|| Stop::Failed(format!("record {rest:?} is missing")))
    }

    /// The value as text; `None` if there is no record.
    pub(super) async fn text(&self, rest: &str) -> Result<Option<String>, Stop> {
        Ok(self.get(rest).await?.map(|record| String::from_utf8_lossy(&record.value).into_owned()))
    }

    pub(super) async fn put(&self, rest: &str, value: &str) -> Result<Revision, Stop> {
        Ok(self.plan().put(rest, value).commits().await?.revision)
    }

    pub(super) async fn delete(&self, rest: &str) -> Result<Revision, Stop> {
        Ok(self.plan().delete(rest).commits().await?.revision)
    }

    /// Scans below this case's prefix; gives the names found, without that prefix, and whether there are more.
    pub(super) async fn scan(
        &self,
        under: &str,
        from: &str,
        limit: usize,
    ) -> Result<(Vec<String>, bool), Stop> {
        let (prefix, from) = (self.name(under), self.name(from));
        let page = self.store.scan(prefix.as_str(), from.as_str(), limit).await?;
        let rest =
            |name: &Name| name.as_str().strip_prefix(self.prefix()).unwrap_or(name.as_str()).to_owned();
        Ok((page.records.keys().map(rest).collect(), page.more))
    }
}

/// Distinct among all runs on one storage, also one that outlives this process.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", std::process::id(), wall().as_nanos())
}

/// A transaction being written, in names of the case.
pub(super) struct Plan<'a> {
    ground: &'a Ground,
    txn: Txn,
}

impl Plan<'_> {
    pub(super) fn decided_at(mut self, at: Timestamp) -> Self {
        self.txn.at = Some(at);
        self
    }

    pub(super) fn absent(mut self, rest: &str) -> Self {
        self.txn.expect.push((self.ground.name(rest), Expect::Absent));
        self
    }

    pub(super) fn at(mut self, rest: &str, version: Version) -> Self {
        self.txn.expect.push((self.ground.name(rest), Expect::At(version)));
        self
    }

    pub(super) fn seen(mut self, rest: &str, version: Version) -> Self {
        self.txn.expect.push((self.ground.name(rest), Expect::seen(version)));
        self
    }

    pub(super) fn put(self, rest: &str, value: impl Into<Vec<u8>>) -> Self {
        self.write(rest, Write::Put(value.into(), Stamp::New))
    }

    pub(super) fn keep(self, rest: &str, value: impl Into<Vec<u8>>) -> Self {
        self.write(rest, Write::Put(value.into(), Stamp::Keep))
    }

    pub(super) fn delete(self, rest: &str) -> Self {
        self.write(rest, Write::Delete)
    }

    fn write(mut self, rest: &str, write: Write) -> Self {
        self.txn.writes.push((self.ground.name(rest), write));
        self
    }

    /// Commits it, whatever comes of that.
    pub(super) async fn outcome(self) -> Result<Outcome, Stop> {
        Ok(self.ground.store.commit(self.txn).await?)
    }

    /// Commits it; a conflict ends the case.
    pub(super) async fn commits(self) -> Result<Committed, Stop> {
        match self.outcome().await? {
            Outcome::Committed(committed) => Ok(committed),
            Outcome::Conflict(seen) => Err(Stop::Failed(format!("unexpected conflict with {seen:?}"))),
        }
    }

    /// Commits it and expects a conflict; success ends the case.
    pub(super) async fn conflicts(self) -> Result<Snapshot, Stop> {
        match self.outcome().await? {
            Outcome::Conflict(seen) => Ok(seen),
            Outcome::Committed(done) => Err(Stop::Failed(format!("no conflict, committed as {done:?}"))),
        }
    }

    /// Commits it and expects to be refused as invalid.
    pub(super) async fn fails_as_invalid(self) -> Done {
        refused(self.ground.store.commit(self.txn).await)
    }
}

/// Ends the case unless the request was refused as invalid.
pub(super) fn refused<T: Debug>(answer: Result<T, Error>) -> Done {
    match answer {
        Err(error) if error.kind() == Kind::Invalid => Ok(()),
        Err(error) => Err(Stop::Failed(format!("refused as {:?}, not as invalid: {error}", error.kind()))),
        Ok(answer) => Err(Stop::Failed(format!("not refused, answered {answer:?}"))),
    }
}
