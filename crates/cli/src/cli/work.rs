//! The command line of `bell up` and of what has agents run.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// The project, or a folder in it
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RunAgentArgs {
    /// The agent
    pub(crate) agent: String,
    /// Words for the agent, in its trigger
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Wait until it is done, and end as it ended
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Only those of this agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Args, Debug)]
pub(crate) struct HoldArgs {
    /// Only this agent
    pub(crate) agent: Option<String>,
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Only this agent
    pub(crate) agent: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct KillArgs {
    /// The run
    pub(crate) run: String,
    /// Why, for its record
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    /// The agent
    pub(crate) agent: String,
    /// How many of it may run at once, or default: as its settings say
    #[arg(value_name = "N|default")]
    pub(crate) scale: String,
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    pub(crate) command: JobsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum JobsCommand {
    /// Show what waits, agent by agent
    #[command(after_help = JOBS_LIST_EXAMPLES)]
    List,
    /// Show the jobs that were not done: failed, dropped, cleared
    #[command(after_help = UNDONE_EXAMPLES)]
    Undone,
    /// Queue a job again that is over, or every dead letter of a kind
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Take a job out of the queue
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel {
        /// The job
        job: String,
    },
    /// Take every job of an agent out of the queue; each can be replayed
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear {
        /// The agent
        agent: String,
    },
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct ReplayArgs {
    /// The job
    #[arg(group = "what", conflicts_with_all = ["cleared", "dropped", "agent", "since", "all"])]
    pub(crate) job: Option<String>,
    /// Every job that a stop or bell jobs clear took out of the queue
    #[arg(long, group = "what")]
    pub(crate) cleared: bool,
    /// Every job that a full queue dropped
    #[arg(long, group = "what")]
    pub(crate) dropped: bool,
    /// Only those of this agent
    #[arg(long, group = "what")]
    pub(crate) agent: Option<String>,
    /// Only those since: a length of time before now (10m), or a moment like 2026-11-16T10:00Z
    #[arg(long, group = "what", value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Every dead letter, whatever the reason; also those that failed
    #[arg(long, group = "what", conflicts_with_all = ["cleared", "dropped"])]
    pub(crate) all: bool,
    /// Show what would be replayed, and replay nothing
    #[arg(long, conflicts_with = "job")]
    pub(crate) dry_run: bool,
}

pub(super) const PAUSE_EXAMPLES: &str = "\
Nothing new starts, on any node, until bell resume; what runs goes on, and what is asked for waits. Ticks of schedules are
skipped, each with a row that says so.

Examples:
  bell pause --reason 'database is being moved'
  bell pause triage";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  bell resume
  bell resume triage";

pub(super) const KILL_EXAMPLES: &str = "\
The whole process tree gets TERM, and KILL after its grace; its locks are free when nothing of it is left.

Examples:
  bell kill triage-3f2a9c01d4 --reason 'it goes in circles'";

pub(super) const SCALE_EXAMPLES: &str = "\
Counts on every node, whatever the settings of the agent say and however often the daemon starts again, until it is said
otherwise. What runs goes on: with fewer, no new run begins until enough have ended. The scale of the whole project still holds.
An agent that its settings disable gets no webhooks and no calls by this; bell run and its schedule work.

Examples:
  bell scale triage 4 --reason 'a backlog of 300 issues'
  bell scale triage 0
  bell scale triage default";

pub(super) const JOBS_EXAMPLES: &str = "\
Examples:
  bell jobs list
  bell jobs undone
  bell jobs replay 01a1e23044dc70d8b513fe9594f1c173";

const JOBS_LIST_EXAMPLES: &str = "\
Examples:
  bell jobs list
  bell jobs list --json";

const UNDONE_EXAMPLES: &str = "\
Examples:
  bell jobs undone
  bell jobs undone --json";

const REPLAY_EXAMPLES: &str = "\
Several at once are replayed in the order in which they were accepted, each once: what was replayed is no dead letter any
more. A job whose queue is full stays a dead letter, and the exit code is 1; the same command replays it later. Without
--cleared and --dropped, --agent and --since take every dead letter that they name.

Examples:
  bell jobs replay 01a1e23044dc70d8b513fe9594f1c173
  bell jobs replay --cleared --dry-run
  bell jobs replay --dropped --agent triage --since 2h
  bell jobs replay --all --json";

const CANCEL_EXAMPLES: &str = "\
Examples:
  bell jobs cancel 01a1e23044dc70d8b513fe9594f1c173";

const CLEAR_EXAMPLES: &str = "\
Examples:
  bell jobs clear triage";

pub(super) const UP_EXAMPLES: &str = "\
SIGTERM or Ctrl-C stops it: nothing new starts, and what runs may finish; a second one ends what runs. Killed without
warning it loses nothing: runs go on, and the next bell up finds them again.

Examples:
  bell up
  bell up projects/triage --store postgres://db.example/bell";

pub(super) const RUN_EXAMPLES: &str = "\
Accepted means stored: it will run, also if no daemon runs now. With --wait the exit code is 0 if it completed, 1 if
it did not.

Examples:
  bell run triage
  bell run triage --prompt 'only issue 42' --wait";

pub(super) const RUNS_EXAMPLES: &str = "\
Examples:
  bell runs
  bell runs --agent triage
  bell runs --limit 100 --json";
