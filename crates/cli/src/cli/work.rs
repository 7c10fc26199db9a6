//! The command line of `bell up` and of what has agents run.

use std::path::PathBuf;

use clap::Args;

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
