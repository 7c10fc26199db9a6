//! Starts each store, in a folder or on a real server of its own, and tries the conformance suite on it.

use std::sync::Arc;

use async_trait::async_trait;
use bell_e2e::{Etcd, Postgres, Redis};
use bell_locks::conformance::{self, AtUrl, InProcess, Setup};
use bell_locks::locks::StoreLocks;
use bell_locks::{Denied, LockBackend};
use bell_store::memory::Memory;

use super::Tried;

/// Every store that is built in, by the scheme of its URLs.
pub const STORES: [&str; 6] = ["memory", "sqlite", "file", "redis", "postgres", "etcd"];

/// A store that is there to be tried.
pub struct Started {
    store: &'static str,
    place: String,
    setup: Arc<dyn Setup>,
}

impl Started {
    /// Starts the store of this scheme; `None`: there is none.
    ///
    /// # Panics
    /// If a server does not start: with the command that installs it.
    pub fn start(store: &str) -> Option<Self> {
        let store = STORES.into_iter().find(|known| *known == store)?;
        let (setup, place) = match store {
            "memory" => in_memory(),
            "sqlite" => in_folder("sqlite", "bell.db", "a file on a local disk"),
            "file" => in_folder("file", "locks", "a folder on a local disk"),
            "redis" => on_redis(),
            "postgres" => on_postgres(),
            _ => on_etcd(),
        };
        Some(Self { store, place, setup })
    }

    /// Tries every case. Other processes are this program started anew: its `main` must look whether it is a
    /// worker first.
    pub async fn run(self) -> Tried {
        let report = conformance::run(self.setup).await;
        Tried::new(self.store, self.place, &report)
    }
}

type Place = (Arc<dyn Setup>, String);

fn in_memory() -> Place {
    let locks = StoreLocks::new(Arc::new(Memory::new()));
    (Arc::new(InProcess::new(locks)), "one process".to_owned())
}

fn in_folder(scheme: &str, name: &str, place: &str) -> Place {
    (Arc::new(AtUrl::in_folder(scheme, name)), place.to_owned())
}

fn on_redis() -> Place {
    let server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let place = format!("Redis {}, one server, `appendfsync always`", server.version());
    (Arc::new(OnServer { url: AtUrl::new(server.url("bell")), _server: server }), place)
}

/// Nothing here cuts the power, and how long it takes tells more about the disk than about locks.
const FSYNC_OFF: &str =
    "with it on, two processes' race for 10,000 grants took longer than the suite's limit of a minute";

fn on_postgres() -> Place {
    let server = Postgres::start();
    let place = format!("PostgreSQL {}, one server, `fsync` off: {FSYNC_OFF}", server.version());
    (Arc::new(OnServer { url: AtUrl::new(server.url("bell")), _server: server }), place)
}

fn on_etcd() -> Place {
    let server = Etcd::start();
    let place = format!("etcd {}, one member as installed", server.version());
    (Arc::new(OnServer { url: AtUrl::new(server.url("bell")), _server: server }), place)
}

/// A store on a server that ends with this value.
struct OnServer<S> {
    url: AtUrl,
    _server: S,
}

#[async_trait]
impl<S: Send + Sync + 'static> Setup for OnServer<S> {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        self.url.open().await
    }

    fn url(&self) -> Option<String> {
        self.url.url()
    }
}
