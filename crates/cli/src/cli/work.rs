//! The command line of `bell up` and of what has agents run.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
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
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

pub(super) const STAT_EXAMPLES: &str = "\
Works while the daemon is down.

Examples:
  bell stat
  bell stat projects/triage --json";

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The run
    pub(crate) run: String,
    /// Go on while it runs
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct HoldArgs {
    /// Only this agent
    pub(crate) agent: Option<String>,
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) reason: String,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Only this agent
    pub(crate) agent: Option<String>,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct KillArgs {
    /// The run
    pub(crate) run: String,
    /// Why, for its record
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) reason: String,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct WordArgs {
    /// The words
    pub(crate) text: String,
}

#[derive(Args, Debug)]
pub(crate) struct CallArgs {
    /// The agent to call
    pub(crate) agent: String,
    /// What to tell it, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) context: Option<String>,
    /// Wait until it is done, and print what it returned
    #[arg(long)]
    pub(crate) wait: bool,
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
}

pub(super) const STATUS_EXAMPLES: &str = "\
Works inside a run. Exit codes: 0 noted, 3 this is no run, 6 nobody to tell, 7 the run has ended.

Examples:
  bell status 'reading issue 42'";

pub(super) const RETURN_EXAMPLES: &str = "\
Works inside a run. The last value counts; whoever called the agent gets it when the run has ended.

Examples:
  bell return '{\"merged\": true}'";

pub(super) const RERUN_EXAMPLES: &str = "\
Works inside a run by schedule or by hand: once it has completed, it is run again at once, max_reruns times in a row at
most.

Examples:
  bell rerun";

pub(super) const CALL_EXAMPLES: &str = "\
Works inside a run. A busy agent queues the call. With --wait the exit code is 0 if it completed, 1 if it did not.

Examples:
  bell call reviewer --context '{\"number\": 42}' --wait";

#[derive(Args, Debug)]
pub(crate) struct QueueArgs {
    /// The folder of the project
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    pub(crate) project: PathBuf,
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// Show what waits, agent by agent
    #[command(after_help = QUEUE_LIST_EXAMPLES)]
    List,
    /// Show the jobs that were not done: failed, dropped, cleared
    #[command(after_help = UNDONE_EXAMPLES)]
    Undone,
    /// Queue a job again that is over
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay {
        /// The job
        job: String,
    },
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

pub(super) const QUEUE_EXAMPLES: &str = "\
Examples:
  bell queue list
  bell queue undone
  bell queue replay 01a1e23044dc70d8b513fe9594f1c173";

const QUEUE_LIST_EXAMPLES: &str = "\
Examples:
  bell queue list
  bell queue list --json";

const UNDONE_EXAMPLES: &str = "\
Examples:
  bell queue undone
  bell queue undone --json";

const REPLAY_EXAMPLES: &str = "\
Examples:
  bell queue replay 01a1e23044dc70d8b513fe9594f1c173";

const CANCEL_EXAMPLES: &str = "\
Examples:
  bell queue cancel 01a1e23044dc70d8b513fe9594f1c173";

const CLEAR_EXAMPLES: &str = "\
Examples:
  bell queue clear triage";

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
  bell runs --limit 100 --json";

pub(super) const LOGS_EXAMPLES: &str = "\
Works while the daemon is down, on the machine that the run was on.

Examples:
  bell logs triage-3f2a9c01d4
  bell logs -f triage-3f2a9c01d4";
