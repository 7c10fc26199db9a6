//! What the tests of this crate share.

use std::time::Duration;

use bell_e2e::Redis;
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

/// Changes the head of the store with this prefix: Lua that may set revision, last, offset, format and run. Answers what
/// the Lua returns, or the head as text.
fn head(server: &Redis, prefix: &str, change: &str) -> String {
    let script = format!(
        "local head = redis.call('HGET', KEYS[1], '')
         local revision, last, offset, format, rest = struct.unpack('>I8I8i8B', head)
         local run = string.sub(head, rest)
         {change}
         head = struct.pack('>I8I8i8B', revision, last, offset, format) .. run
         redis.call('HSET', KEYS[1], '', head)"
    );
    server.run(&["EVAL", &script, "1", &format!("{{{prefix}}}:records")])
}

/// Sets a part of the head of the store with this prefix to the value of an expression.
pub(crate) fn set_head(server: &Redis, prefix: &str, part: &str, value: &str) {
    head(server, prefix, &format!("{part} = {value}"));
}

/// A part of the head of the store with this prefix; empty if there is no store.
pub(crate) fn head_part(server: &Redis, prefix: &str, part: &str) -> String {
    head(server, prefix, &format!("do return string.format('%d', {part}) end"))
}
