//! The series themselves.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bell_control::store_history::TroubleKind;
use bell_coord::tally::{Counts, WAIT_BUCKETS_SECONDS};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::job::Fate;
use bell_core::work::row::{Event, Then, What};
use bell_core::work::run::End;
use bell_store::clock::boottime;
use bell_store::layers::{self, BUCKETS_SECONDS, Op};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use super::names::{self, Series};
use super::spread::Spread;
use super::state::State;

/// Upper bounds of the buckets of runs, in seconds: from a script to a day's work.
const RUN_BUCKETS_SECONDS: [f64; 12] =
    [1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0];

/// For how long a node that is gone is shown as such. Who takes one out for good is reminded for so long.
const MISSED_FOR: Duration = Duration::from_secs(3_600);

/// Nodes that are shown. A fleet whose nodes get a new name with each start would make series without end.
const NODES_MAX: usize = 1_000;

/// No labels. A family of one can be cleared, which a gauge can't.
type Bare = [(&'static str, &'static str); 0];
type Word = [(&'static str, &'static str); 1];
type Text<const N: usize> = [(&'static str, String); N];

/// The series, and where they are written down together.
pub(crate) struct Book {
    registry: Registry,
    lock_wait: Family<Word, Spread, fn() -> Spread>,
    held: Family<Bare, Gauge>,
    waiters: Family<Bare, Gauge>,
    lost: Counter,
    renew_failures: Counter,
    broken: Counter,
    fence_rejected: Counter,
    fail_open: Counter,
    stale_jobs: Family<Word, Gauge>,
    orphans: Counter,
    queue_depth: Family<Text<1>, Gauge>,
    dropped: Family<Text<1>, Counter>,
    runs: Family<Text<2>, Counter>,
    run_seconds: Family<Text<1>, Spread, fn() -> Spread>,
    pub(crate) fires: Family<Word, Counter>,
    pub(crate) deliveries: Family<Text<2>, Counter>,
    store_seconds: Family<Word, Spread, fn() -> Spread>,
    store_errors: Family<Word, Counter>,
    store_up: Gauge,
    store_refused: Family<Word, Gauge>,
    node_up: Family<Text<1>, Gauge>,
    /// On the boot clock: when each node was last seen.
    nodes: Mutex<BTreeMap<String, Duration>>,
}

impl Book {
    pub(crate) fn new() -> Self {
        let mut book = Self {
            registry: Registry::default(),
            lock_wait: Family::new_with_constructor(|| Spread::new(&WAIT_BUCKETS_SECONDS)),
            held: Family::default(),
            waiters: Family::default(),
            lost: Counter::default(),
            renew_failures: Counter::default(),
            broken: Counter::default(),
            fence_rejected: Counter::default(),
            fail_open: Counter::default(),
            stale_jobs: Family::default(),
            orphans: Counter::default(),
            queue_depth: Family::default(),
            dropped: Family::default(),
            runs: Family::default(),
            run_seconds: Family::new_with_constructor(|| Spread::new(&RUN_BUCKETS_SECONDS)),
            fires: Family::default(),
            deliveries: Family::default(),
            store_seconds: Family::new_with_constructor(|| Spread::new(&BUCKETS_SECONDS)),
            store_errors: Family::default(),
            store_up: Gauge::default(),
            store_refused: Family::default(),
            node_up: Family::default(),
            nodes: Mutex::default(),
        };
        book.register();
        book.begin_at_zero();
        book
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        add(to, &names::LOCK_WAIT, self.lock_wait.clone());
        add(to, &names::LOCK_HELD, self.held.clone());
        add(to, &names::LOCK_WAITERS, self.waiters.clone());
        add(to, &names::LOCK_LOST, self.lost.clone());
        add(to, &names::RENEW_FAILURES, self.renew_failures.clone());
        add(to, &names::LOCK_BROKEN, self.broken.clone());
        add(to, &names::FENCE_REJECTED, self.fence_rejected.clone());
        add(to, &names::FAIL_OPEN, self.fail_open.clone());
        add(to, &names::STALE_JOBS, self.stale_jobs.clone());
        add(to, &names::ORPHANS, self.orphans.clone());
        add(to, &names::QUEUE_DEPTH, self.queue_depth.clone());
        add(to, &names::DROPPED, self.dropped.clone());
        add(to, &names::RUNS, self.runs.clone());
        add(to, &names::RUN_SECONDS, self.run_seconds.clone());
        add(to, &names::FIRES, self.fires.clone());
        add(to, &names::DELIVERIES, self.deliveries.clone());
        add(to, &names::STORE_SECONDS, self.store_seconds.clone());
        add(to, &names::STORE_ERRORS, self.store_errors.clone());
        add(to, &names::STORE_UP, self.store_up.clone());
        add(to, &names::STORE_REFUSED, self.store_refused.clone());
        add(to, &names::NODE_UP, self.node_up.clone());
        add(to, &names::BUILD, Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    }

    /// Series with a fixed set of labels are there from the start: the first thing that happens is a rise then, and
    /// alerts see it.
    fn begin_at_zero(&self) {
        for outcome in ["acquired", "timed_out", "deadlock", "unavailable"] {
            drop(self.lock_wait.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["fired", "skipped", "missed"] {
            drop(self.fires.get_or_create(&[("outcome", outcome)]));
        }
        self.show_trouble(None);
    }

    /// The same for each source: those verdicts that somebody is to be told of.
    pub(crate) fn expect_deliveries<'a>(&self, sources: impl Iterator<Item = &'a String>) {
        for source in sources {
            for verdict in ["no_secret", "unsigned", "bad_signature", "stale", "full", "unavailable"] {
                let labels = [("source", source.clone()), ("verdict", verdict.to_owned())];
                drop(self.deliveries.get_or_create(&labels));
            }
        }
    }

    /// Adds what a process has counted of its locks.
    pub(crate) fn add(&self, counts: &Counts) {
        let waits = [
            ("acquired", &counts.acquired),
            ("timed_out", &counts.timed_out),
            ("deadlock", &counts.deadlock),
            ("unavailable", &counts.unavailable),
        ];
        for (outcome, spread) in waits {
            let sum = Duration::from_nanos(spread.sum_ns).as_secs_f64();
            self.lock_wait.get_or_create(&[("outcome", outcome)]).add(sum, &spread.buckets);
        }
        self.lost.inc_by(counts.lost);
        self.renew_failures.inc_by(counts.renew_failures);
        self.broken.inc_by(counts.broken);
        self.fence_rejected.inc_by(counts.fence_rejected);
        self.fail_open.inc_by(counts.fail_open);
    }

    /// Counts what happened at a time. `named` gives the label of an agent.
    pub(crate) fn happened(&self, at: Wall, event: &Event, named: &impl Fn(&AgentName) -> String) {
        let Some(agent) = event.agent.as_ref().map(named) else { return };
        match &event.what {
            What::RunEnded { begun, end, then, .. } => {
                let labels = [("agent", agent.clone()), ("outcome", end.word().to_owned())];
                self.runs.get_or_create(&labels).inc();
                if let Some(begun) = begun {
                    let took = Duration::from_millis(at.0.saturating_sub(begun.0)).as_secs_f64();
                    self.run_seconds.get_or_create(&[("agent", agent)]).observe(took);
                }
                if *end == End::Lost && matches!(then, Then::Requeued | Then::Retry { .. }) {
                    self.orphans.inc();
                }
            }
            What::Shelved { fate: Fate::Dropped } => {
                self.dropped.get_or_create(&[("agent", agent)]).inc();
            }
            _ => {}
        }
    }

    /// Shows what stands.
    pub(crate) fn show_state(&self, state: &State) {
        self.store_up.set(1);
        self.held.get_or_create(&[]).set(number(state.held));
        self.waiters.get_or_create(&[]).set(number(state.waiters));
        self.stale_jobs.get_or_create(&[("reason", "dead_run")]).set(number(state.dead_runs));
        self.stale_jobs.get_or_create(&[("reason", "no_agent")]).set(i64::from(state.without_agent));
        // An agent that was removed has no queue any more.
        self.queue_depth.clear();
        for (agent, waiting) in &state.queues {
            let agent = [("agent", agent.clone())];
            self.queue_depth.get_or_create(&agent).set(i64::from(*waiting));
            // There from the start, so that the first one that is dropped is a rise.
            drop(self.dropped.get_or_create(&agent));
        }
        self.show_nodes(&state.nodes);
    }

    /// Shows that nobody knows what stands: no number is better than an old one.
    pub(crate) fn show_nothing(&self) {
        self.store_up.set(0);
        self.held.clear();
        self.waiters.clear();
        self.stale_jobs.clear();
        self.queue_depth.clear();
        self.node_up.clear();
    }

    /// Shows why the store is not used, or that it is.
    pub(crate) fn show_trouble(&self, trouble: Option<TroubleKind>) {
        for (reason, kind) in [("replaced", TroubleKind::Replaced), ("went_back", TroubleKind::WentBack)] {
            self.store_refused.get_or_create(&[("reason", reason)]).set(i64::from(trouble == Some(kind)));
        }
    }

    fn show_nodes(&self, there: &[String]) {
        let now = boottime();
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|_, seen| now.saturating_sub(*seen) < MISSED_FOR);
        for node in there {
            if nodes.contains_key(node) || nodes.len() < NODES_MAX {
                nodes.insert(node.clone(), now);
            }
        }
        self.node_up.clear();
        for node in nodes.keys() {
            self.node_up.get_or_create(&[("node", node.clone())]).set(i64::from(there.contains(node)));
        }
    }

    /// Shows what was asked of the store. Waiting for changes is left out: it takes as long as nothing changes.
    pub(crate) fn show_store(&self, store: &layers::Metrics) {
        for latency in store.snapshot().into_iter().filter(|latency| latency.op != Op::Changed) {
            let op = [("op", latency.op.as_str())];
            let mut before = 0;
            let within = latency.within.iter().chain([&latency.count]);
            let buckets = within.map(|count| count - std::mem::replace(&mut before, *count)).collect();
            self.store_seconds.get_or_create(&op).set(latency.sum.as_secs_f64(), buckets);
            let errors = self.store_errors.get_or_create(&op);
            let failed: u64 = latency.errors.iter().map(|(_, count)| count).sum();
            errors.inc_by(failed.saturating_sub(errors.get()));
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // A string takes whatever is written.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn add(to: &mut Registry, series: &Series, metric: impl Metric) {
    to.register(series.stem(), series.help, metric);
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
