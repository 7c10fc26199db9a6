//! A client of the matrix: a process that takes locks, writes behind the guard, gives back or does not, and writes down
//! all of it, until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bell_locks::locks::this_process;
use bell_locks::{Ask, Denied, Fence, Held, Key, LockBackend, Locks, Ttl};
use bell_store::clock::{boottime, wall};
use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::flaw::{Flaw, Flawed};
use crate::history::{self, Recorder, What};
use crate::recording::Recording;
use crate::sink::{Guarding, Sink};

/// Keys whose leases are short.
pub const QUICK: [&str; 2] = ["proof://quick/one", "proof://quick/two"];

/// A key whose leases are longer than a waiter may be left alone, so that a lost release shows.
pub const SLOW: &str = "proof://slow";

const SLOW_TTL: Duration = Duration::from_secs(8);

/// How long a late writer waits for somebody to write after it.
const SUCCESSOR_LIMIT: Duration = Duration::from_secs(2);

/// Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client is told when it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// Which client.
    pub client: u32,
    /// What it does.
    pub role: Role,
    /// The store.
    pub url: String,
    /// Where it writes down what it does.
    pub record: PathBuf,
    /// The guarded table.
    pub sink: PathBuf,
    /// It stops once this exists.
    pub stop: PathBuf,
    /// What it gets wrong.
    pub flaw: Option<Flaw>,
}

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Works until it is told to stop.
    Work,
    /// Takes every short key once.
    Probe,
}

/// Does what it was ordered to.
///
/// # Errors
/// If it can't open the store, or can't write down what it does.
pub fn run(orders: &Orders) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::open(orders).await?;
        match orders.role {
            Role::Work => client.work().await,
            Role::Probe => client.probe().await,
        }
    })
}

struct Client<'a> {
    orders: &'a Orders,
    recorder: Arc<Recorder>,
    backend: Arc<dyn LockBackend>,
    locks: Locks,
    sink: Sink,
    dice: Dice,
    /// Every other client is late with its first short lease, so that no cell goes without a stale writer.
    owes_a_late_write: bool,
}

impl<'a> Client<'a> {
    async fn open(orders: &'a Orders) -> Result<Self> {
        let recorder = Arc::new(Recorder::open(&orders.record, orders.client)?);
        let guarding = match orders.flaw {
            Some(Flaw::UnguardedSink) => Guarding::Nothing,
            _ => Guarding::Fences,
        };
        let mut backend = open(&orders.url).await?;
        if let Some(flaw) = orders.flaw {
            backend = Arc::new(Flawed::new(backend, flaw));
        }
        let backend: Arc<dyn LockBackend> = Arc::new(Recording::new(backend, Arc::clone(&recorder)));
        let locks = Locks::new(Arc::clone(&backend), this_process())?;
        let sink = Sink::open(&orders.sink, guarding)?;
        let dice = Dice::new(u64::from(orders.client));
        let owes_a_late_write = orders.role == Role::Work && !orders.client.is_multiple_of(2);
        Ok(Self { orders, recorder, backend, locks, sink, dice, owes_a_late_write })
    }

    async fn work(&mut self) -> Result<()> {
        while !self.orders.stop.exists() {
            self.recorder.write(What::Clock { wall_ms: u64::try_from(wall().as_millis())? })?;
            let ask = self.next_ask()?;
            match self.locks.lock(ask).await {
                Ok(held) => self.use_it(held).await?,
                Err(Denied::Lost(_)) => self.begin_anew()?,
                Err(_) => self.pause(40, 150).await,
            }
            self.pause(20, 100).await;
        }
        // What was dropped is given back in the background; a process that ends takes that with it.
        self.recorder.write(What::Gone { session: None })?;
        Ok(())
    }

    fn next_ask(&mut self) -> Result<Ask> {
        let name = self.dice.pick(&[QUICK[0], QUICK[1], QUICK[0], QUICK[1], SLOW]);
        let ttl = if name == SLOW { SLOW_TTL } else { self.dice.ms(1_000, 2_000) };
        let wait = if self.dice.one_in(2) { Duration::ZERO } else { self.dice.ms(1_000, 5_000) };
        Ok(Ask::new(Key::parse(name)?).ttl(Ttl::new(ttl)?).wait(wait))
    }

