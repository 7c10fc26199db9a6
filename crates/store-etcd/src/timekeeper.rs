//! Keeps the time of [`crate::line`] for an open store: follows the line, asks, answers, draws the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_store::{Error, Kind, Result, Timestamp};
use etcd_client::{Compare, CompareOp, Txn as EtcdTxn, TxnOp};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::answers::{Head, Meta, found};
use crate::keys::Keys;
use crate::line::{Answer, Estimate, Host, Line, MAX_WIDTH, Reached, Reading};
use crate::wire::{TIME_LIMIT, Twice, Wire};

/// How long to wait for an answer. One that takes longer than [`MAX_WIDTH`] is of no use, but shows that
/// somebody is there to ask again.
const ANSWER_LIMIT: Duration = Duration::from_millis(400);
const _: () = assert!(MAX_WIDTH.as_millis() < ANSWER_LIMIT.as_millis());

/// Questions before the next line is drawn although somebody answers, only too slowly.
const QUESTIONS: usize = 3;

/// Seconds in the lease that counts a line's age: a year. If a line gets older, that is all etcd can say.
const LEASE_SECONDS: i64 = 365 * 24 * 3_600;

/// The clock of an open store.
pub(crate) struct Timekeeper {
    /// The executor that the wire's connections live on.
    engine: Handle,
    wire: Arc<Wire>,
    keys: Keys,
    host: Host,
    state: Mutex<State>,
    answers: watch::Sender<Option<Arrived>>,
    asking: tokio::sync::Mutex<()>,
}

struct State {
    meta: Meta,
    /// What lines of this host are signed with.
    host: String,
    /// `None`: this host counts, or has no good answer.
    estimate: Option<Estimate>,
    /// The latest time that a caller was told.
    told: Timestamp,
}

/// An answer, and when it arrived on this host's clock.
#[derive(Clone, Copy)]
struct Arrived {
    answer: Answer,
    at: Duration,
}

/// What can be said of the time without asking.
enum Look {
    Time(Reading),
    /// The next line is behind what was told: it must catch up first.
    Behind(Duration),
    Unknown,
}

impl Timekeeper {
    /// Asks over this wire, from this executor.
    pub(crate) fn new(engine: Handle, wire: Arc<Wire>, keys: Keys, host: Host, meta: Meta) -> Self {
        let state = State { meta, host: host.id.clone(), estimate: None, told: Timestamp::default() };
        let answers = watch::Sender::new(None);
        let (state, asking) = (Mutex::new(state), tokio::sync::Mutex::default());
        Self { engine, wire, keys, host, state, answers, asking }
    }

    /// Takes over what an answer of etcd says of the time.
    pub(crate) fn adopt(&self, meta: &Meta) {
        self.adopt_line(&meta.line, meta.line_revision);
        self.adopt_head(meta.head, meta.head_revision);
    }

    pub(crate) fn adopt_line(&self, line: &Line, revision: i64) {
        let mut state = self.lock();
        if revision > state.meta.line_revision {
            state.meta.line = line.clone();
            state.meta.line_revision = revision;
            state.estimate = None;
        }
    }

    pub(crate) fn adopt_head(&self, head: Head, revision: i64) {
        let mut state = self.lock();
        if revision > state.meta.head_revision {
            state.meta.head = head;
            state.meta.head_revision = revision;
        }
    }

    /// The time; asks for it first if this host does not know it. On any executor.
    ///
    /// # Errors
    /// Those of asking etcd, and [`Kind::Unavailable`] if the time is far behind what was told.
    pub(crate) async fn read(self: &Arc<Self>) -> Result<Reading> {
        loop {
            match self.look() {
                Look::Time(reading) => return Ok(reading),
                Look::Behind(gap) if gap > TIME_LIMIT => return Err(far_behind(gap)),
                Look::Behind(gap) => sleep(gap).await,
                Look::Unknown => {
                    let asking = Arc::clone(self);
                    let learning = self.engine.spawn(async move { asking.learn().await });
                    learning.await.map_err(|_| closed())??;
                }
            }
        }
    }

    /// Somebody asks for the time. If this host counts it, the answer is written, unless a neighbour was faster.
    pub(crate) async fn answer(&self, question: i64) {
        let Some((reached, line_revision)) = self.exact() else { return };
        let is_line = Compare::mod_revision(self.keys.line(), CompareOp::Equal, line_revision);
        let is_open = Compare::value(self.keys.answer(), CompareOp::Less, format!("{question:020}"));
        let answer = TxnOp::put(self.keys.answer(), Answer { question, reached }.encode(), None);
        let txn = EtcdTxn::new().when([is_line, is_open]).and_then([answer]);
        if let Err(fault) = self.wire.txn(Twice::Harmful, txn).await {
            tracing::debug!(%fault, "a question for the time was not answered");
        }
    }

    /// An answer has arrived.
    pub(crate) fn heard(&self, answer: Answer) {
        self.answers.send_replace(Some(Arrived { answer, at: self.host.boottime() }));
    }

