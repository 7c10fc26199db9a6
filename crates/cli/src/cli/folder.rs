//! The command line of what works on a shared folder: queues, publishing, outboxes, and trying one out.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// Make a folder a queue, or change the settings of one
    #[command(after_help = QUEUE_INIT_EXAMPLES)]
    Init(QueueInitArgs),
    /// Put items in: files, or what stands on stdin
    #[command(after_help = QUEUE_PUSH_EXAMPLES)]
    Push(QueuePushArgs),
    /// Claim the oldest item and print where it lies
    #[command(after_help = QUEUE_CLAIM_EXAMPLES)]
    Claim(QueueClaimArgs),
    /// Mark a claimed item as done
    #[command(after_help = QUEUE_DONE_EXAMPLES)]
    Done(QueueDoneArgs),
    /// Give a claimed item up: it is tried again, or put aside after as many tries as the queue allows
    #[command(after_help = QUEUE_FAIL_EXAMPLES)]
    Fail(QueueFailArgs),
    /// List items, oldest first
    #[command(after_help = QUEUE_LS_EXAMPLES)]
    Ls(QueueLsArgs),
    /// Count what waits, is claimed, done and failed
    #[command(after_help = QUEUE_STAT_EXAMPLES)]
    Stat(QueueDirArgs),
    /// Put an item that failed, or that a worker has, back by hand
    #[command(after_help = QUEUE_REQUEUE_EXAMPLES)]
    Requeue(QueueRequeueArgs),
    /// Put back what dead workers left; shows what it would do unless --yes is given
    #[command(after_help = QUEUE_JANITOR_EXAMPLES)]
    Janitor(QueueJanitorArgs),
    /// Print the counts whenever they change, until interrupted
    #[command(after_help = QUEUE_WATCH_EXAMPLES)]
    Watch(QueueDirArgs),
    /// Run a command for each item, with heartbeat and fence
    #[command(after_help = QUEUE_WORK_EXAMPLES)]
    Work(QueueWorkArgs),
}

#[derive(Args, Debug)]
pub(crate) struct QueueInitArgs {
    /// The folder
    pub(crate) dir: PathBuf,
    /// How often an item is tried before it goes to failed/
    #[arg(long, value_name = "N", default_value_t = bell_locks::folder::queue::DEFAULT_ATTEMPTS)]
    pub(crate) attempts: u64,
    /// Sync nothing to the disk: faster, and a power cut may take the last seconds
    #[arg(long)]
    pub(crate) no_sync: bool,
}