    async fn use_it(&mut self, held: Held) -> Result<()> {
        let is_quick = held.key().as_str() != SLOW;
        if is_quick && std::mem::take(&mut self.owes_a_late_write) {
            return self.write_late(held).await;
        }
        match self.dice.below(20) {
            0..=2 if is_quick => self.write_late(held).await?,
            3..=5 if is_quick => {
                self.pause(1_200, 2_400).await;
                self.write_and_release(held).await?;
            }
            6 => {
                self.write(&held)?;
                self.leave(held).await?;
            }
            7 => {
                self.write(&held)?;
                // It says itself what came of it.
                let _ = self.locks.clone().end().await;
                drop(held);
                self.begin_anew()?;
            }
            _ => self.write_and_release(held).await?,
        }
        Ok(())
    }

    async fn write_and_release(&mut self, held: Held) -> Result<()> {
        for _ in 0..=self.dice.below(2) {
            self.write(&held)?;
            self.pause(10, 80).await;
        }
        // It is written down; a holder that can't give back leaves it to the ttl.
        let _ = held.release().await;
        Ok(())
    }

    /// As a holder does that was paused and has not noticed that another has written since: only the guard can stop it.
    async fn write_late(&mut self, held: Held) -> Result<()> {
        let (key, fence, ttl) = (held.key().clone(), held.fence(), held.lease().ttl);
        held.forget();
        let give_up = boottime() + ttl.length() + SUCCESSOR_LIMIT;
        while self.sink.highest(key.as_str())? <= fence.0 && boottime() < give_up {
            self.pause(30, 60).await;
        }
        self.write_with(key.as_str(), fence)
    }

    /// Goes away without giving back, and comes as somebody else.
    async fn leave(&mut self, held: Held) -> Result<()> {
        self.recorder.write(What::Gone { session: Some(held.session().id().as_str().to_owned()) })?;
        held.forget();
        self.begin_anew()
    }

    fn write(&mut self, held: &Held) -> Result<()> {
        if held.check().is_ok() {
            self.write_with(held.key().as_str(), held.fence())?;
        }
        Ok(())
    }

    fn write_with(&mut self, key: &str, fence: Fence) -> Result<()> {
        let session = self.locks.session().id().as_str();
        let op = self.recorder.asked(session, key, history::Ask::Write { fence: fence.0 })?;
        let answer = self.sink.write(key, fence, self.orders.client)?;
        Ok(self.recorder.answered(op, answer)?)
    }

    fn begin_anew(&mut self) -> Result<()> {
        let old = self.locks.session().id().as_str().to_owned();
        self.recorder.write(What::Gone { session: Some(old) })?;
        self.locks = Locks::new(Arc::clone(&self.backend), this_process())?;
        Ok(())
    }

    async fn probe(&mut self) -> Result<()> {
        for name in QUICK {
            let give_up = boottime() + PATIENCE;
            while boottime() < give_up {
                let ask = Ask::new(Key::parse(name)?).ttl(Ttl::MIN).wait(Duration::from_secs(5));
                match self.locks.lock(ask).await {
                    Ok(held) => {
                        self.write_and_release(held).await?;
                        break;
                    }
                    Err(Denied::Lost(_)) => self.begin_anew()?,
                    Err(_) => self.pause(100, 200).await,
                }
            }
        }
        Ok(())
    }

    async fn pause(&mut self, least_ms: u64, most_ms: u64) {
        tokio::time::sleep(self.dice.ms(least_ms, most_ms)).await;
    }
}

/// Opens the store, which may be out of reach for a while.
async fn open(url: &str) -> Result<Arc<dyn LockBackend>> {
    let give_up = boottime() + PATIENCE;
    loop {
        match bell_locks::open(url).await {
            Ok(backend) => return Ok(backend),
            Err(denied) if boottime() > give_up => {
                return Err(denied).context("could not open the store");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
