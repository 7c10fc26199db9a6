//! The command line of `bell audit`.

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    /// Only what was done since: a length of time before now (2h, 7d), or a moment like 2026-11-16T10:00Z
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Acts to show: the latest
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AuditCommand {
    /// Read the whole record, and find out whether anything in it was changed, removed, put in or moved
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// What an earlier verification printed: fails if the record no longer has that entry
        #[arg(long, value_name = "NUMBER:HASH")]
        remembered: Option<String>,
    },
}

pub(super) const AUDIT_EXAMPLES: &str = "\
Every act of an operator is here: who did it, by which way, what, on what, why and when. It needs no daemon. Nothing is ever
removed.

Examples:
  bell audit
  bell audit --since 7d --json
  bell audit verify";

const VERIFY_EXAMPLES: &str = "\
Each entry carries the hash of the one before it. Whoever can write to the store could write all of it anew: so note what this
prints somewhere else, and compare later. Exits with 1 if the record was touched.

Examples:
  bell audit verify
  bell audit verify --remembered 41:9f2c…";
