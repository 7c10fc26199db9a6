//! The command line: what can be asked for. Nothing here does it.
//!
//! Lengths of time and keys arrive as text and are read later, so that a wrong one is answered like any
//! other refusal (an outcome, a hint, exit code 4) and not as a misunderstanding of the command line.

mod lock;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use lock::{
    AcquireArgs, BreakArgs, KeyArgs, LockCommand, PrefixArgs, ReleaseArgs, RenewArgs, RunArgs, WaitArgs,
};

/// Locks with fences for agents, scripts and fleets
#[derive(Parser, Debug)]
#[command(name = "bell", version, propagate_version = true, subcommand_required = true)]
#[command(arg_required_else_help = true, after_help = TOP_EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args, Debug)]
pub(crate) struct Globals {
    /// Answer with one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where the locks are: sqlite:PATH or file:FOLDER
    ///
    /// Without it: $BELL_STORE; else bell.db in the nearest .bell folder, from here upwards; else one
    /// store for this user, in $XDG_STATE_HOME/bell or ~/.local/state/bell.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Take, keep, give back and look at locks
    #[command(subcommand, arg_required_else_help = true, after_help = LOCK_EXAMPLES)]
    Lock(LockCommand),
    /// Write files in a way that refuses whoever lost its lock
    #[command(subcommand, arg_required_else_help = true, after_help = FENCE_EXAMPLES)]
    Fence(FenceCommand),
    /// Look at the store
    #[command(subcommand, arg_required_else_help = true, after_help = STORE_EXAMPLES)]
    Store(StoreCommand),
    /// See it work in seconds: real processes, in a folder that is removed afterwards
    #[command(after_help = DEMO_EXAMPLES)]
    Demo,
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of every command
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Write one page for each command into this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Becomes a command of `bell lock run`.
    #[command(name = "__become", hide = true)]
    Become(BecomeArgs),
    /// One of the processes of `bell demo`.
    #[command(name = "__actor", hide = true)]
    Actor(ActorArgs),
}

#[derive(Subcommand, Debug)]
pub(crate) enum FenceCommand {
    /// Replace a file by what stands on stdin, unless a later holder has written it
    #[command(after_help = WRITE_EXAMPLES)]
    Write(WriteArgs),
    /// Show the highest fence that a file has seen
    #[command(after_help = SEEN_EXAMPLES)]
    Show {
        /// The guarded file
        path: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct WriteArgs {
    /// The file to replace
    pub(crate) path: PathBuf,
    /// The fence of the lock that guards the file
    #[arg(long, value_name = "N", env = "BELL_LOCK_FENCE")]
    pub(crate) fence: u64,
}

#[derive(Subcommand, Debug)]
pub(crate) enum StoreCommand {
    /// Show what the store promises
    #[command(after_help = INFO_EXAMPLES)]
    Info,
    /// Let commits go on in a store that may have gone back; shows what it would do unless --yes is given
    #[command(after_help = RAISE_EXAMPLES)]
    RaiseEpoch {
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

/// A shell that completes commands.
#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum Shell {
    /// The Bourne-again shell
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct BecomeArgs {
    /// Whose death ends the command.
    #[arg(long)]
    pub(crate) parent: u32,
    /// The command.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct ActorArgs {
    /// What the process is called in the story.
    #[arg(long)]
    pub(crate) name: String,
}

const TOP_EXAMPLES: &str = "\
Examples:
  bell demo                                          see it work
  bell lock run deploy://api-prod -- ./deploy.sh     one at a time, on this machine or in the fleet
  bell lock list                                     who holds what

Exit codes:
  0 ok                    5 unavailable: the store does not answer
  1 conflict              6 unreachable: nobody answers
  2 not found             7 lost: the lease is over
  3 not authorised        8 the wait timed out
  4 bad request           9 usage: the command line can't be understood";

const LOCK_EXAMPLES: &str = "\
Examples:
  bell lock run deploy://api-prod -- ./deploy.sh
  bell lock acquire github://acme/app/issues/42 --ttl 10m --wait 30s
  bell lock release github://acme/app/issues/42";

const FENCE_EXAMPLES: &str = "\
Examples:
  bell lock run file:///srv/report -- sh -c 'make-report | bell fence write /srv/report'
  bell fence show /srv/report";

const WRITE_EXAMPLES: &str = "\
The content is replaced whole or not at all, and the fence is remembered beside the file. A write whose
fence is lower than one seen before is refused: outcome stale, exit code 7.

Examples:
  make-report | bell fence write report.txt --fence 12
  bell lock run file:///srv/report -- sh -c 'make-report | bell fence write /srv/report'";

const SEEN_EXAMPLES: &str = "\
Examples:
  bell fence show report.txt
  bell fence show report.txt --json";

const STORE_EXAMPLES: &str = "\
Examples:
  bell store info
  bell store info --store file:/mnt/shared/locks --json";

const INFO_EXAMPLES: &str = "\
Examples:
  bell store info
  bell store info --store sqlite:/var/lib/bell/bell.db --json";

const RAISE_EXAMPLES: &str = "\
A server that may have lost what it acknowledged (after a restart or a fail-over) refuses every commit. Make
sure first that nobody relies on locks granted before: stop the programs that held them, or wait out their
ttl. Fences granted afterwards are above all that were granted before.

Examples:
  bell store raise-epoch --store redis://db.example
  bell store raise-epoch --store redis://db.example --yes";

const DEMO_EXAMPLES: &str = "\
Examples:
  bell demo
  bell demo --json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bell completions bash > ~/.local/share/bash-completion/completions/bell
  bell completions zsh > ~/.zfunc/_bell
  bell completions fish > ~/.config/fish/completions/bell.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  bell man | man -l -
  bell man --out ~/.local/share/man/man1";
