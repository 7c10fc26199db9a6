//! A folder on this machine's disk passes the store suite.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use bell_store::suite::{self, Fixture};
use bell_store::{Result, Store};
use bell_store_fs::Folder;

struct InFolder(tempfile::TempDir);

impl InFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

#[async_trait]
impl Fixture for InFolder {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Folder::open(&self.0.path().join("store"))?))
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

bell_store::store_suite!(InFolder::new());

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_pass_one_after_the_other_on_one_storage() {
    let report = suite::run(Arc::new(InFolder::new())).await;
    assert!(report.failed().is_empty(), "{report}");
}