#[derive(Args, Debug)]
pub(crate) struct QueuePushArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// Files whose content becomes an item each; without any, stdin is one
    pub(crate) files: Vec<PathBuf>,
    /// The name of the item, if it is one [default: the time, so that items sort oldest first]
    #[arg(long)]
    pub(crate) name: Option<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct QueueClaimArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// The name of the worker, which is that of its folder in claimed/ [default: one that nobody else has]
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    /// Only items whose name fits: * is anything, ? any character
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// How long to wait for an item [default: do not wait]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    /// The process that does the work, like $$: the janitor of its machine notices its end at once
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct QueueDoneArgs {
    /// The claimed item, as claim printed it
    #[arg(required = true, value_name = "CLAIM")]
    pub(crate) claims: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct QueueFailArgs {
    /// The claimed item, as claim printed it
    #[arg(value_name = "CLAIM")]
    pub(crate) claim: PathBuf,
    /// Why, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct QueueLsArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// Which items
    #[arg(long, value_enum, default_value_t = ItemState::Waiting)]
    pub(crate) state: ItemState,
    /// At the most this many
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: usize,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum ItemState {
    /// Nobody has them
    Waiting,
    /// Workers have them
    Claimed,
    /// They are finished
    Done,
    /// They were given up
    Failed,
}

#[derive(Args, Debug)]
pub(crate) struct QueueDirArgs {
    /// The queue
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct QueueRequeueArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// Items in failed/, by the names that ls shows
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Take them from this worker instead
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct QueueJanitorArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// For how long a worker with a heartbeat may be silent [default: 1m]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) silent: Option<String>,
    /// For how long any other worker may take for an item [default: 1h]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) unattended: Option<String>,
    /// For how long other janitors stay away [default: 30s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) window: Option<String>,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct QueueWorkArgs {
    /// The queue
    pub(crate) dir: PathBuf,
    /// The name of the worker, which is that of its folder in claimed/ [default: one that nobody else has]
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    /// End when nothing waits, instead of waiting for more
    #[arg(long)]
    pub(crate) drain: bool,
    /// End after this many items
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// How long a command whose item was taken back may take to end before it is killed [default: 10s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) kill_after: Option<String>,
    /// The command and its arguments, after --; {} is where the item lies
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct PublishArgs {
    /// A file, a folder, or several files that appear together
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest", value_name = "SRC")]
    pub(crate) sources: Vec<PathBuf>,
    /// Where it is to appear
    #[arg(long, value_name = "DEST")]
    pub(crate) to: PathBuf,
    /// A list of files that appear together: one path in each line, ` -> name` gives it another name
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// The fence of the lock that guards the destination
    #[arg(long, value_name = "N", env = "BELL_LOCK_FENCE")]
    pub(crate) fence: Option<u64>,
    /// Put a folder in place as a version that the destination is a link to
    #[arg(long)]
    pub(crate) linked: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum OutboxCommand {
    /// Print the folder of a writer; it is made if it is not there
    #[command(after_help = OUTBOX_PATH_EXAMPLES)]
    Path(OutboxPathArgs),
    /// Put files out: whole, or not at all
    #[command(after_help = OUTBOX_PUT_EXAMPLES)]
    Put(OutboxPutArgs),
    /// List the files of all writers, in the order of time
    #[command(after_help = OUTBOX_LS_EXAMPLES)]
    Ls(OutboxDirArgs),
    /// Print the files of all writers, in the order of time
    #[command(after_help = OUTBOX_CAT_EXAMPLES)]
    Cat(OutboxDirArgs),
    /// Remove what silent writers left half-written; shows what it would do unless --yes is given
    #[command(after_help = OUTBOX_CLEAN_EXAMPLES)]
    Clean(OutboxCleanArgs),
}

#[derive(Args, Debug)]
pub(crate) struct OutboxPathArgs {
    /// The folder of all writers
    pub(crate) dir: PathBuf,
    /// The writer [default: the run in whose environment this is, else the process that calls]
    #[arg(long, value_name = "NAME", env = "BELL_RUN")]
    pub(crate) writer: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OutboxPutArgs {
    /// The folder of all writers
    pub(crate) dir: PathBuf,
    /// Files to put out; without any, stdin is one
    pub(crate) files: Vec<PathBuf>,
    /// The writer [default: the run in whose environment this is, else the process that calls]
    #[arg(long, value_name = "NAME", env = "BELL_RUN")]
    pub(crate) writer: Option<String>,
    /// What the name of the file ends in, if it is one
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OutboxDirArgs {
    /// The folder of all writers
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct OutboxCleanArgs {
    /// The folder of all writers
    pub(crate) dir: PathBuf,
    /// For how long a writer must have been silent [default: 1h]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) silent: Option<String>,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DoctorCommand {
    /// Try out what a folder's file system really does, and say what may be built on it
    #[command(after_help = DOCTOR_FS_EXAMPLES)]
    Fs(DoctorFsArgs),
}

#[derive(Args, Debug)]
pub(crate) struct DoctorFsArgs {
    /// The folder
    pub(crate) path: PathBuf,
    /// Try it out together with another machine, on which the same command runs now
    #[arg(long)]
    pub(crate) peer: bool,
    /// How long to wait for the other machine [default: 2m]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "peer")]
    pub(crate) wait: Option<String>,
}

pub(super) const QUEUE_EXAMPLES: &str = "\
A queue is a folder: queue/ has what waits, claimed/<worker>/ what is worked on, done/ and failed/ the rest. Plain mv
into queue/, and from there into claimed/<worker>/, is the same as push and claim.

Examples:
  bell queue init /mnt/work/q
  bell queue push /mnt/work/q report.json
  bell queue work /mnt/work/q -- ./handle.sh {}
  bell queue janitor /mnt/work/q --yes";

const QUEUE_INIT_EXAMPLES: &str = "\
Examples:
  bell queue init /mnt/work/q
  bell queue init /mnt/work/q --attempts 5";

const QUEUE_PUSH_EXAMPLES: &str = "\
Written hidden, synced, then renamed into place: workers see an item whole or not at all.

Examples:
  bell queue push /mnt/work/q report.json
  echo '{\"id\": 42}' | bell queue push /mnt/work/q --name item-42";

const QUEUE_CLAIM_EXAMPLES: &str = "\
Exactly one claimer gets an item. Exit code 2: nothing waits. Nothing beats for a worker that claims and goes on by
itself: with --pid its end is noticed at once on its machine, elsewhere after the janitor's --unattended.

Examples:
  item=$(bell queue claim /mnt/work/q --pid $$) && ./handle.sh \"$item\" && bell queue done \"$item\"
  bell queue claim /mnt/work/q --match '*.json' --wait 5m";

const QUEUE_DONE_EXAMPLES: &str = "\
Refused with exit code 7 if the item was taken back meanwhile: then what was done for it does not count.

Examples:
  bell queue done /mnt/work/q/claimed/worker-3/item-42";

const QUEUE_FAIL_EXAMPLES: &str = "\
Examples:
  bell queue fail /mnt/work/q/claimed/worker-3/item-42 --reason 'can not be parsed'";

const QUEUE_LS_EXAMPLES: &str = "\
Examples:
  bell queue ls /mnt/work/q
  bell queue ls /mnt/work/q --state failed --json";

const QUEUE_STAT_EXAMPLES: &str = "\
Examples:
  bell queue stat /mnt/work/q
  bell queue stat /mnt/work/q --json";

const QUEUE_REQUEUE_EXAMPLES: &str = "\
The fence rises, and tries are counted from 1 again. Whoever had the item is refused from then on.

Examples:
  bell queue requeue /mnt/work/q 'item-42#3'
  bell queue requeue /mnt/work/q item-42 --worker worker-3";

const QUEUE_JANITOR_EXAMPLES: &str = "\
On its own machine a worker is gone when its process is; elsewhere when it was silent for too long, by the file
server's clock. One janitor sweeps in each window; run it from cron on every machine.

Examples:
  bell queue janitor /mnt/work/q
  bell queue janitor /mnt/work/q --silent 2m --yes";

const QUEUE_WATCH_EXAMPLES: &str = "\
Examples:
  bell queue watch /mnt/work/q
  bell queue watch /mnt/work/q --json";

const QUEUE_WORK_EXAMPLES: &str = "\
The command finds the item at {} and in BELL_ITEM, and beside it BELL_ITEM_NAME, BELL_ITEM_FENCE, BELL_ITEM_ATTEMPT and
BELL_QUEUE. Exit code 0 marks the item as done, any other as failed. If the item is taken back, the command is ended.

Examples:
  bell queue work /mnt/work/q -- ./handle.sh {}
  bell queue work /mnt/work/q --drain -- sh -c 'convert \"$BELL_ITEM\" out.png'";

pub(super) const PUBLISH_EXAMPLES: &str = "\
Copied to a hidden place beside DEST, synced, then put in place by one rename: readers see the old or the new. With a
fence it is refused (exit code 7) if a later holder of the lock has published. Whoever reads several files of a
folder opens the folder once.

Examples:
  bell publish report.json --to /srv/www/report.json
  bell publish build/ --to /srv/www/site --linked
  bell lock run file:///srv/index -- bell publish index/ --to /srv/index
  bell publish --manifest files.txt --to /srv/release";

pub(super) const OUTBOX_EXAMPLES: &str = "\
Everybody writes below a folder of its own, so nothing has to be coordinated.

Examples:
  bell outbox put /mnt/work/out result.json
  bell outbox ls /mnt/work/out
  bell outbox cat /mnt/work/out > all.jsonl";

const OUTBOX_PATH_EXAMPLES: &str = "\
Examples:
  cp result.json \"$(bell outbox path /mnt/work/out --writer agent-7)\"";

const OUTBOX_PUT_EXAMPLES: &str = "\
Examples:
  bell outbox put /mnt/work/out result.json
  make-report | bell outbox put /mnt/work/out --writer agent-7 --name report.json";

const OUTBOX_LS_EXAMPLES: &str = "\
Examples:
  bell outbox ls /mnt/work/out
  bell outbox ls /mnt/work/out --json";

const OUTBOX_CAT_EXAMPLES: &str = "\
With --json it is one object: each file with its writer and its name, its content as `text`, or as `base64` where it is no UTF-8.

Examples:
  bell outbox cat /mnt/work/out > all.jsonl
  bell --json outbox cat /mnt/work/out | jq -r '.letters[].text'";

const OUTBOX_CLEAN_EXAMPLES: &str = "\
What was put out is never removed: only half-written files and empty folders are.

Examples:
  bell outbox clean /mnt/work/out
  bell outbox clean /mnt/work/out --silent 1d --yes";

const DOCTOR_FS_EXAMPLES: &str = "\
Exit code 1: something may not be used here.

Examples:
  bell doctor fs /mnt/work
  bell doctor fs /mnt/work --peer --wait 5m";
