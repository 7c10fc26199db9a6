//! The command line of what an agent says from inside its run.

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub(crate) struct WordArgs {
    /// The words
    pub(crate) text: String,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CallArgs {
    /// The agent to call
    #[arg(required = true)]
    pub(crate) agent: Option<String>,
    /// What to tell it, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) context: Option<String>,
    /// Wait until it is done, and print what it returned
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(subcommand)]
    pub(crate) command: Option<CallCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CallCommand {
    /// Show where a call stands
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckCallArgs),
    /// Wait until a call is over, and print what it returned
    #[command(after_help = WAIT_EXAMPLES)]
    Wait(WaitCallArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CheckCallArgs {
    /// The job that the call was accepted as
    pub(crate) job: String,
}

#[derive(Args, Debug)]
pub(crate) struct WaitCallArgs {
    /// The job that the call was accepted as
    pub(crate) job: String,
    /// How long to wait at the most [default: without limit]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
}

pub(super) const STATUS_EXAMPLES: &str = "\
Works inside a run. Exit codes: 0 noted, 3 not this run's token, 6 nobody to tell, 7 the run has ended.

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
  bell call reviewer --context '{\"number\": 42}' --wait
  job=$(bell call reviewer --json | jq -r .job); bell call wait \"$job\"";

const CHECK_EXAMPLES: &str = "\
Works inside the run that made the call.

Examples:
  bell call check 01a1e23044dc70d8b513fe9594f1c173";

const WAIT_EXAMPLES: &str = "\
Works inside the run that made the call. Exit codes: 0 it completed, 1 it did not, 8 the time is up and it goes on.

Examples:
  bell call wait 01a1e23044dc70d8b513fe9594f1c173 --timeout 10m";
