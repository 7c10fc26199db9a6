//! The command line: what can be asked for. Nothing here does it.
//!
//! Lengths of time and keys arrive as text and are read later, so that a wrong one is answered like any
//! other refusal (an outcome, a hint, exit code 4) and not as a misunderstanding of the command line.

mod agent;
mod ask;
mod audit;
mod drill;
mod fence;
mod folder;
mod keys;
mod lock;
mod mcp;
mod project;
mod short;
mod verify;
mod webhook;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use agent::{CallArgs, CallCommand, WordArgs};
pub(crate) use ask::{
    DoctorArgs, EventsArgs, HistoryArgs, HistoryKind, LogsArgs, OutputStream, StatArgs, StopArgs, WhyArgs,
};
pub(crate) use audit::{AuditArgs, AuditCommand};
pub(crate) use drill::{DrillArgs, DrillWorkerArgs};
pub(crate) use fence::{FenceCommand, PushArgs, ServeArgs, ShowArgs, WriteArgs};
pub(crate) use folder::{
    DoctorCommand, DoctorFsArgs, ItemState, OutboxCleanArgs, OutboxCommand, OutboxDirArgs, OutboxPathArgs,
    OutboxPutArgs, PublishArgs, QueueClaimArgs, QueueCommand, QueueDirArgs, QueueDoneArgs, QueueFailArgs,
    QueueInitArgs, QueueJanitorArgs, QueueLsArgs, QueuePushArgs, QueueRequeueArgs, QueueWorkArgs,
};
pub(crate) use keys::{AddKeyArgs, KeyRole, KeysCommand};
pub(crate) use lock::{
    AcquireArgs, BreakArgs, KeyArgs, LockCommand, PrefixArgs, ReleaseArgs, RenewArgs, RunArgs, SessionArgs,
    WaitArgs,
};
pub(crate) use mcp::{ClientName, InstallArgs, McpArgs, McpCommand};
pub(crate) use project::{CheckArgs, ConfigCommand, InitArgs, ShowConfigArgs};
pub(crate) use short::{Short, ShortCall, ShortWait};
pub(crate) use verify::VerifyArgs;
pub(crate) use webhook::{WebhookCommand, WebhookListArgs, WebhookOneArgs, WebhookTestArgs};
pub(crate) use work::{
    HoldArgs, JobsArgs, JobsCommand, KillArgs, ReplayArgs, ResumeArgs, RunAgentArgs, RunsArgs, ScaleArgs,
    UpArgs,
};

/// Runs fleets of agents, and keeps them out of each other's way
#[derive(Parser, Debug)]
#[command(name = "bell", version, propagate_version = true, subcommand_required = true)]
#[command(arg_required_else_help = true, after_help = TOP_EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes stands apart from its own options in its help.
const WHERE: &str = "Which fleet";

