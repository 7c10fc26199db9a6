//! The `bell` command: locks with fences for agents, scripts and fleets.
//!
//! stdout is data, stderr is talk. A refusal is an answer: it has an outcome, says what to do next, and has
//! the exit code of the table in `bell_api::exit`.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `cli` | the command line: what can be asked for |
//! | `project` | which project a command is about, and which stores it uses |
//! | `open` | opening them |
//! | `session`, `saved` | which session acts, and where tokens are kept |
//! | `lock` | the commands about locks, one file each |
//! | `run` | a command that runs only while its locks are held |
//! | `fence`, `store`, `docs` | the other commands |
//! | `queue`, `publish`, `outbox`, `doctor_fs`, `folder` | what works on a shared folder, without a store |
//! | `doctor`, `drill` | what the store can lose; holders that sleep too long or die |
//! | `verify` | what the store can promise, proved on it |
//! | `init`, `check`, `config` | beginning a project; what is in it, and what is wrong with it |
//! | `up`, `stop` | the daemon of a project |
//! | `why`, `history`, `logs` | what operators ask: why, what happened, what a run printed |
//! | `fleet` | whom those ask: the store itself, or a gateway |
//! | `work`, `stat`, `steer` | having agents run, seeing what came of it; holding, ending, queues |
//! | `keys` | who may talk to the gateway |
//! | `audit` | what operators did |
//! | `webhook` | what comes from outside: trying it out, looking at it, telling it again |
//! | `desk` | whom a command about locks asks: a store, or the supervisor of its run |
//! | `agent`, `short` | what an agent says from inside its run; the same by short names |
//! | `mcp` | what a run or an operator can do, as tools of an MCP server; telling agent programs of it |
//! | `demo` | the tour |
//! | `answer` | refusals as answers |
//! | `counted` | what a command has seen of its locks, told to the daemon |
//! | `say`, `progress` | what people and programs get to see |
//! | `interrupt` | being told to stop |
//! | `span` | lengths of time |

mod agent;
mod answer;
mod audit;
mod check;
mod cli;
mod config;
mod counted;
mod demo;
mod desk;
mod docs;
mod doctor;
mod doctor_fs;
mod drill;
mod events;
mod fence;
mod fleet;
mod folder;
mod history;
mod init;
mod interrupt;
mod keys;
mod lock;
mod log_writer;
mod logs;
mod mcp;
mod open;
mod outbox;
mod progress;
mod project;
mod publish;
mod queue;
mod reload;
mod remote;
mod replay;
mod run;
mod saved;
mod say;
mod session;
mod short;
mod span;
mod stat;
mod steer;
mod stop;
mod store;
mod up;
mod verify;
mod webhook;
mod why;
mod work;

use std::process::ExitCode;

use bell_api::exit;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use agent::Word;
use answer::Refusal;
use cli::{Cli, Command};
use counted::counted;
use desk::Desk;
use fleet::Reach;
use log_writer::LogWriter;
use open::Scene;
use project::{Located, Start, here};
use say::{Format, Say};

/// A daemon serves for months, and ten thousand may wait in it: this one leaves fewer holes, and is faster where threads pass
/// things on to each other (docs/design/0016-the-allocator.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // First of all: these two must be alone in their process, and read no command line of people.
    if let Some(code) = up::beside_a_run() {
        return code;
    }
    if let Some(short) = short::called() {
        return by_short_name(short);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    if let Command::Become(args) = &cli.command {
        return run::start::become_command(args).into();
    }
    if matches!(cli.command, Command::VerifyWorker) {
        // It has a runtime of its own.
        bell_verify::work(&bell_verify::BuiltIn);
        return exit::OK.into();
    }
    let log = log(&cli.command);
    let _flush = log.as_ref().map(LogWriter::flush_at_end);
    let format = if cli.globals.json { Format::Json } else { Format::Plain };
    let say = Say::new(format).through(log);
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        // A daemon shows its own numbers.
        Ok(runtime) if matches!(cli.command, Command::Up(_)) => runtime.block_on(act(&say, cli)).into(),
        Ok(runtime) => {
            let start = Start::of(&cli.globals);
            runtime.block_on(counted(&start, act(&say, cli))).into()
        }
        Err(error) => say.refuse(&no_runtime(&error)).into(),
    }
}

/// One of the names that projects of Action Llama call this program by.
fn by_short_name(short: Result<cli::Short, clap::Error>) -> ExitCode {
    let short = match short {
        Ok(short) => short,
        Err(error) => {
            short::misunderstood(&error);
            return misunderstood(&error);
        }
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(short::short(short)).into(),
        Err(error) => Say::new(Format::Json).refuse(&no_runtime(&error)).into(),
    }
}

