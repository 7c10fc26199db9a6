//! The contract of a store, case by case.

use std::sync::Arc;

use async_trait::async_trait;
use bell_store::suite::Fixture;
use bell_store::{Result, Store};
use bell_store_sqlite::Sqlite;

/// A file in a folder of its own. Each handle is another connection, as another process would have.
struct File(tempfile::TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }
}

#[async_trait]
impl Fixture for File {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Sqlite::open(&self.0.path().join("bell.db"))?))
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

bell_store::store_suite!(File::new());
