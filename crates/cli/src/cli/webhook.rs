//! The command line of `bell webhook`.

use std::path::PathBuf;

use bell_api::control::deliveries::DELIVERIES_MAX;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand, value_parser};

#[derive(Subcommand, Debug)]
pub(crate) enum WebhookCommand {
    /// Try out a payload: which agents want it, and filter by filter why or why not
    #[command(after_help = TEST_EXAMPLES)]
    Test(WebhookTestArgs),
    /// List what was told from outside and what came of it, the latest first
    #[command(after_help = LS_EXAMPLES)]
    Ls(WebhookListArgs),
    /// Show a delivery: what came of it, agent by agent why, and its payload
    #[command(after_help = SHOW_EXAMPLES)]
    Show(WebhookOneArgs),
    /// Tell a delivery again: as a new one, to the agents that want it now
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(WebhookOneArgs),
}

#[derive(Args, Debug)]
pub(crate) struct WebhookListArgs {
    /// Only those of this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// From when: a length of time before now (10m, 2h, 7d), or a moment like 2026-11-16T10:00Z
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// At most so many: the latest; 1000 is the most, and --since and --source say which
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = limit())]
    pub(crate) limit: u32,
}

#[derive(Args, Debug)]
pub(crate) struct WebhookOneArgs {
    /// The id of the delivery, as bell webhook ls shows it
    #[arg(value_name = "DELIVERY")]
    pub(crate) delivery: String,
    /// The source, if two gave the same id or it is no longer in config.toml
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct WebhookTestArgs {
    /// A file with the payload, or - for stdin
    ///
    /// The body as the source sends it, or a table of "headers" and "body".
    #[arg(value_name = "FIXTURE")]
    pub(crate) fixture: PathBuf,
    /// The source: a [webhooks.<source>] of config.toml; needed if there are several
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// What kind of event it is, for sources that say so in a header
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Make the jobs too, as a delivery that came just now
    #[arg(long)]
    pub(crate) run: bool,
}

pub(super) const WEBHOOK_EXAMPLES: &str = "\
Examples:
  bell webhook test issue.json --event issues
  bell webhook ls --since 1h
  bell webhook replay 72d3162e-cc78-11e3-81ab-4c9367dc0958";

const LS_EXAMPLES: &str = "\
Every verified delivery is on record for as long as history is kept (history_retention_days), also if no agent wanted it.
What was refused, for its signature or otherwise, is not.

  queued     jobs were made of it
  unmatched  no agent wants it
  full       the queue of an agent that wants it is full; sent again, it makes the job that is missing

Examples:
  bell webhook ls
  bell webhook ls --source my-github --since 1d --json";

const SHOW_EXAMPLES: &str = "\
Works without a daemon. The body is shown if it has at most 256 KiB; headers that prove something are not kept.

Examples:
  bell webhook show 72d3162e-cc78-11e3-81ab-4c9367dc0958
  bell webhook show evt_1 --source desk --json";

const REPLAY_EXAMPLES: &str = "\
The stored payload is read and matched with the project as it is now, and makes new jobs under a new id, with who did it.
Works without a daemon.

Exit codes: 0 jobs were made, 2 no agent wants it now, 1 the queue of an agent that wants it is full.

Examples:
  bell webhook replay 72d3162e-cc78-11e3-81ab-4c9367dc0958";

const TEST_EXAMPLES: &str = "\
Works without a daemon, without the secret and without the network. The payload is signed as its source would sign it and
takes the way of a real delivery.

Exit codes: 0 an agent wants it, 2 none does.

Examples:
  bell webhook test issue.json --event issues
  bell webhook test recorded.json --source my-github --run --json";

fn limit() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=i64::from(DELIVERIES_MAX))
}
