//! What the tests of this crate share: a schema of its own on a server that they share, and short words for
//! transactions.

#![expect(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_e2e::Postgres as Server;
use bell_store::{
    Committed, Error, Expect, Kind, Name, Outcome, Snapshot, Stamp, Store, Txn, Version, Write,
};
use bell_store_postgres::Postgres;

/// How long to wait for what should come at once. Only a failure takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A schema that no other test uses.
pub(crate) struct Place {
    pub(crate) server: Arc<Server>,
    pub(crate) schema: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let schema = format!("bell_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { server: Server::shared(), schema }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(&self.schema)
    }

    pub(crate) async fn open(&self) -> Postgres {
        Postgres::open(&self.url()).await.expect("a store")
    }

    /// Runs statements as the superuser; `{schema}` stands for the schema.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&statements.replace("{schema}", &self.schema))
    }
}

/// Why a store can't be opened.
pub(crate) async fn refused(url: &str) -> Error {
    let error = Postgres::open(url).await.expect_err("a refusal");
    assert!(!error.advice().is_empty(), "it says what to do next: {error}");
    let seen = format!("{error} {error:?} {}", error.advice());
    assert!(!seen.contains(Server::PASSWORD), "the password is shown: {seen}");
    error
}

pub(crate) fn put(name: &str, value: &str) -> Txn {
    Txn { writes: vec![(name.into(), Write::Put(value.into(), Stamp::New))], ..Txn::default() }
}

pub(crate) fn put_at(name: &str, version: Version, value: &str) -> Txn {
    Txn { expect: vec![(name.into(), Expect::seen(version))], ..put(name, value) }
}

pub(crate) async fn committed(store: &dyn Store, txn: Txn) -> Committed {
    match store.commit(txn).await.expect("a commit") {
        Outcome::Committed(committed) => committed,
        Outcome::Conflict(snapshot) => panic!("a conflict: {snapshot:?}"),
    }
}

pub(crate) async fn read(store: &dyn Store, name: &str) -> Snapshot {
    store.read(&[Name::from(name)]).await.expect("an answer")
}

/// Commits until the store can be reached again.
pub(crate) async fn committed_in_the_end(store: &dyn Store, name: &str, value: &str) -> Committed {
    let until_it_is = async {
        loop {
            match store.commit(put(name, value)).await {
                Ok(Outcome::Committed(committed)) => return committed,
                Ok(Outcome::Conflict(snapshot)) => panic!("a conflict: {snapshot:?}"),
                Err(error) => assert!(matches!(error.kind(), Kind::Unavailable | Kind::Unknown), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_it_is).await.expect("a server that came back")
}
