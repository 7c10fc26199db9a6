//! The way from a process to the store: slow, lossy, cut now and then, and a place to die.
//!
//! What was sent is on its way, whatever becomes of who sent it: a commit that is under way arrives although its caller
//! has died, has stopped waiting, or was cut off meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bell_store::layers::Timeout;
use bell_store::presence::Unknown;
use bell_store::{
    Error, Info, Kind, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use crate::chance::Chance;
use crate::process::Process;
use crate::server::Server;
use crate::setting::Setting;

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can happen to messages, while it storms.
pub struct Weather {
    chance: Chance,
    storm: AtomicBool,
    /// Of a thousand messages, how many go wrong in each way.
    loss: u64,
}

/// What happens to a request and its answer.
struct Trip {
    there: Duration,
    back: Duration,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    /// The store is not there for it.
    Refused,
    RequestLost,
    AnswerLost,
    /// The caller dies before it has sent it.
    DiesBefore,
    /// The caller dies before the answer comes.
    DiesAfter,
}

impl Weather {
    /// A storm, as bad as the setting says.
    pub fn new(setting: &Setting, chance: Chance) -> Self {
        Self { chance, storm: AtomicBool::new(true), loss: setting.loss }
    }

    /// Whether it still storms.
    pub fn storms(&self) -> bool {
        self.storm.load(Ordering::Relaxed)
    }

    /// From now on everything arrives.
    pub fn calm(&self) {
        self.storm.store(false, Ordering::Relaxed);
    }

    fn trip(&self) -> Trip {
        if !self.storms() {
            return Trip { there: Duration::ZERO, back: Duration::from_millis(1), fate: Fate::Good };
        }
        let (there, back) = (self.delay(), self.delay());
        let roll = self.chance.between(0, 999);
        let fate = match roll.checked_div(self.loss) {
            Some(0) => Fate::Refused,
            Some(1) => Fate::RequestLost,
            Some(2) => Fate::AnswerLost,
            _ if roll == 998 => Fate::DiesBefore,
            _ if roll == 999 => Fate::DiesAfter,
            _ => Fate::Good,
        };
        Trip { there, back, fate }
    }

    fn delay(&self) -> Duration {
        match self.chance.between(0, 99) {
            0..=59 => Duration::ZERO,
            60..=89 => self.chance.ms(1, 15),
            90..=98 => self.chance.ms(16, 200),
            _ => self.chance.ms(201, 1_500),
        }
    }
}

/// The store as a process reaches it.
pub struct Link {
    server: Arc<Server>,
    process: Arc<Process>,
    weather: Arc<Weather>,
    info: Info,
}

impl Link {
    /// The way of this process, with the limit on waiting that drivers have.
    pub fn open(
        server: &Arc<Server>,
        process: &Arc<Process>,
        weather: &Arc<Weather>,
        setting: &Setting,
    ) -> Arc<dyn Store> {
        let info = Info { notices_death: setting.notices_death, ..server.info().clone() };
        let (server, process, weather) = (Arc::clone(server), Arc::clone(process), Arc::clone(weather));
        Arc::new(Timeout::new(Arc::new(Self { server, process, weather, info }), PATIENCE))
    }

    /// Asks the store something. What changes nothing arrives only if somebody still waits for the answer: nobody can
    /// tell the difference.
    async fn ask<T>(&self, request: impl FnOnce(&Server, &Process) -> Result<T> + Send) -> Result<T> {
        let there = |after: Duration| async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            Ok(request(&self.server, &self.process))
        };
        self.travel(there).await
    }

    /// Asks the store to commit.
    async fn send(&self, txn: Txn) -> Result<Outcome> {
        self.travel(|after| self.deliver(after, txn)).await
    }

    /// There and back: `there` lets the request arrive after a while and gets the store's answer.
    async fn travel<T, Answer>(&self, there: impl FnOnce(Duration) -> Answer + Send) -> Result<T>
    where
        Answer: Future<Output = Result<Result<T>>> + Send,
    {
        let trip = self.weather.trip();
        match trip.fate {
            Fate::Refused => return Err(Error::new(Kind::Unavailable, "reach the store")),
            Fate::DiesBefore => return self.die().await,
            Fate::RequestLost => return std::future::pending().await,
            Fate::Good | Fate::AnswerLost | Fate::DiesAfter => {}
        }
        if self.process.machine.cut_until().is_some() {
            return std::future::pending().await;
        }
        let answer = there(trip.there).await?;
        if trip.fate == Fate::DiesAfter {
            return self.die().await;
        }
        if trip.fate == Fate::AnswerLost || self.process.machine.cut_until().is_some() {
            return std::future::pending().await;
        }
        if !trip.back.is_zero() {
            sleep(trip.back).await;
        }
        answer
    }

    /// Lets a commit arrive after a while, whether or not anybody still waits for its answer.
    async fn deliver(&self, after: Duration, txn: Txn) -> Result<Result<Outcome>> {
        if after.is_zero() {
            return Ok(self.server.commit(&self.process, txn));
        }
        let (answered, answer) = oneshot::channel();
        let (server, process) = (Arc::clone(&self.server), Arc::clone(&self.process));
        tokio::spawn(async move {
            sleep(after).await;
            // Who asked may have gone; it has happened all the same.
            let _ = answered.send(server.commit(&process, txn));
        });
        answer.await.map_err(|_| Error::new(Kind::Unknown, "hear from the store"))
    }

    async fn die<T>(&self) -> T {
        self.server
            .note("death on the way", || format!("{} dies on its way to the store", self.process.name));
        self.process.kill();
        std::future::pending().await
    }
}

#[async_trait]
impl Store for Link {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        self.ask(|server, from| Ok(server.now_for(from))).await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.ask(|server, from| server.read(from, names)).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        let start = from;
        self.ask(|server, from| server.scan(from, prefix, start, limit)).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.send(txn).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.server.changed(watch).await?;
        sleep(self.weather.trip().there).await;
        // A driver that was cut off connects again and lets everybody look.
        while let Some(until) = self.process.machine.cut_until() {
            sleep_until(until).await;
        }
        Ok(())
    }

    fn presence(&self) -> &dyn Presence {
        if self.info.notices_death { self.server.presence() } else { &Unknown }
    }

    fn stirs(&self) -> u64 {
        self.server.stirs()
    }
}
