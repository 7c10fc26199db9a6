//! Through PgBouncer in transaction mode: everything but push.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bell_e2e::{PgBouncer, Postgres as Server};
use bell_store::info::Push;
use bell_store::suite::{self, Fixture};
use bell_store::{Result, Store};
use bell_store_postgres::Postgres;

/// Two handles that all cases share: finding out that nothing is pushed takes a while.
struct Pooled {
    handles: [Arc<dyn Store>; 2],
    next: AtomicUsize,
    _pooler: PgBouncer,
    _server: Arc<Server>,
}

impl Pooled {
    async fn start(schema: &str) -> Self {
        let server = Server::shared();
        // Fewer connections than the stores have: none of them stays the same.
        let pooler = PgBouncer::start(&server, 2);
        let url = pooler.url(schema);
        let open = async || Postgres::open(&url).await.expect("a store");
        let handles: [Arc<dyn Store>; 2] = [Arc::new(open().await), Arc::new(open().await)];
        Self { handles, next: AtomicUsize::new(0), _pooler: pooler, _server: server }
    }
}

#[async_trait]
impl Fixture for Pooled {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(&self.handles[self.next.fetch_add(1, Ordering::Relaxed) % 2]))
    }

    fn survives_reopen(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_pooler_that_swallows_notifications_is_noticed_and_said() {
    let pooled = Pooled::start("noticed").await;
    let store = &pooled.handles[0];
    assert!(matches!(store.info().push, Push::Poll { .. }), "{:?}", store.info());
    assert!(
        store.info().warnings.iter().any(|warning| warning.words.contains("pooler")),
        "{:?}",
        store.info()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_holds_through_a_pooler() {
    let report = suite::run(Arc::new(Pooled::start("pooled").await)).await;
    assert!(report.failed().is_empty(), "{report}");
}
