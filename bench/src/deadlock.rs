//! Looking for a cycle among 10,000 sessions that wait.
//!
//! The same records are looked at twice: in a view that has everything, which shows what the search itself
//! costs, and through `coord` over the memory store, which adds finding out what to read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bell_coord::{Ask, Coord, Token};
use bell_core::acquire::{Acquire, acquire};
use bell_core::key::Key;
use bell_core::lock::{Fence, Holder, Lock, Mode, Ttl, Waiter};
use bell_core::session::{Identity, RequestId, Secret, Session, SessionId, Wait};
use bell_core::time::Timestamp;
use bell_core::view::{Seen, View};
use bell_store::clock::boottime;
use bell_store::layers::{Metered, Op};
use bell_store::memory::Memory;
use bell_store::{Name, Stamp, Store, Txn, Write};
use serde::Serialize;

use crate::bench::Bench;
use crate::figures::{Spread, ns};
use crate::stores;
use crate::table::{Table, number};

const WAITING: usize = 10_000;
const KEYS: usize = 10;
/// Requests for the same ten keys: each stands in every queue and is looked at in all of them.
const CROWD: usize = 200;
const REPEATS: usize = 10;

/// What one check costs.
#[derive(Serialize)]
pub(crate) struct Check {
    pub(crate) case: &'static str,
    pub(crate) answer: &'static str,
    pub(crate) core_ms: f64,
    pub(crate) coord_ms: f64,
    /// What `coord` read, one after the other.
    pub(crate) coord_reads: f64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for case in [Case::chain()?, Case::queues()?, Case::crowd()?] {
        for asks in &case.asks {
            bench.tell(&format!("the search for a deadlock: {}, {}", case.name, asks.answer));
            let core_ms = in_core(bench, &case, asks)?;
            let (coord_ms, coord_reads) = bench.runtime.block_on(through_coord(bench, &case, asks))?;
            checks.push(Check { case: case.name, answer: asks.answer, core_ms, coord_ms, coord_reads });
        }
    }
    Ok(checks)
}

/// Who holds and who waits, and who comes now.
struct Case {
    name: &'static str,
    scene: Scene,
    asks: Vec<Asks>,
}

/// A request that is about to wait.
struct Asks {
    session: SessionId,
    keys: Vec<Key>,
    answer: &'static str,
}

impl Case {
    /// Each waits for what the next one holds.
    fn chain() -> Result<Self> {
        let mut scene = Scene::default();
        for number in 0..=WAITING {
            scene.holds(number, number)?;
        }
        for number in 0..WAITING {
            scene.waits(number, &[number + 1])?;
        }
        let asks = vec![
            scene.asks(WAITING + 1, 0, "no cycle, queued")?,
            scene.asks(WAITING, 0, "a cycle of 10,001")?,
        ];
        Ok(Self { name: "10,000 in one chain", scene, asks })
    }

    /// Ten keys, a thousand wait for each. One of those who wait for the first key holds the second.
    fn queues() -> Result<Self> {
        let mut scene = Scene::default();
        for key in 0..KEYS {
            scene.holds(key, key)?;
        }
        let each = WAITING / KEYS;
        for number in 0..WAITING {
            // The last place of each queue is left for the one who comes.
            if number % each + 1 < each {
                scene.waits(KEYS + number, &[number / each])?;
            }
        }
        scene.waits(1, &[0])?;
        let asks =
            vec![scene.asks(KEYS + WAITING, 5, "no cycle, queued")?, scene.asks(0, 1, "a cycle of 2")?];
        Ok(Self { name: "10 keys, 999 wait for each", scene, asks })
    }

    /// Many requests for the same ten keys: everybody waits for everybody ahead, ten times over.
    fn crowd() -> Result<Self> {
        let mut scene = Scene::default();
        let keys: Vec<usize> = (0..KEYS).collect();
        keys.iter().try_for_each(|key| scene.holds(*key, *key))?;
        for number in 0..CROWD {
            scene.waits(KEYS + number, &keys)?;
        }
        let asks = vec![scene.asks(KEYS + WAITING, 0, "no cycle, queued")?];
        Ok(Self { name: "200 requests for the same 10 keys", scene, asks })
    }
}

/// Records, made one by one.
#[derive(Default)]
struct Scene {
    locks: BTreeMap<Key, Lock>,
    sessions: BTreeMap<SessionId, Session>,
}

const ALWAYS: Ttl = Ttl::MAX;

impl Scene {
    fn holds(&mut self, session: usize, key: usize) -> Result<()> {
        let (id, key) = (self.session(session), stores::key("deadlock", key)?);
        let holder = Holder {
            session: id,
            request: RequestId::from(format!("h{session}").as_str()),
            mode: Mode::Exclusive,
            since: Timestamp::default(),
            ttl: ALWAYS,
            expires: far_ahead(),
            fence: Some(Fence(1)),
        };
        self.locks.entry(key).or_default().holders.push(holder);
        Ok(())
    }

