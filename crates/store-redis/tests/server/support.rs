//! What the tests of this crate share.

use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Committed, Error, Expect, Outcome, Result, Stamp, Store, Txn, Version, Write};

/// How long to wait for what should come soon. Only a failure takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The transaction that puts one record, whatever was there.
pub(crate) fn put(name: &str, value: &str) -> Txn {
    Txn { writes: vec![(name.into(), Write::Put(value.into(), Stamp::New))], ..Txn::default() }
}

/// The same, if the record is still at this version.
pub(crate) fn replace(name: &str, seen: Version, value: &str) -> Txn {
    Txn { expect: vec![(name.into(), Expect::seen(seen))], ..put(name, value) }
}

/// Commits what can't conflict.
pub(crate) async fn commit(store: &dyn Store, txn: Txn) -> Result<Committed> {
    match store.commit(txn).await? {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Conflict(found) => panic!("a conflict: {found:?}"),
    }
}

/// The value of a record.
pub(crate) async fn value(store: &dyn Store, name: &str) -> Option<String> {
    let found = store.read(&[name.into()]).await.unwrap();
    found.records.get(name).map(|record| String::from_utf8(record.value.clone()).unwrap())
}

/// Asks until it works, as whoever waits for a server does.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    let give_up = boottime() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if boottime() > give_up => panic!("still {}", told(&error)),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Everything an error says to a person or a log.
pub(crate) fn told(error: &Error) -> String {
    format!("{error} | {error:?} | {}", error.advice())
}

/// Returns once this holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let give_up = boottime() + PATIENCE;
    while !holds() {
        assert!(boottime() < give_up, "it never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
