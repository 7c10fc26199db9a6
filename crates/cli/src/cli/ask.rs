//! The command line of what operators ask: how it stands, what happened, why, and what a run printed.

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// An agent, a run, a job, the key of a lock, or a tick: AGENT@TIME
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

pub(super) const WHY_EXAMPLES: &str = "\
Answers from the records and the project's files, so it works while the daemon is down. The start of the name of a run or a
job is enough, if nothing else begins so. Exit code 2: nothing is called so, or several things are.

Examples:
  bell why triage                                  is it free, paused, disabled, at its cap?
  bell why triage-3f2a9c01d4                       how a run ended, what it waited for, what to do next
  bell why 01a1e23044dc70d8b513fe9594f1c173        what became of a job
  bell why triage@2026-11-16T10:00Z                whether a tick fired, and if not why
  bell why github://acme/app/issues/42             who holds a lock, and who waits for it";

#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    /// Only this agent, with its next five fires
    pub(crate) agent: Option<String>,
}

pub(super) const STAT_EXAMPLES: &str = "\
Works while the daemon is down.

Examples:
  bell stat
  bell stat triage
  bell stat --project projects/triage --json";

/// A kind of thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum HistoryKind {
    /// A job was accepted: by schedule, by hand, by a call, by a delivery
    Trigger,
    /// A run ended
    Run,
    /// A tick of a schedule did not become a job
    Skip,
    /// A job left the queue without being run
    Drop,
    /// A job that was over was queued again
    Replay,
    /// The fleet or an agent was paused or resumed
    Pause,
    /// An operator said how many of an agent may run
    Scale,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Only what happened to this agent, or to the whole fleet
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// From when: a length of time before now (10m, 2h, 7d), or a moment like 2026-11-16T10:00Z
    #[arg(long, value_name = "WHEN", default_value = "1d")]
    pub(crate) since: String,
    /// Only this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<HistoryKind>,
    /// At most so many: the last ones
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

pub(super) const HISTORY_EXAMPLES: &str = "\
In the order it happened, the latest last. What is older than historyRetentionDays is no longer kept.

Examples:
  bell history
  bell history --agent triage --since 2h
  bell history --kind skip --kind drop --since 7d --json";

#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Only what happens to this agent, or to the whole fleet
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Begin earlier than now: a length of time before now (10m, 2h), or a moment like 2026-11-16T10:00Z
    #[arg(long, value_name = "WHEN", conflicts_with = "after")]
    pub(crate) since: Option<String>,
    /// Go on after this event: its `id`, from --json
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Only this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<HistoryKind>,
}

pub(super) const EVENTS_EXAMPLES: &str = "\
Goes on until it is stopped. Asks the daemon where one runs, and the store itself where none does; when a daemon stops or
starts, it goes on where it was, so nothing is missed and nothing shown twice. With --json, one object on each line.

Examples:
  bell events
  bell events --agent triage --kind run
  bell events --since 1h --json
  bell events --json --after 4711.1.1763254778000";

pub(super) const RELOAD_EXAMPLES: &str = "\
A daemon notices changes by itself within a second, or within a few on file systems that tell nothing. This has it read the
project now, and returns when it has. What was held back because it appeared while runs were under way, one of which may
have made it (bell stat names it), counts from then on. Exit code 2: no daemon of this machine runs the project.

Examples:
  bell reload
  bell reload --project projects/triage
  bell reload --url http://127.0.0.1:8080 --key-file key";

/// A stream of an agent's output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum OutputStream {
    /// Its standard output
    Out,
    /// Its standard error
    Err,
}

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The run, or an agent: its last run. Without it: the last run of the project
    #[arg(value_name = "RUN|AGENT")]
    pub(crate) name: Option<String>,
    /// Go on while it runs; for an agent, also with its next runs
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only what was printed since: a length of time before now (10m), or a moment like 2026-11-16T10:00Z
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only lines with this text in them, as it stands: no pattern
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Only this stream
    #[arg(long, value_name = "STREAM")]
    pub(crate) stream: Option<OutputStream>,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// From this offset on: `next` of an earlier answer
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) from: u64,
}

pub(super) const LOGS_EXAMPLES: &str = "\
Works while the daemon is down, on the machine that the run was on. On a terminal, what could move its cursor or hide text is
shown as an escape; otherwise the output is given byte for byte. With --json an answer has about a megabyte of output at
most; `next` is where to go on.

Examples:
  bell logs triage-3f2a9c01d4
  bell logs -f triage
  bell logs triage --since 10m --grep error --stream err
  bell logs triage-3f2a9c01d4 --json --from 4096";

#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    /// End what runs, instead of letting it finish
    #[arg(long)]
    pub(crate) now: bool,
}

pub(super) const STOP_EXAMPLES: &str = "\
Asks the daemon of this project on this machine to stop, and waits until it has. Nothing new starts, and what runs may finish
within stop_timeout; a second bell stop, or --now, ends it. Waiting jobs are cleared or kept as on_stop says, and nothing
shared is cleared while other nodes live. With --url, the daemon behind that gateway is asked. Exit code 2: no daemon of this
machine runs the project.

Examples:
  bell stop
  bell stop --project projects/triage --now
  bell stop --url http://127.0.0.1:8080 --key-file key";

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Something else than the store
    #[command(subcommand)]
    pub(crate) what: Option<super::DoctorCommand>,
}