    fn waits(&mut self, session: usize, keys: &[usize]) -> Result<()> {
        let id = self.session(session);
        let request = RequestId::from(format!("w{session}").as_str());
        let keys = keys.iter().map(|key| stores::key("deadlock", *key)).collect::<Result<Vec<_>>>()?;
        let waiter = Waiter {
            session: id.clone(),
            request: request.clone(),
            mode: Mode::Exclusive,
            since: Timestamp::default(),
            ttl: ALWAYS,
            until: far_ahead(),
            keys: if keys.len() > 1 { keys.clone() } else { Vec::new() },
            elsewhere: keys.len() > 1,
        };
        for key in &keys {
            self.locks.entry(key.clone()).or_default().queue.push(waiter.clone());
        }
        let session = self.sessions.get_mut(&id).context("every session was stored")?;
        session.waits.push(Wait { request, keys });
        Ok(())
    }

    fn asks(&mut self, session: usize, key: usize, answer: &'static str) -> Result<Asks> {
        Ok(Asks { session: self.session(session), keys: vec![stores::key("deadlock", key)?], answer })
    }

    /// The session of this number, stored if it was not.
    fn session(&mut self, number: usize) -> SessionId {
        let id = SessionId::from(format!("00000000-0000-7000-8000-{number:012}").as_str());
        let new = || Session::new(Identity::default(), secret().proof(), None);
        self.sessions.entry(id.clone()).or_insert_with(new);
        id
    }

    fn view(&self) -> View {
        View {
            now: Timestamp::from_ms(1_000),
            locks: self.locks.iter().map(seen).collect(),
            sessions: self.sessions.iter().map(seen).collect(),
            ..View::default()
        }
    }

    /// Stores everything where `coord` looks for it.
    async fn store(&self, store: &dyn Store) -> Result<()> {
        let mut writes: Vec<(Name, Write)> = Vec::new();
        for (key, lock) in &self.locks {
            writes.push((format!("lock/{key}").into(), Write::Put(serde_json::to_vec(lock)?, Stamp::New)));
        }
        for (id, session) in &self.sessions {
            writes
                .push((format!("session/{id}").into(), Write::Put(serde_json::to_vec(session)?, Stamp::New)));
        }
        for writes in writes.chunks(store.info().limits.txn_ops) {
            store.commit(Txn { writes: writes.to_vec(), ..Txn::default() }).await?;
        }
        Ok(())
    }
}

fn seen<Id: Clone, T: Clone>((id, record): (&Id, &T)) -> (Id, Seen<T>) {
    (id.clone(), Some(Arc::new(record.clone())).into())
}

fn far_ahead() -> Timestamp {
    Timestamp::from_ms(u64::MAX / 2)
}

/// Nobody's: the sessions of a scene end with it.
fn secret() -> Secret {
    Secret::from_bytes([0; 32])
}

fn in_core(bench: &Bench, case: &Case, asks: &Asks) -> Result<f64> {
    let view = case.scene.view();
    let command = Acquire {
        session: asks.session.clone(),
        request: RequestId::from("now"),
        keys: asks.keys.clone(),
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        wait: Duration::from_secs(60),
        new_session: None,
        call: None,
    };
    let mut samples_ns = Vec::new();
    for _ in 0..bench.times(REPEATS) {
        let begun = boottime();
        let decided = acquire(&view, &command);
        samples_ns.push(ns(boottime() - begun));
        decided.ok().context("everything was in the view")?;
    }
    median_ms(samples_ns)
}

async fn through_coord(bench: &Bench, case: &Case, asks: &Asks) -> Result<(f64, f64)> {
    let store = Metered::new(Arc::new(Memory::new()));
    case.scene.store(&store).await?;
    let metrics = store.metrics();
    let coord = Coord::new(Arc::new(store));
    let token = format!("{}.{}", asks.session, "00".repeat(32));
    let session = coord.resume(&Token::parse(&token).context("a token is an id and a secret")?).await?;
    let mut samples_ns = Vec::new();
    for _ in 0..bench.times(REPEATS) {
        // Whoever is queued gives up at once and leaves: the scene stays as it is.
        let ask = Ask::all(asks.keys.clone()).wait(Duration::from_millis(1));
        let begun = boottime();
        let refused = coord.acquire(&session, &ask).await;
        samples_ns.push(ns(boottime() - begun));
        refused.err().context("nobody gives anything back")?;
    }
    let reads = metrics.snapshot().iter().find(|latency| latency.op == Op::Read).map_or(0, |read| read.count);
    let reads_each = reads as f64 / samples_ns.len() as f64;
    Ok((median_ms(samples_ns)?, reads_each))
}

fn median_ms(samples_ns: Vec<u64>) -> Result<f64> {
    Ok(Spread::of(samples_ns).context("nothing was measured")?.p50_us / 1_000.0)
}

pub(crate) fn table(checks: &[Check]) -> Table {
    let columns = ["who waits", "answer to one more", "core alone, ms", "through coord, ms", "reads"];
    let mut table = Table::new("Looking for a deadlock", &columns);
    for check in checks {
        table.row(vec![
            check.case.to_owned(),
            check.answer.to_owned(),
            number(check.core_ms),
            number(check.coord_ms),
            number(check.coord_reads),
        ]);
    }
    table.note(
        "Medians. Through `coord`, a request that is queued also gives up after 1 ms and leaves the queue.",
    );
    table
}
