//! The contract of a store, case by case, on one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bell_e2e::Redis;
use bell_store::suite::Fixture;
use bell_store::{Result, Store};
use bell_store_redis::RedisStore;

/// A prefix of its own. Each handle has a connection of its own, as another process would have.
struct Prefix {
    server: Arc<Redis>,
    prefix: String,
}

impl Prefix {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("case-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { server: Redis::shared(), prefix }
    }
}

#[async_trait]
impl Fixture for Prefix {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(RedisStore::open(&self.server.url(&self.prefix)).await?))
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

bell_store::store_suite!(Prefix::new());
