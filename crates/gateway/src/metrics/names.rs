//! Every series that there is: its name, its kind, its labels, and what it means. The reference page, the alert rules and
//! the dashboard are checked against this table.

/// What a number does over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only rises, and begins at 0 with the daemon.
    Counter,
    /// It rises and falls.
    Gauge,
    /// It is counted in buckets.
    Histogram,
    /// It is always 1: its labels tell.
    Info,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// Whose number it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The fleet's: every node says the same, so take the `max` over nodes.
    Fleet,
    /// The node's own: take the `sum` over nodes.
    Node,
}

impl Of {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Node => "node",
        }
    }
}

/// One series, or a family of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Series {
    /// As Prometheus has it.
    pub name: &'static str,
    /// What it does over time.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Whose it is.
    pub of: Of,
    /// What it means. No full stop: the format adds one.
    pub help: &'static str,
}

impl Series {
    /// The name without the ending that its kind adds.
    pub(crate) fn stem(&self) -> &'static str {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.name.strip_suffix(ending).unwrap_or(self.name)
    }
}

/// The table, for the reference page.
pub fn markdown() -> String {
    let mut page =
        "| series | kind | labels | of the | what it means |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for series in ALL {
        let labels: Vec<String> = series.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, of) = (series.kind.word(), series.of.word());
        page +=
            &format!("| `{}` | {kind} | {} | {of} | {}. |\n", series.name, labels.join(", "), series.help);
    }
    page
}

macro_rules! series {
    ($($place:ident: $kind:ident of $of:ident, $name:literal $labels:tt $help:literal;)*) => {
        $(pub(crate) const $place: Series = Series {
            name: $name, kind: Kind::$kind, labels: &$labels, of: Of::$of, help: $help,
        };)*

        /// All of them, in the order in which they are shown.
        pub const ALL: &[Series] = &[$($place),*];
    };
}

series! {
    LOCK_WAIT: Histogram of Node, "bell_lock_wait_seconds" ["outcome"]
        "How long requests for locks took until they were granted (acquired) or refused (timed_out, deadlock, unavailable)";
    LOCK_HELD: Gauge of Fleet, "bell_lock_held" []
        "Leases that are held now, without Bellwether's own";
    LOCK_WAITERS: Gauge of Fleet, "bell_lock_waiters" []
        "Requests that wait in the queues of locks now";
    LOCK_LOST: Counter of Node, "bell_lock_lost_total" []
        "Leases that were over before their holders gave them back";
    RENEW_FAILURES: Counter of Node, "bell_lock_renew_failures_total" []
        "Renewals of leases and heartbeats of sessions that failed";
    LOCK_BROKEN: Counter of Node, "bell_lock_broken_total" []
        "Locks that operators took from their holders";
    FENCE_REJECTED: Counter of Node, "bell_fence_rejected_total" []
        "Writes that a guard refused because a later holder had written: each would have been corruption";
    FAIL_OPEN: Counter of Node, "bell_fail_open_total" []
        "Acts that went on without their lock because the store did not answer and their policy allows it";
    STALE_JOBS: Gauge of Fleet, "bell_stale_jobs" ["reason"]
        "Jobs that nobody works on and nobody will: their run is dead (dead_run), or the project lacks their agent (no_agent)";
    ORPHANS: Counter of Fleet, "bell_orphan_replayed_total" []
        "Jobs that were queued again because the machine or supervisor of their run died";
    QUEUE_DEPTH: Gauge of Fleet, "bell_queue_depth" ["agent"]
        "Jobs that wait for a runner";
    DROPPED: Counter of Fleet, "bell_queue_dropped_total" ["agent"]
        "Jobs that were dropped because the queue was full; each can be replayed";
    RUNS: Counter of Fleet, "bell_runs_total" ["agent", "outcome"]
        "Runs that have ended, by how";
    RUN_SECONDS: Histogram of Fleet, "bell_run_seconds" ["agent"]
        "How long runs took from their beginning to their end";
    FIRES: Counter of Node, "bell_cron_fires_total" ["outcome"]
        "Ticks of schedules: became a job (fired), were left out with a reason (skipped), or came while nobody was there (missed)";
    DELIVERIES: Counter of Node, "bell_webhook_deliveries_total" ["source", "verdict"]
        "Deliveries from outside, by what became of them";
    STORE_SECONDS: Histogram of Node, "bell_store_seconds" ["op"]
        "How long the daemon's store took to answer";
    STORE_ERRORS: Counter of Node, "bell_store_errors_total" ["op"]
        "Requests of the daemon that its store did not carry out";
    STORE_UP: Gauge of Node, "bell_store_up" []
        "Whether the store answered when this was asked for (1) or not (0)";
    STORE_REFUSED: Gauge of Node, "bell_store_refused" ["reason"]
        "Whether the daemon refuses to use its store until an operator acts (1): its files were replaced, or it went_back in time";
    NODE_UP: Gauge of Fleet, "bell_node_up" ["node"]
        "Whether a node of the fleet is there (1), or was within the last hour and is gone (0)";
    BUILD: Info of Node, "bell_build_info" ["version"]
        "Which Bellwether this is";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_as_their_kind_wants_and_come_once() {
        for series in ALL {
            assert_eq!(series.kind == Kind::Counter, series.name.ends_with("_total"), "{}", series.name);
            assert_eq!(ALL.iter().filter(|other| other.name == series.name).count(), 1, "{}", series.name);
            assert!(series.name.starts_with("bell_") && !series.help.ends_with('.'), "{}", series.name);
        }
    }
}