    fn look(&self) -> Look {
        let boottime = self.host.boottime();
        let mut state = self.lock();
        let reading = match state.exact(boottime) {
            Some(reached) => Reading::exact(reached),
            None => match state.estimate.and_then(|estimate| estimate.read(boottime)) {
                Some(reading) => reading,
                None => return Look::Unknown,
            },
        };
        if reading.now < state.told {
            return Look::Behind(state.told.since(reading.now));
        }
        state.told = reading.now;
        Look::Time(reading)
    }

    fn exact(&self) -> Option<(Reached, i64)> {
        let state = self.lock();
        Some((state.exact(self.host.boottime())?, state.meta.line_revision))
    }

    /// Asks until an answer is good, or draws the next line. Leaves it to the caller to look again.
    async fn learn(&self) -> Result<()> {
        let _one_at_a_time = self.asking.lock().await;
        if !matches!(self.look(), Look::Unknown) {
            return Ok(());
        }
        let line = self.lock().meta.line.number;
        for _ in 0..QUESTIONS {
            let Some(estimate) = self.ask().await? else { break };
            let mut state = self.lock();
            if state.meta.line.number != line {
                return Ok(());
            }
            if estimate.reached.line == line && estimate.width <= MAX_WIDTH {
                state.estimate = Some(estimate);
                return Ok(());
            }
        }
        self.draw(line).await
    }

    /// Asks once: what the answer comes to, if there is one.
    async fn ask(&self) -> Result<Option<Estimate>> {
        let mut answers = self.answers.subscribe();
        let sent = self.host.boottime();
        let txn = EtcdTxn::new().and_then([TxnOp::put(self.keys.ask(), self.host.id.as_str(), None)]);
        let asked = self.wire.txn(Twice::Harmless, txn).await.map_err(|fault| self.wire.reading(fault))?;
        let question = asked.header().map_or(i64::MAX, |header| header.revision());
        let is_answer = |arrived: &Option<Arrived>| arrived.is_some_and(|it| it.answer.question >= question);
        let arrived = match timeout(ANSWER_LIMIT, answers.wait_for(is_answer)).await {
            Ok(Ok(arrived)) => *arrived,
            Ok(Err(_)) | Err(_) => None,
        };
        Ok(arrived.map(|Arrived { answer, at }| Estimate {
            reached: answer.reached,
            arrived: at,
            width: at.saturating_sub(sent),
        }))
    }

    /// Draws the line after this one, counted by this host, unless somebody else was faster.
    async fn draw(&self, after: u64) -> Result<()> {
        let reread = EtcdTxn::new().and_then([Meta::get(&self.keys, 0)]);
        let answer =
            self.wire.txn(Twice::Harmless, reread).await.map_err(|fault| self.wire.reading(fault))?;
        let meta = Meta::of(&self.keys, &found(&answer).pop().unwrap_or_default())?;
        self.adopt(&meta);
        if meta.line.number != after {
            return Ok(());
        }
        let passed = passed(&self.wire, meta.line.lease).await;
        let line = self.lock().next_line(self.host.boottime(), passed);
        // Granted after the line was begun: what has passed of the lease has passed of the line.
        let line = Line { lease: grant(&self.wire).await?, ..line };
        let is_last = Compare::mod_revision(self.keys.line(), CompareOp::Equal, meta.line_revision);
        let put = TxnOp::put(self.keys.line(), line.encode(), None);
        let txn = EtcdTxn::new().when([is_last]).and_then([put]);
        let drawn = self.wire.txn(Twice::Harmful, txn).await.map_err(|fault| self.wire.writing(fault))?;
        if drawn.succeeded() {
            let revision = drawn.header().map_or(0, |header| header.revision());
            self.adopt_line(&line, revision);
            tracing::info!(line = line.number, "this host counts the store's time now: nobody else answered");
        }
        let unused = if drawn.succeeded() { meta.line.lease } else { line.lease };
        let revoke = |client: etcd_client::Client| async move { client.lease_client().revoke(unused).await };
        // Left alone it ends in a year.
        let _ = self.wire.call(Twice::Harmless, revoke).await;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this mutex leaves the state half-written when it panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time, if this host counts it.
    fn exact(&self, boottime: Duration) -> Option<Reached> {
        let Meta { line, head: Head { reached: head, .. }, .. } = &self.meta;
        let reached = Reached { line: line.number, at: line.at(boottime) };
        // A copy of a running machine has its boot, but its clock stood still while it was copied.
        let is_copy = head.line == line.number && head.at > reached.at;
        (line.host == self.host && !is_copy).then_some(reached)
    }

    /// The line after this one, counted by this host from now, when so much of this one's lease has passed.
    fn next_line(&mut self, boottime: Duration, passed: Duration) -> Line {
        if self.meta.line.host == self.host {
            // A copy that went on under the same name would be taken for the original.
            self.host = uuid::Uuid::now_v7().to_string();
        }
        let start = self.surely(boottime, passed);
        Line::drawn(self.meta.line.number + 1, &self.host, boottime, start)
    }

    /// The latest time that the line has surely reached, when so much of its lease has passed.
    fn surely(&self, boottime: Duration, passed: Duration) -> Timestamp {
        let Meta { line, head: Head { reached: head, .. }, .. } = &self.meta;
        let committed = if head.line == line.number { head.at } else { line.start };
        let estimated = self.estimate.map_or(line.start, |estimate| estimate.surely(boottime));
        committed.max(estimated).max(line.start + passed)
    }
}

/// A lease to count a line's age by.
///
/// # Errors
/// Those of asking etcd.
pub(crate) async fn grant(wire: &Wire) -> Result<i64> {
    let ask =
        |client: etcd_client::Client| async move { client.lease_client().grant(LEASE_SECONDS, None).await };
    let granted = wire.call(Twice::Harmless, ask).await.map_err(|fault| wire.reading(fault))?;
    Ok(granted.id())
}

/// What has surely passed of a lease; nothing if etcd does not know it.
async fn passed(wire: &Wire, lease: i64) -> Duration {
    let ask =
        |client: etcd_client::Client| async move { client.lease_client().time_to_live(lease, None).await };
    match wire.call(Twice::Harmless, ask).await {
        // What is left is told in whole seconds, rounded down.
        Ok(left) if left.ttl() > 0 => {
            Duration::from_secs(u64::try_from(left.granted_ttl() - left.ttl() - 1).unwrap_or(0))
        }
        Ok(_) | Err(_) => Duration::ZERO,
    }
}

fn closed() -> Error {
    Error::new(Kind::Unavailable, "ask for the time: the store was closed").hint("Open it again.")
}

fn far_behind(gap: Duration) -> Error {
    let message = format!("go on: the store's time is {} s behind what it was here", gap.as_secs());
    Error::new(Kind::Unavailable, message).hint(
        "This process was cut off while the store went on, or etcd was restored from a backup: start it again.",
    )
}

#[cfg(test)]
impl Timekeeper {
    /// The line that is followed now.
    pub(crate) fn line(&self) -> Line {
        self.lock().meta.line.clone()
    }