/// What every command takes.
#[derive(Args, Debug)]
pub(crate) struct Globals {
    /// Answer with one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where the records are: sqlite:PATH, file:FOLDER, redis://HOST, postgres://HOST/DATABASE or etcd://HOST
    ///
    /// Without it: inside a run, what its supervisor uses; else $BELL_STORE; else what config.toml of the project names; else
    /// .bell/bell.db of the project. Locks outside of a project are in a store of this user: bell/bell.db in $XDG_STATE_HOME or
    /// ~/.local/state.
    #[arg(long, value_name = "URL", global = true, help_heading = WHERE)]
    pub(crate) store: Option<String>,
    /// The project, or a folder in it. Else $BELL_PROJECT; else the current folder
    ///
    /// The project is the nearest folder, from there upwards, that has .bell, or config.toml and agents.
    #[arg(long, value_name = "DIR", global = true, help_heading = WHERE)]
    pub(crate) project: Option<PathBuf>,
    /// Ask this gateway instead of a store: http://HOST:PORT or unix:SOCKET. Else $BELL_GATEWAY
    ///
    /// For what operators ask and do. Without it, a project whose daemon runs is asked on its own socket.
    #[arg(long = "url", value_name = "URL", global = true, conflicts_with = "store", help_heading = WHERE)]
    pub(crate) gateway: Option<String>,
    /// A file with the API key for --url. Else the key in $BELL_API_KEY
    #[arg(long, value_name = "FILE", global = true, help_heading = WHERE)]
    pub(crate) key_file: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Take, keep, give back and look at locks
    #[command(subcommand, arg_required_else_help = true, after_help = LOCK_EXAMPLES)]
    Lock(LockCommand),
    /// Write files and push commits in a way that refuses whoever lost its lock
    #[command(subcommand, arg_required_else_help = true, after_help = fence::FENCE_EXAMPLES)]
    Fence(FenceCommand),
    /// Share work between machines through a folder: claim by rename, fences, a janitor
    #[command(subcommand, arg_required_else_help = true, after_help = folder::QUEUE_EXAMPLES)]
    Queue(QueueCommand),
    /// Have files or a folder appear whole, or not at all
    #[command(after_help = folder::PUBLISH_EXAMPLES)]
    Publish(PublishArgs),
    /// Write below a folder of one's own, and read what all have written
    #[command(subcommand, arg_required_else_help = true, after_help = folder::OUTBOX_EXAMPLES)]
    Outbox(OutboxCommand),
    /// Look at the store
    #[command(subcommand, arg_required_else_help = true, after_help = STORE_EXAMPLES)]
    Store(StoreCommand),
    /// Say what this store promises and can lose, what this machine lacks for a project, and what to change
    #[command(after_help = drill::DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Pause and kill holders of locks on this store, and see that no stale write gets through
    #[command(after_help = drill::DRILL_EXAMPLES)]
    Drill(DrillArgs),
    /// Prove on a store of your own what it can promise, and clean up afterwards
    #[command(after_help = verify::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Begin a project, with two sample agents
    #[command(after_help = project::INIT_EXAMPLES)]
    Init(InitArgs),
    /// Say everything that is wrong with a project: its agents, their settings, and what they need
    #[command(after_help = project::CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Look at the settings of a project and its agents
    #[command(subcommand, arg_required_else_help = true, after_help = project::CONFIG_EXAMPLES)]
    Config(ConfigCommand),
    /// Run the agents of a project: on schedule and on demand, until told to stop
    #[command(after_help = work::UP_EXAMPLES)]
    Up(UpArgs),
    /// Have an agent run now, or as soon as a runner is free
    #[command(after_help = work::RUN_EXAMPLES)]
    Run(RunAgentArgs),
    /// Stop the daemon of a project
    #[command(after_help = ask::STOP_EXAMPLES)]
    Stop(StopArgs),
    /// Have the daemon of a project read its files again, now
    #[command(after_help = ask::RELOAD_EXAMPLES)]
    Reload,
    /// Say why something happened, or did not
    #[command(after_help = ask::WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Show what happened: triggers, runs, skips and drops, with the reasons
    #[command(after_help = ask::HISTORY_EXAMPLES)]
    History(HistoryArgs),
    /// Follow what happens, as it happens
    #[command(after_help = ask::EVENTS_EXAMPLES)]
    Events(EventsArgs),
    /// Show how the fleet stands: what runs, what waits, what is due next
    #[command(after_help = ask::STAT_EXAMPLES)]
    Stat(StatArgs),
    /// Show what runs and what ran, the latest first
    #[command(after_help = work::RUNS_EXAMPLES)]
    Runs(RunsArgs),
    /// Show what a run printed
    #[command(after_help = ask::LOGS_EXAMPLES)]
    Logs(LogsArgs),
    /// Let nothing new start, in the whole fleet or of one agent
    #[command(after_help = work::PAUSE_EXAMPLES)]
    Pause(HoldArgs),
    /// Let a paused fleet or agent go on
    #[command(after_help = work::RESUME_EXAMPLES)]
    Resume(ResumeArgs),
    /// End a run, with every process that it started
    #[command(after_help = work::KILL_EXAMPLES)]
    Kill(KillArgs),
    /// Say how many of an agent may run at once, whatever its settings say
    #[command(after_help = work::SCALE_EXAMPLES)]
    Scale(ScaleArgs),
    /// Look after what waits, and what was not done
    #[command(after_help = work::JOBS_EXAMPLES)]
    Jobs(JobsArgs),
    /// Try out what comes from outside
    #[command(subcommand, arg_required_else_help = true, after_help = webhook::WEBHOOK_EXAMPLES)]
    Webhook(WebhookCommand),
    /// Say who may talk to the gateway
    #[command(subcommand, arg_required_else_help = true, after_help = keys::KEYS_EXAMPLES)]
    Keys(KeysCommand),
    /// Show what operators did, and whether that record was touched
    #[command(after_help = audit::AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Say what this run is doing
    #[command(after_help = agent::STATUS_EXAMPLES)]
    Status(WordArgs),
    /// Give a value back to whoever called this run
    #[command(after_help = agent::RETURN_EXAMPLES)]
    Return(WordArgs),
    /// Ask for this run to be run again
    #[command(after_help = agent::RERUN_EXAMPLES)]
    Rerun,
    /// Call another agent from this run
    #[command(after_help = agent::CALL_EXAMPLES)]
    Call(CallArgs),
    /// Serve what a run or an operator can do as MCP tools, on standard input and output
    #[command(after_help = mcp::MCP_EXAMPLES)]
    Mcp(McpArgs),
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
    /// One of the processes of `bell drill`.
    #[command(name = "__drill-worker", hide = true)]
    DrillWorker(DrillWorkerArgs),
    /// One of the processes of `bell verify`.
    #[command(name = "__verify-worker", hide = true)]
    VerifyWorker,
}

