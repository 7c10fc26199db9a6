//! The memory store passes the suite, with either clock and inside every layer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_store::layers::{Metered, Patience, Retry, Timeout};
use bell_store::memory::Memory;
use bell_store::suite::{self, Fixture};
use bell_store::{Result, Store};

struct InMemory(Arc<dyn Store>);

impl InMemory {
    fn new() -> Self {
        Self(Arc::new(Memory::new()))
    }
}

#[async_trait]
impl Fixture for InMemory {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(&self.0))
    }

    fn survives_reopen(&self) -> bool {
        false
    }
}

bell_store::store_suite!(InMemory::new());

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_pass_one_after_the_other_on_one_storage() {
    passes(InMemory::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_a_manual_clock_passes() {
    let (store, _clock) = Memory::with_manual_clock();
    passes(InMemory(Arc::new(store))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layers_change_nothing_that_the_contract_says() {
    let limited = Timeout::new(Arc::new(Memory::new()), Duration::from_secs(60));
    let retried = Retry::new(Arc::new(limited), Patience::default());
    passes(InMemory(Arc::new(Metered::new(Arc::new(retried))))).await;
}

async fn passes(fixture: InMemory) {
    let report = suite::run(Arc::new(fixture)).await;
    assert!(report.failed().is_empty(), "{report}");
}
