//! Simulated machines and the processes on them: clocks of their own, sudden death, and standing still.
//!
//! A process is a set of tasks. Killed, all of them are dropped where they stand and nothing of theirs is cleaned up;
//! stopped, none of them is polled until it goes on, while the world's time and the machine's boot clock run.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bell_store::simulated::{self, Task};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::chance::Chance;

/// A moment between the birth of the wall clock and now that reads well: 2026-01-01.
const WALL_START: Duration = Duration::from_secs(1_767_225_600);

/// A machine: what its clocks show, and whether it reaches the store.
pub struct Machine {
    /// What it is called.
    pub name: String,
    born: Instant,
    /// How long it had been up when the story began.
    up: Duration,
    /// How much faster than the world's its boot clock runs, in millionths.
    drift_ppm: i64,
    /// How far its wall clock is ahead.
    skew_ms: AtomicI64,
    cut_until: Mutex<Instant>,
}

impl Machine {
    /// A machine that boots now with these clocks.
    pub fn new(name: &str, chance: &Chance, skew_ms: i64, drift_ppm: i64) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            born: Instant::now(),
            up: chance.ms(1_000_000, 9_000_000),
            drift_ppm,
            skew_ms: AtomicI64::new(skew_ms),
            cut_until: Mutex::new(Instant::now()),
        })
    }

    /// Sets the wall clock forward, or back.
    pub fn jump(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// How far its wall clock is ahead.
    pub fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Cuts it off from the store for this long.
    pub fn cut_off(&self, length: Duration) {
        *self.cut_until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + length;
    }

    /// Until when it is cut off; `None`: it is not.
    pub fn cut_until(&self) -> Option<Instant> {
        let until = *self.cut_until.lock().unwrap_or_else(PoisonError::into_inner);
        (until > Instant::now()).then_some(until)
    }

    fn boottime(&self) -> Duration {
        let passed = self.born.elapsed();
        let micros = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let drift = Duration::from_nanos((micros * self.drift_ppm / 1_000).unsigned_abs());
        if self.drift_ppm < 0 { self.up + passed - drift } else { self.up + passed + drift }
    }

    fn wall(&self) -> Duration {
        let skew = self.skew_ms();
        let ahead = Duration::from_millis(skew.unsigned_abs());
        let wall = WALL_START + self.born.elapsed();
        if skew < 0 { wall.saturating_sub(ahead) } else { wall + ahead }
    }
}

/// A process on a machine.
pub struct Process {
    /// The machine it runs on.
    pub machine: Arc<Machine>,
    /// What it is called.
    pub name: String,
    /// Where its random bytes come from, and all that it does at random.
    pub chance: Chance,
    life: Mutex<Life>,
    dead: watch::Sender<bool>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Life {
    dead: bool,
    stopped_until: Option<Instant>,
    tasks: Vec<Arc<Slot>>,
}

/// A task of a process, while it is not over.
type Slot = Mutex<Option<Task>>;

impl Process {
    /// A process with nothing to do yet.
    pub fn new(machine: &Arc<Machine>, name: &str, chance: Chance) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            machine: Arc::clone(machine),
            name: name.to_owned(),
            chance,
            life: Mutex::default(),
            dead: watch::Sender::new(false),
            this: Weak::clone(this),
        })
    }

    /// Does this until it is over or the process dies.
    pub fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(task));
    }

    fn spawn_boxed(self: &Arc<Self>, task: Task) {
        let slot = Arc::new(Mutex::new(Some(task)));
        {
            let mut life = self.life();
            if life.dead {
                return;
            }
            life.tasks.retain(|slot| slot.try_lock().map_or(true, |task| task.is_some()));
            life.tasks.push(Arc::clone(&slot));
        }
        tokio::spawn(Running { process: Arc::clone(self), slot, waiting: None });
    }

    /// Ends it at once, wherever its tasks stand. Nothing is cleaned up but what a kernel cleans up.
    pub fn kill(self: &Arc<Self>) {
        let tasks = {
            let mut life = self.life();
            life.dead = true;
            std::mem::take(&mut life.tasks)
        };
        for slot in tasks {
            // The one that is at it this very moment is dropped by whoever polls it.
            let task = slot.try_lock().ok().and_then(|mut slot| slot.take());
            self.act(|| drop(task));
        }
        self.dead.send_replace(true);
    }

    /// Stops it (SIGSTOP); it goes on after this long.
    pub fn stop_for(&self, length: Duration) {
        self.life().stopped_until = Some(Instant::now() + length);
    }

    /// Whether it was killed.
    pub fn is_dead(&self) -> bool {
        self.life().dead
    }

    /// Returns when it has been killed.
    pub async fn died(&self) {
        // The sender lives as long as this.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Does something in this process.
    fn act<R>(self: &Arc<Self>, act: impl FnOnce() -> R) -> R {
        let machine: Arc<dyn simulated::Machine> = Arc::clone(self) as _;
        simulated::on(&machine, act)
    }

    fn stopped_until(&self) -> Option<Instant> {
        self.life().stopped_until.filter(|until| *until > Instant::now())
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl simulated::Machine for Process {
    fn boottime(&self) -> Duration {
        self.machine.boottime()
    }

    fn wall(&self) -> Duration {
        self.machine.wall()
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.chance.fill(bytes);
    }

    fn keep(&self, task: Task) {
        if let Some(this) = self.this.upgrade() {
            this.spawn_boxed(task);
        }
    }
}

/// Polls a task of a process, on its machine, while the process lives and is not stopped.
struct Running {
    process: Arc<Process>,
    slot: Arc<Slot>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(until) = self.process.stopped_until() {
            let mut waiting = Box::pin(sleep_until(until));
            if waiting.as_mut().poll(context).is_pending() {
                self.waiting = Some(waiting);
                return Poll::Pending;
            }
        }
        self.waiting = None;
        let process = Arc::clone(&self.process);
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(task) = slot.as_mut() else { return Poll::Ready(()) };
        let polled = process.act(|| task.as_mut().poll(context));
        if polled.is_ready() || process.is_dead() {
            let over = slot.take();
            process.act(|| drop(over));
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// A future that runs on the machine of a process it is no task of: the store's, on behalf of a caller.
pub(crate) async fn on_machine_of<F: Future>(process: &Arc<Process>, future: F) -> F::Output {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| process.act(|| future.as_mut().poll(context))).await
}

/// The answer of a future that never waits, made on the machine of a process.
pub(crate) fn at_once<F: Future>(process: &Arc<Process>, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(std::task::Waker::noop());
    match process.act(|| future.as_mut().poll(&mut context)) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