impl Command {
    /// Whether it can be asked of a gateway. What can't must not be done to something else that is near.
    pub(crate) fn may_ask_a_gateway(&self) -> bool {
        matches!(
            self,
            Self::Lock(_)
                | Self::Run(_)
                | Self::Runs(_)
                | Self::Stat(_)
                | Self::Logs(_)
                | Self::Stop(_)
                | Self::Reload
                | Self::Events(_)
                | Self::Why(_)
                | Self::History(_)
                | Self::Pause(_)
                | Self::Resume(_)
                | Self::Kill(_)
                | Self::Scale(_)
                | Self::Jobs(_)
                | Self::Mcp(_)
                | Self::Webhook(WebhookCommand::Ls(_) | WebhookCommand::Show(_) | WebhookCommand::Replay(_))
        )
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum StoreCommand {
    /// Show which store this is, what chose it, and what it promises
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
  bell init fleet && cd fleet && bell up             agents on schedule and on demand
  bell why desk                                      why it ran, or did not
  bell lock run deploy://api-prod -- ./deploy.sh     one at a time, on this machine or in the fleet
  bell lock list                                     who holds what

Exit codes:
  0 ok                    5 unavailable: the store does not answer
  1 conflict              6 unreachable: nobody answers
  2 not found             7 lost: the lease is over
  3 not authorised        8 the wait timed out
  4 bad request           9 usage: the command line can't be understood
                         10 limit: the caller has as much as one caller may have";

const LOCK_EXAMPLES: &str = "\
Examples:
  bell lock run deploy://api-prod -- ./deploy.sh
  bell lock acquire github://acme/app/issues/42 --ttl 10m --wait 30s
  bell lock release github://acme/app/issues/42";

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

A file or folder that was brought back from a backup can't know it, and takes commits: raise its epoch before anything
starts again, or it grants fences that it granted before.

Examples:
  bell store raise-epoch --store redis://db.example
  bell store raise-epoch --store sqlite:/srv/bell.db --yes
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
