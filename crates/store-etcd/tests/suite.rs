//! The contract of a store, case by case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bell_e2e::SharedEtcd;
use bell_store::suite::Fixture;
use bell_store::{Result, Store};
use bell_store_etcd::Etcd;

/// A prefix of its own on a member that all cases share, so that each sees the others' revisions go by.
struct Prefix {
    etcd: Arc<SharedEtcd>,
    number: u64,
}

impl Prefix {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { etcd: SharedEtcd::get(), number: COUNT.fetch_add(1, Ordering::Relaxed) }
    }
}

#[async_trait]
impl Fixture for Prefix {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Etcd::open(&self.etcd.url(&format!("suite/{}", self.number))).await?))
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

bell_store::store_suite!(Prefix::new());
