//! The script beside a model: whatever is committed together, each transaction comes out as if it came alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use bell_e2e::Redis;
use bell_store::{Expect, Name, Outcome, Record, Revision, Stamp, Store, Timestamp, Txn, Write};
use bell_store_redis::RedisStore;
use rustix::process::Signal;

const NAMES: [&str; 6] = ["a", "b", "c", "x/1", "x/2", "y"];
const ROUNDS: u64 = 60;
const MOST_TOGETHER: u64 = 12;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> Name {
        NAMES[self.roll(NAMES.len() as u64) as usize].into()
    }
}

/// What the store should be.
struct Model {
    revision: Revision,
    records: BTreeMap<Name, Record>,
}

#[derive(PartialEq, Debug)]
enum Came {
    Committed(Revision),
    Conflict(Revision, BTreeMap<Name, Record>),
}

impl Model {
    /// A transaction of which most expectations hold, some twice of one name.
    fn invent(&self, dice: &mut Dice) -> Txn {
        let mut txn = Txn::default();
        for _ in 0..dice.roll(4) {
            let name = dice.name();
            let version = self.records.get(&name).map_or(0, |record| record.version);
            let expect = match dice.roll(12) {
                0 => Expect::Absent,
                1 => Expect::At(self.revision - dice.roll(3)),
                _ => Expect::seen(version),
            };
            txn.expect.push((name, expect));
        }
        for _ in 0..dice.roll(4) {
            let name = dice.name();
            let value = || self.revision.to_string().into_bytes();
            let write = match dice.roll(5) {
                0 | 1 => Write::Delete,
                2 => Write::Put(value(), Stamp::Keep),
                3 => Write::Put(Vec::new(), Stamp::New),
                _ => Write::Put(value(), Stamp::New),
            };
            if txn.written().all(|written| *written != name) {
                txn.writes.push((name, write));
            }
        }
        // One in ten was decided for long ago.
        txn.at = (dice.roll(10) == 0).then(|| Timestamp::from_ms(dice.roll(2)));
        txn
    }

    fn commit(&mut self, txn: &Txn) -> Came {
        let version = |name: &Name| self.records.get(name).map_or(0, |record| record.version);
        if txn.at.is_some() || !txn.expectations_hold(version) {
            let is_expected = |name: &Name| txn.expect.iter().any(|(expected, _)| expected == name);
            let found = self.records.iter().filter(|(name, _)| is_expected(name));
            return Came::Conflict(
                self.revision,
                found.map(|(name, record)| (name.clone(), record.clone())).collect(),
            );
        }
        self.revision += u64::from(!txn.writes.is_empty());
        for (name, write) in txn.writes.clone() {
            let stamp = self.records.get(&name).map(|record| record.stamp);
            match write.leaves(stamp, self.revision) {
                Some(record) => drop(self.records.insert(name, record)),
                None => drop(self.records.remove(&name)),
            }
        }
        Came::Committed(self.revision)
    }
}

#[tokio::test]
async fn whatever_goes_together_comes_out_as_one_after_the_other() {
    let server = Redis::start();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    let mut dice = Dice(7);
    let mut model = Model { revision: store.read(&[]).await.unwrap().revision, records: BTreeMap::new() };
    for round in 0..ROUNDS {
        // The first goes alone; those that are handed in while the server stands still go together.
        server.signal(Signal::STOP);
        let mut asked = Vec::new();
        for _ in 0..=dice.roll(MOST_TOGETHER) {
            let (store, txn) = (Arc::clone(&store), model.invent(&mut dice));
            let expected = model.commit(&txn);
            let asking = txn.clone();
            asked.push((txn, expected, tokio::spawn(async move { store.commit(asking).await })));
            tokio::task::yield_now().await;
        }
        server.signal(Signal::CONT);
        for (txn, expected, asked) in asked {
            let came = match asked.await.unwrap().unwrap() {
                Outcome::Committed(committed) => Came::Committed(committed.revision),
                Outcome::Conflict(found) => Came::Conflict(found.revision, found.records),
            };
            assert_eq!(came, expected, "round {round}: {txn:?}");
        }
        let found = store.scan("", "", 100).await.unwrap();
        assert_eq!((found.revision, &found.records), (model.revision, &model.records), "round {round}");
        assert_eq!(store.read(&NAMES.map(Name::from)).await.unwrap().records, model.records);
    }
}

#[tokio::test]
async fn deleted_names_are_swept_and_can_come_again() {
    const RECORDS: usize = 3_000;
    const TOGETHER: usize = 100;
    // As in `commit.lua`: as many may lie about as are let lie, and those of one batch.
    const MOST_LEFT: usize = 1_024 + TOGETHER;
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let names: Vec<Name> = (0..RECORDS).map(|number| format!("r{number:04}").as_str().into()).collect();
    let all = async |write: fn() -> Write| {
        for names in names.chunks(TOGETHER) {
            let writes = names.iter().map(|name| (name.clone(), write())).collect();
            let outcome = store.commit(Txn { writes, ..Txn::default() }).await.unwrap();
            assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
        }
    };
    let left = || server.run(&["HLEN", "{a}:records"]).parse::<usize>().unwrap() - 1;
    for _ in 0..2 {
        all(|| Write::Put(b"1".to_vec(), Stamp::New)).await;
        assert_eq!(left(), RECORDS);
        let found = store.scan("r", "", RECORDS).await.unwrap();
        assert!(found.records.keys().eq(&names[..found.records.len()]) && found.more);
        all(|| Write::Delete).await;
        assert!(left() <= MOST_LEFT, "{} records of none are left", left());
        assert_eq!(store.scan("r", "", 1).await.unwrap().records, BTreeMap::new());
        assert_eq!(store.read(&names[..2]).await.unwrap().records, BTreeMap::new());
    }
    // Whoever opens it now finds it whole.
    RedisStore::open(&server.url("a")).await.unwrap();
}