    /// Draws the next line, as if nobody had answered.
    pub(crate) async fn draw_next(&self) -> Result<()> {
        let line = self.line().number;
        self.draw(line).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Duration = Duration::from_secs(1_000);
    const SECOND: Duration = Duration::from_secs(1);
    const START: Timestamp = Timestamp::from_ms(5_000_000);

    /// As it is on a host that drew the line when it had been up for so long.
    fn state(committed: Timestamp) -> State {
        let line = Line::drawn(3, "here", UP, START);
        let head = Head { reached: Reached { line: 3, at: committed }, last: 0 };
        let meta = Meta { line, line_revision: 1, head, head_revision: 1 };
        State { meta, host: "here".to_owned(), estimate: None, told: Timestamp::default() }
    }

    fn reached(at: Timestamp) -> Option<Reached> {
        Some(Reached { line: 3, at })
    }

    #[test]
    fn the_host_that_counts_knows_the_time_by_itself() {
        assert_eq!(state(START).exact(UP + SECOND), reached(START + SECOND));
    }

    #[test]
    fn another_host_does_not() {
        let elsewhere = State { host: "elsewhere".to_owned(), ..state(START) };
        assert_eq!(elsewhere.exact(UP + SECOND), None);
    }

    #[test]
    fn a_copy_of_the_host_notices_that_its_clock_stood_still() {
        let mut copy = state(START + SECOND * 10);
        assert_eq!(copy.exact(UP + SECOND), None, "a commit was made ten seconds later than it is here");
        let next = copy.next_line(UP + SECOND, Duration::ZERO);
        assert_ne!(next.host, "here", "the original would take the line for its own");
        assert_eq!(next.at(UP + SECOND), START + SECOND * 10);
    }

    #[test]
    fn the_next_line_starts_at_the_latest_time_that_was_surely_reached() {
        let elsewhere = || State { host: "elsewhere".to_owned(), ..state(START + SECOND) };
        assert_eq!(elsewhere().next_line(UP, Duration::ZERO).start, START + SECOND, "the last commit");
        assert_eq!(elsewhere().next_line(UP, SECOND * 9).start, START + SECOND * 9, "what etcd counted");
        let estimate =
            Estimate { reached: Reached { line: 3, at: START + SECOND * 5 }, arrived: UP, width: SECOND };
        let asked = State { estimate: Some(estimate), ..elsewhere() };
        assert_eq!(asked.surely(UP, SECOND), START + SECOND * 5, "the last answer");
    }

    #[test]
    fn a_commit_on_an_earlier_line_says_nothing_of_this_one() {
        let mut late = State { host: "elsewhere".to_owned(), ..state(START) };
        late.meta.head.reached = Reached { line: 2, at: START + SECOND * 60 };
        assert_eq!(late.next_line(UP, Duration::ZERO).start, START);
    }
}