async fn act(say: &Say, cli: Cli) -> u8 {
    let reach = Reach::of(say, &cli.globals);
    if reach.is_named() && !cli.command.may_ask_a_gateway() {
        return say.refuse(&Refusal::invalid(
            "could not ask a gateway for this: it is done on the machine of the project, or on its store",
            "Leave --url out, and do it there.",
        ));
    }
    let result = match cli.command {
        Command::Lock(command) => match Desk::choose(say, &reach, command.access()) {
            Ok(desk) => return lock::lock(&desk, command).await.unwrap_or_else(|no| desk.say.refuse(&no)),
            Err(refusal) => Err(refusal),
        },
        Command::Store(command) => store::store(say, &reach, &command).await,
        Command::Doctor(cli::DoctorArgs { what: Some(cli::DoctorCommand::Fs(args)), .. }) => {
            doctor_fs::fs(say, &args)
        }
        Command::Doctor(_) => doctor::doctor(say, &reach).await,
        Command::Drill(args) => match scene(say, &reach) {
            Ok(scene) => return drill::drill(&scene, &args).await.unwrap_or_else(|no| scene.say.refuse(&no)),
            Err(refusal) => Err(refusal),
        },
        Command::DrillWorker(args) => match worker_scene(say, &reach) {
            Ok(scene) => drill::drill_worker(&scene, &args).await,
            Err(refusal) => Err(refusal),
        },
        Command::Verify(args) => return verify::verify(say, &reach, &args).await,
        Command::Fence(command) => fence::fence(say, &reach, &command).await,
        Command::Queue(command) => queue::queue(say, &command).await,
        Command::Publish(args) => publish::publish(say, &args),
        Command::Outbox(command) => outbox::outbox(say, &command),
        Command::Init(args) => init::init(say, &reach.start, &args),
        Command::Check(args) => check::check(say, &reach.start, &args),
        Command::Config(command) => config::config(say, &reach.start, &command),
        Command::Up(args) => up::up(say, &reach, &args).await,
        Command::Run(args) => work::run(say, &reach, &args).await,
        Command::Runs(args) => work::runs(say, &reach, &args).await,
        Command::Stat(args) => stat::stat(say, &reach, &args).await,
        Command::Logs(args) => logs::logs(say, &reach, &args).await,
        Command::Stop(args) => stop::stop(say, &reach, &args).await,
        Command::Reload => reload::reload(say, &reach).await,
        Command::Events(args) => events::events(say, &reach, &args).await,
        Command::Why(args) => why::why(say, &reach, &args).await,
        Command::History(args) => history::history(say, &reach, &args).await,
        Command::Pause(args) => steer::pause(say, &reach, &args).await,
        Command::Resume(args) => steer::resume(say, &reach, &args).await,
        Command::Kill(args) => steer::kill(say, &reach, &args).await,
        Command::Scale(args) => steer::scale(say, &reach, &args).await,
        Command::Jobs(args) => steer::jobs(say, &reach, &args).await,
        Command::Status(args) => agent::speak(say, Word::Status(args.text)).await,
        Command::Return(args) => agent::speak(say, Word::Return(args.text)).await,
        Command::Rerun => agent::speak(say, Word::Rerun).await,
        Command::Call(args) => agent::call(say, &args).await,
        Command::Mcp(args) => mcp::mcp(say, &reach, &args).await,
        Command::Webhook(command) => webhook::webhook(say, &reach, &command).await,
        Command::Audit(args) => audit::audit(say, &reach, &args).await,
        Command::Keys(command) => keys::keys(say, &reach, &command).await,
        Command::Demo => demo::demo(say).await,
        Command::Actor(args) => demo::actor(&args, cli.globals.store.as_deref()).await,
        Command::Completions { shell } => docs::completions(shell),
        Command::Man { out } => docs::man(say, out.as_deref()),
        // It became another program, or obeyed another, before it got here.
        Command::Become(_) | Command::VerifyWorker => Ok(exit::USAGE),
    };
    result.unwrap_or_else(|refusal| say.refuse(&refusal))
}

/// The store of the locks.
fn scene(say: &Say, reach: &Reach) -> Result<Scene, Refusal> {
    let Located { project, stores } = reach.start.stores(reach.store.as_ref())?;
    Ok(Scene::new(say, stores.locks, project))
}

/// The store that the drill has named in the environment, whatever the project says.
fn worker_scene(say: &Say, reach: &Reach) -> Result<Scene, Refusal> {
    match &reach.store {
        Some(store) => Ok(Scene::new(say, here(store), None)),
        None => scene(say, reach),
    }
}

/// Help and the version are answers; anything else is a command line that can't be understood.
fn misunderstood(error: &clap::Error) -> ExitCode {
    // Nobody is left to be told that the stream is closed.
    let _ = error.print();
    if error.use_stderr() { exit::USAGE.into() } else { exit::OK.into() }
}

/// Logs go to stderr. `BELL_LOG` says which; without it a daemon warns, and commands say what they say. Answers what a daemon
/// writes to stderr with.
fn log(command: &Command) -> Option<LogWriter> {
    let is_daemon = matches!(command, Command::Up(_));
    let writer = is_daemon.then(|| LogWriter::to(std::io::stderr())).and_then(Result::ok);
    let warns = is_daemon.then(|| EnvFilter::new("warn"));
    if let Some(filter) = EnvFilter::try_from_env("BELL_LOG").ok().or(warns) {
        let builder = tracing_subscriber::fmt().with_env_filter(filter);
        match writer.clone() {
            Some(writer) => builder.with_writer(move || writer.clone()).init(),
            None => builder.with_writer(std::io::stderr).init(),
        }
    }
    writer
}

fn no_runtime(error: &std::io::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not start: {error}"),
        "Look at the limits of this process (ulimit -a) and try again.",
    )
}
