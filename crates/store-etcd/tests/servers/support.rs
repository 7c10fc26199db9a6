//! What the tests of this folder share.

use std::fmt::Debug;
use std::time::Duration;

use bell_store::{Committed, Expect, Outcome, Result, Stamp, Store, Txn, Write};

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Puts a record, whatever is there.
pub(crate) fn put(name: &str, value: impl Into<Vec<u8>>) -> Txn {
    Txn { writes: vec![(name.into(), Write::Put(value.into(), Stamp::New))], ..Txn::default() }
}

/// Puts a record that is at this version.
pub(crate) fn replace(name: &str, version: u64, value: impl Into<Vec<u8>>) -> Txn {
    Txn { expect: vec![(name.into(), Expect::seen(version))], ..put(name, value) }
}

pub(crate) async fn commit(store: &impl Store, txn: Txn) -> Result<Committed> {
    match store.commit(txn).await? {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Conflict(seen) => panic!("unexpected conflict with {seen:?}"),
    }
}

pub(crate) async fn value(store: &impl Store, name: &str) -> Result<Option<Vec<u8>>> {
    Ok(store.read(&[name.into()]).await?.records.remove(name).map(|record| record.value))
}

/// Tries for a minute.
pub(crate) async fn eventually<T: Debug>(mut attempt: impl AsyncFnMut() -> Result<T>) -> T {
    let trying = async {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), trying).await.expect("it succeeds in the end")
}
