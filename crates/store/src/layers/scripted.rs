//! A store for the tests of the layers: it fails as often as told, then answers, or never answers at all.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use crate::error::{Error, Kind, Result};
use crate::memory::Memory;
use crate::record::{Name, Snapshot, Timestamp};
use crate::txn::{Outcome, Txn, Watch};
use crate::{Info, Store};

/// A memory store with failures in front of it.
pub(super) struct Scripted {
    inner: Memory,
    asked: AtomicU32,
    script: Script,
}

enum Script {
    Fail { times: u32, kind: Kind },
    Silent,
}

impl Scripted {
    /// Fails the first `times` requests.
    pub(super) fn failing(times: u32, kind: Kind) -> Self {
        Self { inner: Memory::new(), asked: AtomicU32::new(0), script: Script::Fail { times, kind } }
    }

    /// Never answers.
    pub(super) fn silent() -> Self {
        Self { inner: Memory::new(), asked: AtomicU32::new(0), script: Script::Silent }
    }

    /// How many requests came.
    pub(super) fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    async fn act(&self) -> Result<()> {
        let earlier = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.script {
            Script::Silent => pending().await,
            Script::Fail { times, kind } if earlier < times => Err(Error::new(kind, "do as scripted")),
            Script::Fail { .. } => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Scripted {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.act().await?;
        self.inner.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.act().await?;
        self.inner.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.act().await?;
        self.inner.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.act().await?;
        self.inner.commit(txn).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.act().await?;
        self.inner.changed(watch).await
    }
}
