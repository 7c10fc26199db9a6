//! The shortest way to commit: one small transaction of one who is alone with the store.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use bell_store::{Expect, Outcome, Record, Snapshot, Stamp, Store, Txn, Watch, Write};
use bell_store_postgres::Postgres;

use support::{PATIENCE, Place, committed, put};

/// Two names that are written together, and one that is only looked at.
const LOCK: &str = "lock/a";
const HELD: &str = "held/s/a";
const SESSION: &str = "session/s";

type Model = BTreeMap<String, Record>;

/// Expects the first of them and the session, each at a version (zero: no record), and writes the first two.
fn both(lock: u64, session: u64, writes: [Write; 2]) -> Txn {
    let expect = vec![(LOCK.into(), Expect::seen(lock)), (SESSION.into(), Expect::seen(session))];
    let [first, second] = writes;
    Txn { expect, writes: vec![(LOCK.into(), first), (HELD.into(), second)], ..Txn::default() }
}

fn text(value: impl ToString, stamp: Stamp) -> Write {
    Write::Put(value.to_string().into_bytes(), stamp)
}

fn version(model: &Model, name: &str) -> u64 {
    model.get(name).map_or(0, |record| record.version)
}

/// What the transaction does to a store that has these records.
fn apply(model: &mut Model, txn: &Txn, revision: u64) {
    for (name, write) in &txn.writes {
        match write {
            Write::Put(value, stamp) => {
                let kept = model.get(name.as_str()).filter(|_| *stamp == Stamp::Keep);
                let stamp = kept.map_or(revision, |record| record.stamp);
                let record = Record { value: value.clone(), version: revision, stamp };
                model.insert(name.as_str().to_owned(), record);
            }
            Write::Delete => drop(model.remove(name.as_str())),
        }
    }
}

/// Whether the last thing that a connection did was to commit in the shortest way.
fn went_alone(place: &Place) -> bool {
    let asked = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE query LIKE '-- Commits one small transaction to {schema} if%'";
    place.sql(asked).trim() == "t"
}

fn as_model(found: Snapshot) -> Model {
    found.records.into_iter().map(|(name, record)| (name.as_str().to_owned(), record)).collect()
}

/// Numbers that look random, the same ones every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_alone_comes_to_the_same_as_in_a_model() {
    const STEPS: usize = 600;
    let place = Place::new();
    let stores: [Postgres; 2] = [place.open().await, place.open().await];
    let (mut model, mut numbers) = (Model::new(), Numbers(7));
    let begun = committed(&stores[0], put(SESSION, "s")).await;
    apply(&mut model, &put(SESSION, "s"), begun.revision);
    let (mut last, mut conflicts, mut alone) = (begun.revision, 0, 0);
    for step in 0..STEPS {
        // Long stretches in which one has the store to itself.
        let store = &stores[(step / 100) % 2];
        let stamps = [Stamp::New, Stamp::Keep];
        let mut stamp = || stamps[numbers.below(2) as usize];
        let writes = [text(step, stamp()), text(step, stamp())];
        let writes = if numbers.below(2) == 0 { writes } else { [Write::Delete, Write::Delete] };
        let (lock, session) = (version(&model, LOCK), version(&model, SESSION));
        let txn = match numbers.below(40) {
            0 => both(lock + 1, session, writes),
            1 => both(lock, session - 1, writes),
            _ => both(lock, session, writes),
        };
        let holds =
            txn.expect.iter().all(|(name, expect)| *expect == Expect::seen(version(&model, name.as_str())));
        match store.commit(txn.clone()).await.unwrap() {
            Outcome::Committed(committed) => {
                assert!(holds && committed.revision > last, "step {step}: {txn:?}");
                last = committed.revision;
                apply(&mut model, &txn, last);
            }
            Outcome::Conflict(found) => {
                assert!(!holds, "step {step}: {txn:?}");
                let seen = model.iter().filter(|(name, _)| *name != HELD);
                assert!(as_model(found).iter().eq(seen), "step {step}");
                conflicts += 1;
            }
        }
        if step % 50 == 49 {
            alone += usize::from(went_alone(&place));
        }
    }
    assert!(conflicts > 0 && alone > 0, "{conflicts} conflicts, {alone} times alone");
    assert_eq!(as_model(stores[0].scan("", "", 10).await.unwrap()), model);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_both_think_they_are_alone_none_loses_what_the_other_wrote() {
    const TIMES: u64 = 120;
    let place = Place::new();
    let count = async || {
        let store = place.open().await;
        let (mut seen, mut value, mut done) = (0, 0, 0);
        while done < TIMES {
            let writes = [text(value + 1, Stamp::New), text(value + 1, Stamp::Keep)];
            match store.commit(both(seen, 0, writes)).await.unwrap() {
                Outcome::Committed(committed) => {
                    (seen, value, done) = (committed.revision, value + 1, done + 1);
                }
                Outcome::Conflict(found) => {
                    let record = &found.records[LOCK];
                    seen = record.version;
                    value = String::from_utf8(record.value.clone()).unwrap().parse().unwrap();
                }
            }
        }
    };
    tokio::join!(count(), count());
    let found = as_model(place.open().await.scan("", "", 10).await.unwrap());
    let sum = (2 * TIMES).to_string().into_bytes();
    assert_eq!((&found[LOCK].value, &found[HELD].value), (&sum, &sum));
    assert!(found[HELD].stamp < found[LOCK].stamp, "the one's stamp stays, the other's rises");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_is_told_of_what_goes_alone() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    committed(&there, put("x", "1")).await;
    let writes = || [text(1, Stamp::New), text(1, Stamp::Keep)];
    let seen = committed(&there, both(0, 0, writes())).await.revision;
    assert!(went_alone(&place));
    let watch = Watch::Names(vec![(LOCK.into(), seen)]);
    let change = async {
        // Long enough for the other to listen; if it does not, the test is only less strict.
        tokio::time::sleep(Duration::from_millis(100)).await;
        committed(&there, both(seen, 0, writes())).await
    };
    let both = async { tokio::join!(here.changed(&watch), change) };
    tokio::time::timeout(PATIENCE, both).await.unwrap().0.unwrap();
}
