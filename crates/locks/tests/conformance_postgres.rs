//! Locks on PostgreSQL keep the lock contract.

use std::sync::Arc;

use async_trait::async_trait;
use bell_locks::conformance::{AtUrl, Setup, is_worker};
use bell_locks::{Denied, LockBackend};

/// A schema on a server that ends with the test. A worker is told which.
struct OnServer {
    url: AtUrl,
    _server: Option<bell_e2e::Postgres>,
}

impl OnServer {
    fn start() -> Self {
        let server = (!is_worker()).then(bell_e2e::Postgres::start);
        let url = server.as_ref().map_or(String::new(), |server| server.url("bell"));
        Self { url: AtUrl::new(url), _server: server }
    }
}

#[async_trait]
impl Setup for OnServer {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        self.url.open().await
    }

    fn url(&self) -> Option<String> {
        self.url.url()
    }
}

bell_locks::lock_conformance!(OnServer::start());
