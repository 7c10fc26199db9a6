//! The contract of a store, case by case, on a real server.

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use bell_store::suite::Fixture;
use bell_store::{Result, Store};
use bell_store_postgres::Postgres;

use support::Place;

/// Each handle has connections of its own, as another process would have.
#[async_trait]
impl Fixture for Place {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Postgres::open(&self.url()).await?))
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

bell_store::store_suite!(Place::new());
