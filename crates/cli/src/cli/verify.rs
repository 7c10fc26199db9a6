//! The command line of `bell verify`.

use clap::Args;

/// What to prove, and on which store.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The store; without it, the one that --store or $BELL_STORE names
    pub(crate) url: Option<String>,
    /// Try more processes and many more rounds: up to ten minutes
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Be over after this many seconds, whatever has not been tried by then
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Run only this check; may be repeated
    #[arg(long, value_name = "CHECK")]
    pub(crate) only: Vec<String>,
    /// Show the checks and what they prove
    #[arg(long)]
    pub(crate) list: bool,
    /// Count warnings as failures: what a power cut or a restart can lose
    #[arg(long)]
    pub(crate) strict: bool,
    /// Run on two machines at once, on the same store; they find each other through it
    #[arg(long, conflicts_with_all = ["only", "thorough", "seconds"])]
    pub(crate) peer: bool,
    /// How long to wait for the other machine, with --peer
    #[arg(long, value_name = "TIME", requires = "peer", default_value = "60s")]
    pub(crate) wait: String,
}

pub(super) const VERIFY_EXAMPLES: &str = "\
Everything happens in a part of the store of its own, which is removed afterwards; nothing else is touched. It
is over within 60 s. Each line is a verdict, the rules of the lock contract, the check, and what was seen.

Exit codes: 0 the rules held, 1 a rule was broken or can be by a fail-over, 5 the store did not answer, 8 something
was not tried for lack of time, or no peer came.

Examples:
  bell verify sqlite:/var/lib/bell/bell.db
  bell verify redis://:PASSWORD@db.example --json
  bell verify file:/mnt/shared/locks --only exclusion --only expiry
  bell verify postgres://bell@db.example/bell --thorough --strict
  bell verify file:/mnt/shared/locks --peer      on two machines, at the same time
  bell verify --list";
