//! The numbers that operators watch, for Prometheus.
//!
//! Three kinds of them, by where they come from. What **stands** (locks held, queues, nodes) is read from the store when
//! somebody asks, and is the fleet's. What **happened** to jobs and runs is read from history, which every process that
//! ends a run writes, and is the fleet's too. What **this machine's processes did** (waited for locks, lost them, decided
//! ticks, took in deliveries, asked the store) is counted by themselves, and is the node's: supervisors and commands
//! tell the daemon theirs.
//!
//! Asking is never free of charge, so an answer is kept for a second, and for twenty times as long as it took to find:
//! watching takes a twentieth of the time at most, however much there is to count.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`names`] | every series: its name, its kind, its labels, what it means |
//! | `book` | the series themselves |
//! | `spread` | a histogram that others' buckets can be added to |
//! | `state` | what stands |
//! | `past` | what happened |

mod book;
pub mod names;
mod past;
mod spread;
mod state;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bell_control::Control;
use bell_control::store_history::TroubleKind;
use bell_coord::Denied;
use bell_coord::tally::{self, Counts};
use bell_core::work::agent::AgentName;
use bell_core::work::fire::Verdict;
use bell_store::clock::boottime;
use bell_store::layers;
use tokio::sync::Mutex;
use tokio::time::timeout;

use book::Book;
use past::Past;
use state::State;

/// What was found is kept for so long at least.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// And for so many times as long as it took to find.
const KEPT_FOR_TIMES: u32 = 20;

/// A store that takes longer is called away: whoever scrapes waits 10 s, as a rule.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// The label of whoever is not in the project.
const OTHER: &str = "other";

/// The numbers of one daemon. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    book: Book,
    control: OnceLock<Control>,
    store: Arc<layers::Metrics>,
    looked: Mutex<Looked>,
}

/// What was found when somebody last looked.
#[derive(Default)]
struct Looked {
    /// On the boot clock: until when it counts.
    until: Duration,
    past: Past,
}

impl Default for Metrics {
    /// Numbers of whoever has no store that is measured.
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Metrics {
    /// Counts from now on. `store` is what a layer of the daemon's store measures.
    pub fn new(store: Arc<layers::Metrics>) -> Self {
        let (control, looked) = (OnceLock::new(), Mutex::default());
        Self { inner: Arc::new(Inner { book: Book::new(), control, store, looked }) }
    }

    /// Watches the fleet: history counts from here on.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn watch(&self, control: Control) -> Result<(), Denied> {
        self.inner.looked.lock().await.past.begin(&control.coord).await?;
        // Whoever came first watches the same fleet.
        let _ = self.inner.control.set(control);
        Ok(())
    }

    /// A tick of a schedule was decided by this daemon.
    pub fn fired(&self, verdict: &Verdict) {
        let outcome = match verdict {
            Verdict::Job { .. } => "fired",
            Verdict::Skipped { .. } => "skipped",
        };
        self.inner.book.fires.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A tick of a schedule was too late for this daemon to decide.
    pub fn missed(&self) {
        self.inner.book.fires.get_or_create(&[("outcome", "missed")]).inc();
    }

    /// A delivery from outside was judged. Sources that the project does not have are counted together, so that nobody
    /// outside makes series.
    pub fn delivered(&self, source: &str, verdict: &'static str) {
        let is_ours = |control: &Control| control.loaded().settings.webhooks.contains_key(source);
        let source = if self.inner.control.get().is_some_and(is_ours) { source } else { OTHER };
        let labels = [("source", source.to_owned()), ("verdict", verdict.to_owned())];
        self.inner.book.deliveries.get_or_create(&labels).inc();
    }

    /// Adds what another process of this machine has counted.
    pub fn add(&self, counts: &Counts) {
        self.inner.book.add(counts);
    }

    /// Everything, as OpenMetrics text. A store that does not answer leaves out what stands and is told by
    /// `bell_store_up`.
    pub async fn text(&self) -> String {
        self.look().await;
        self.add(&tally::take());
        self.inner.book.show_store(&self.inner.store);
        self.inner.book.text()
    }

    async fn look(&self) {
        let Some(control) = self.inner.control.get() else { return };
        let mut looked = self.inner.looked.lock().await;
        let began = boottime();
        if began < looked.until {
            return;
        }
        let found = timeout(FOUND_WITHIN, find(control, &mut looked.past)).await;
        looked.until = boottime() + KEPT_FOR.max((boottime() - began) * KEPT_FOR_TIMES);
        let book = &self.inner.book;
        book.expect_deliveries(control.loaded().settings.webhooks.keys());
        match found {
            Ok(Ok((state, news))) => {
                let agents = control.loaded();
                let named = |agent: &AgentName| {
                    if agents.agents.contains_key(agent) { agent.to_string() } else { OTHER.to_owned() }
                };
                news.iter().for_each(|(at, event)| book.happened(*at, event, &named));
                book.show_trouble(None);
                book.show_state(&state);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not read the numbers of the fleet");
                if let Denied::Unavailable(error) = &error {
                    book.show_trouble(TroubleKind::of(error));
                }
                book.show_nothing();
            }
            Err(_late) => {
                tracing::warn!("could not read the numbers of the fleet in time");
                book.show_nothing();
            }
        }
    }
}

/// What stands, and what has happened since this was last asked.
async fn find(control: &Control, past: &mut Past) -> Result<(State, past::News), Denied> {
    let state = State::read(control).await?;
    Ok((state, past.news(&control.coord).await?))
}
