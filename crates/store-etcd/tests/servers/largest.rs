//! The largest commits fit into one transaction of an etcd with its usual settings.

use bell_e2e::SharedEtcd;
use bell_store::{Expect, Name, Outcome, Stamp, Store, Txn, Write};
use bell_store_etcd::Etcd;

/// As many names as a commit may have, each as long as a name may be.
fn names(store: &Etcd) -> Vec<Name> {
    let limits = store.info().limits;
    let name = |number| format!("{number:0>width$}", width = limits.name_bytes).into();
    (0..limits.txn_ops).map(name).collect()
}

fn write_all(names: &[Name], write: &Write) -> Vec<(Name, Write)> {
    names.iter().map(|name| (name.clone(), write.clone())).collect()
}

#[tokio::test]
async fn every_record_of_a_largest_commit_is_expected_and_stamped_anew() {
    let etcd = SharedEtcd::get();
    let store = Etcd::open(&etcd.url("largest/stamped")).await.unwrap();
    let names = names(&store);
    let put = Write::Put(b"1".to_vec(), Stamp::New);
    let created = Txn { writes: write_all(&names, &put), ..Txn::default() };
    let created = crate::support::commit(&store, created).await.unwrap().revision;
    let again = |version| Txn {
        at: None,
        expect: names.iter().map(|name| (name.clone(), Expect::At(version))).collect(),
        writes: write_all(&names, &put),
    };
    let at = store.now().await.unwrap();
    let Outcome::Committed(stamped) = store.commit(Txn { at: Some(at), ..again(created) }).await.unwrap()
    else {
        panic!("nobody else writes here");
    };
    let Outcome::Conflict(seen) = store.commit(again(created)).await.unwrap() else {
        panic!("every one of them has changed");
    };
    assert_eq!((seen.records.len(), seen.revision), (names.len(), stamped.revision));
    assert!(seen.records.values().all(|record| record.stamp == stamped.revision));
}

#[tokio::test]
async fn every_record_of_a_largest_commit_is_kept_or_deleted() {
    let etcd = SharedEtcd::get();
    let store = Etcd::open(&etcd.url("largest/kept")).await.unwrap();
    let names = names(&store);
    let keep = Txn { writes: write_all(&names, &Write::Put(Vec::new(), Stamp::Keep)), ..Txn::default() };
    let created = crate::support::commit(&store, keep.clone()).await.unwrap().revision;
    crate::support::commit(&store, keep).await.unwrap();
    let seen = store.read(&names).await.unwrap();
    assert!(seen.records.values().all(|record| record.stamp == created && record.version > created));
    let delete = Txn { writes: write_all(&names, &Write::Delete), ..Txn::default() };
    crate::support::commit(&store, delete).await.unwrap();
    assert_eq!(store.read(&names).await.unwrap().records.len(), 0);
}
