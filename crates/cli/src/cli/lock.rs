//! The commands about locks.

use std::ffi::OsString;
use std::path::PathBuf;

use bell_core::lock::Mode;
use clap::{Args, Subcommand};

use crate::open::Access;

#[derive(Subcommand, Debug)]
pub(crate) enum LockCommand {
    /// Run a command while holding locks, and give them back when it ends
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Take locks and leave them standing until released or their ttl is over
    #[command(after_help = ACQUIRE_EXAMPLES)]
    Acquire(AcquireArgs),
    /// Give a lock back
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(ReleaseArgs),
    /// Make a lock last its full ttl again, from now
    #[command(after_help = RENEW_EXAMPLES)]
    Renew(RenewArgs),
    /// Show who holds a key and who waits for it
    #[command(after_help = SHOW_EXAMPLES)]
    Show(KeyArgs),
    /// List the keys that are held or waited for
    #[command(after_help = LIST_EXAMPLES)]
    List(PrefixArgs),
    /// Wait until nobody holds a key, without taking it
    #[command(after_help = WAIT_EXAMPLES)]
    Wait(WaitArgs),
    /// Take a lock from whoever holds it; shows what it would do unless --yes is given
    #[command(after_help = BREAK_EXAMPLES)]
    Break(BreakArgs),
    /// Print changes as they happen, until interrupted
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(PrefixArgs),
}

impl LockCommand {
    /// What it does with the store: only taking a lock creates one.
    pub(crate) fn access(&self) -> Access {
        match self {
            Self::Run(_) | Self::Acquire(_) => Access::Write,
            Self::Watch(_) => Access::Follow,
            Self::Release(_)
            | Self::Renew(_)
            | Self::Show(_)
            | Self::List(_)
            | Self::Wait(_)
            | Self::Break(_) => Access::Read,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct AcquireArgs {
    /// What to lock, as scheme://name; several are taken together or not at all
    #[arg(required = true, value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// How long it lasts without renewal: 1s to 7d [default: 30m]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) ttl: Option<String>,
    /// How long to wait in the queue [default: do not wait]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    /// Share it with others who ask for it shared
    #[arg(long)]
    pub(crate) shared: bool,
    /// Words that others see in `bell lock list`
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Repeated with the same id, a request has the one outcome
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// Which session acts.
#[derive(Args, Debug)]
pub(crate) struct SessionArgs {
    /// The file with the session's token, created by acquire if it is missing; or the token in $BELL_SESSION
    #[arg(long, value_name = "PATH")]
    pub(crate) session_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    /// The locked key
    pub(crate) key: String,
    /// Only the lease with this fence
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RenewArgs {
    /// The locked key
    pub(crate) key: String,
    /// How long it lasts from now [default: as it was taken]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) ttl: Option<String>,
    /// Only the lease with this fence
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// The key
    pub(crate) key: String,
}

#[derive(Args, Debug)]
pub(crate) struct PrefixArgs {
    /// Only keys that start with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// The key
    pub(crate) key: String,
    /// How long to wait at the most [default: without limit]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct BreakArgs {
    /// The locked key
    pub(crate) key: String,
    /// Why; the holder is told, and it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// What to lock, as scheme://name; several are taken together or not at all
    #[arg(required_unless_present = "flock", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Hold a real flock(2) on this file too, for scripts that know nothing else; without a KEY, it is the key
    #[arg(long, value_name = "FILE")]
    pub(crate) flock: Option<PathBuf>,
    /// Length of the lease, renewed every third of it: if bell is killed or the machine dies, the lock is free after at most 15s, or after this if it is shorter [default: 60s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) ttl: Option<String>,
    /// How long to wait for the lock [default: without limit]
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    /// Do not wait
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Share it with others who ask for it shared
    #[arg(short, long)]
    pub(crate) shared: bool,
    /// The exit code if the lock can't be had in time
    #[arg(short = 'E', long, value_name = "N", default_value_t = bell_api::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,
    /// How long a command whose lock is lost may take to end before it is killed, at most until its lease ends [default: 10s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) kill_after: Option<String>,
    /// Words that others see in `bell lock list` [default: the command's name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// If the store does not answer, run the command without locks whose keys start with this; may be given several times
    #[arg(long, value_name = "PREFIX", conflicts_with = "flock")]
    pub(crate) fail_open: Vec<String>,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl AcquireArgs {
    /// With whom the locks may be held together.
    pub(crate) fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }
}

impl RunArgs {
    /// With whom the locks may be held together.
    pub(crate) fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }
}

const RUN_EXAMPLES: &str = "\
The command finds the first key in $BELL_LOCK_KEY, its fence in $BELL_LOCK_FENCE, and the fences of all
keys as a JSON object in $BELL_LOCK_FENCES. Its exit code is passed on (128+n if signal n ended it), and
signals are passed to it. If the lock is lost it gets TERM, then KILL, and the exit code is 7. When it
ends the lock is free, even if processes that it started live on. If bell itself is killed, the lock is
free at once where the store notices (see bell store info), and the command gets TERM.

A store that does not answer is a refusal: nothing runs without its lock, unless --fail-open names the start of every key.
Then the command runs without them, is told so by fence 0 (guards refuse it where anybody has written with a lock), and
each time is said on stderr and counted (bell_fail_open_total).

With --json a refusal is one JSON object on stdout; once the command has started stdout is its own, and
what bell has to say is on stderr.

Examples:
  bell lock run deploy://api-prod -- ./deploy.sh
  bell lock run -n -E 75 job:nightly -- nightly-report        skip it if it runs already
  bell lock run -s -w 10s file:///srv/index -- search foo     together with other readers
  bell lock run --flock /run/backup.lock -- ./backup.sh       also seen by flock(1) and pidfile tools";

const ACQUIRE_EXAMPLES: &str = "\
Each call is a session of its own, so two scripts never share a lock by accident, unless $BELL_SESSION (a
token) or --session-file says which session asks. The token is kept for this user, so that release and
renew find it; --json shows it. Inside a run of an agent the run is the session: its locks end with it.

Examples:
  bell lock acquire deploy://api-prod
  bell lock acquire github://acme/app/issues/42 --ttl 10m --wait 30s --label 'triage'
  bell lock acquire file:///srv/a file:///srv/b --json";

const RELEASE_EXAMPLES: &str = "\
Examples:
  bell lock release deploy://api-prod
  bell lock release deploy://api-prod --fence 12";

const RENEW_EXAMPLES: &str = "\
Examples:
  bell lock renew deploy://api-prod
  bell lock renew deploy://api-prod --ttl 1h";

const SHOW_EXAMPLES: &str = "\
Examples:
  bell lock show deploy://api-prod
  bell lock show deploy://api-prod --json";

const LIST_EXAMPLES: &str = "\
Examples:
  bell lock list
  bell lock list github://acme/ --json";

const WAIT_EXAMPLES: &str = "\
Examples:
  bell lock wait deploy://api-prod --timeout 5m
  bell lock wait deploy://api-prod && echo free";

const BREAK_EXAMPLES: &str = "\
Examples:
  bell lock break deploy://api-prod --reason 'its machine is gone'
  bell lock break deploy://api-prod --reason 'its machine is gone' --yes";

const WATCH_EXAMPLES: &str = "\
Examples:
  bell lock watch
  bell lock watch deploy:// --json";
