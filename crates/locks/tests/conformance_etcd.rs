//! Locks on etcd keep the lock contract.
#![cfg(feature = "etcd")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bell_e2e::SharedEtcd;
use bell_locks::conformance::{AtUrl, Setup, is_worker};
use bell_locks::{Denied, LockBackend};

/// A prefix on a member that the tests share. A worker is told which.
struct OnPrefix {
    url: AtUrl,
    _etcd: Option<Arc<SharedEtcd>>,
}

impl OnPrefix {
    fn start() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("conformance/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let etcd = (!is_worker()).then(SharedEtcd::get);
        let url = etcd.as_ref().map_or(String::new(), |etcd| etcd.url(&prefix));
        Self { url: AtUrl::new(url), _etcd: etcd }
    }
}

#[async_trait]
impl Setup for OnPrefix {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        self.url.open().await
    }

    fn url(&self) -> Option<String> {
        self.url.url()
    }
}

bell_locks::lock_conformance!(OnPrefix::start());
