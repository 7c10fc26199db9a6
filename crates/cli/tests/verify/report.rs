//! What the tests of `bell verify` share.

use bell_store::{Name, Record, Stamp, Txn, Write};
use serde_json::Value;

use crate::support::Place;

/// Every record of the store: its name and all there is to it.
pub(crate) fn records(url: &str) -> Vec<(String, Record)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let store = bell_locks::open::open_store(url).await.unwrap();
        store.scan("", "", 1_000).await.unwrap()
    });
    assert!(!found.more, "too many to look at");
    found.records.into_iter().map(|(name, record)| (name.to_string(), record)).collect()
}

/// Fills a store with what a user may have there, does something, and compares every byte.
pub(crate) fn is_left_as_it_was(place: &Place, act: impl FnOnce()) {
    place.run(&["lock", "acquire", "deploy://theirs", "--ttl", "1h"]).expect(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = bell_locks::open::open_store(&place.url).await.unwrap();
        let put = |name: &str| (Name::from(name), Write::Put(name.as_bytes().to_vec(), Stamp::New));
        let theirs = ["@verify", "@verify-", "@theirs/data/1", "guard/a", "verify", "zebra"];
        let writes = theirs.into_iter().map(put).collect();
        store.commit(Txn { writes, ..Txn::default() }).await.unwrap();
    });
    drop(runtime);
    let before = records(&place.url);
    assert!(before.len() > 6, "{before:?}");
    act();
    assert_eq!(records(&place.url), before);
}

/// Runs every check; none may find anything wrong.
pub(crate) fn proves_everything(place: &Place) -> Value {
    let ran = place.run(&["--json", "verify", &place.url]);
    let report = ran.json();
    assert_eq!(ran.code, 0, "{report:#}");
    let good = ["passed", "warning"];
    assert!(verdicts(&report).iter().all(|verdict| good.contains(verdict)), "{report:#}");
    assert!(report["took_ms"].as_u64().unwrap() <= 60_000, "{report:#}");
    report
}

/// What each check came to.
pub(crate) fn verdicts(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|found| found["verdict"].as_str().unwrap()).collect()
}

/// What one check found.
pub(crate) fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("{report:#}"))
}
