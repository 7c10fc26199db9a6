//! The `bell` command: locks with fences for agents, scripts and fleets.
//!
//! stdout is data, stderr is talk. A refusal is an answer: it has an outcome, says what to do next, and has
//! the exit code of the table in `bell_api::exit`.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `cli` | the command line: what can be asked for |
//! | `open` | which store a command talks to |
//! | `session`, `saved` | which session acts, and where tokens are kept |
//! | `lock` | the commands about locks, one file each |
//! | `run` | a command that runs only while its locks are held |
//! | `fence`, `store`, `docs` | the other commands |
//! | `doctor`, `drill` | what the store can lose; holders that sleep too long or die |
//! | `verify` | what the store can promise, proved on it |
//! | `init`, `check`, `config` | beginning a project; what is in it, and what is wrong with it |
//! | `up` | the daemon of a project |
//! | `work`, `stat`, `steer` | having agents run, seeing what came of it; holding, ending, queues |
//! | `agent` | what an agent says from inside its run |
//! | `demo` | the tour |
//! | `answer` | refusals as answers |
//! | `say`, `progress` | what people and programs get to see |
//! | `interrupt` | being told to stop |
//! | `span` | lengths of time |

mod agent;
mod answer;
mod check;
mod cli;
mod config;
mod demo;
mod docs;
mod doctor;
mod drill;
mod fence;
mod init;
mod interrupt;
mod lock;
mod open;
mod progress;
mod run;
mod saved;
mod say;
mod session;
mod span;
mod stat;
mod steer;
mod store;
mod up;
mod verify;
mod work;

use std::process::ExitCode;

use bell_api::exit;
use bell_core::work::speak::Word;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use answer::Refusal;
use cli::{Cli, Command, Globals};
use open::Scene;
use say::{Format, Say};

fn main() -> ExitCode {
    // First of all: these two must be alone in their process, and read no command line of people.
    if let Some(code) = up::beside_a_run() {
        return code;
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
    log_if_asked();
    let format = if cli.globals.json { Format::Json } else { Format::Plain };
    let say = Say::new(format);
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(act(&say, cli)).into(),
        Err(error) => say.refuse(&no_runtime(&error)).into(),
    }
}

async fn act(say: &Say, cli: Cli) -> u8 {
    let result = match cli.command {
        Command::Lock(command) => match scene(say, &cli.globals) {
            Ok(scene) => return lock::lock(&scene, command).await.unwrap_or_else(|no| scene.say.refuse(&no)),
            Err(refusal) => Err(refusal),
        },
        Command::Store(command) => match scene(say, &cli.globals) {
            Ok(scene) => {
                return store::store(&scene, &command).await.unwrap_or_else(|no| scene.say.refuse(&no));
            }
            Err(refusal) => Err(refusal),
        },
        Command::Doctor => match scene(say, &cli.globals) {
            Ok(scene) => return doctor::doctor(&scene).await.unwrap_or_else(|no| scene.say.refuse(&no)),
            Err(refusal) => Err(refusal),
        },
        Command::Drill(args) => match scene(say, &cli.globals) {
            Ok(scene) => return drill::drill(&scene, &args).await.unwrap_or_else(|no| scene.say.refuse(&no)),
            Err(refusal) => Err(refusal),
        },
        Command::DrillWorker(args) => match scene(say, &cli.globals) {
            Ok(scene) => drill::drill_worker(&scene, &args).await,
            Err(refusal) => Err(refusal),
        },
        Command::Verify(args) => return verify::verify(say, cli.globals.store.as_deref(), &args).await,
        Command::Fence(command) => fence::fence(say, &cli.globals, &command).await,
        Command::Init(args) => init::init(say, &args),
        Command::Check(args) => check::check(say, &args),
        Command::Config(command) => config::config(say, &command),
        Command::Up(args) => up::up(say, given(&cli.globals).as_deref(), &args).await,
        Command::Run(args) => work::run(say, given(&cli.globals).as_deref(), &args).await,
        Command::Runs(args) => work::runs(say, given(&cli.globals).as_deref(), &args).await,
        Command::Stat(args) => stat::stat(say, given(&cli.globals).as_deref(), &args).await,
        Command::Logs(args) => work::logs(say, &args).await,
        Command::Pause(args) => steer::pause(say, given(&cli.globals).as_deref(), &args).await,
        Command::Resume(args) => steer::resume(say, given(&cli.globals).as_deref(), &args).await,
        Command::Kill(args) => steer::kill(say, given(&cli.globals).as_deref(), &args).await,
        Command::Queue(args) => steer::queue(say, given(&cli.globals).as_deref(), &args).await,
        Command::Status(args) => {
            agent::speak(say, given(&cli.globals).as_deref(), Word::Status(args.text)).await
        }
        Command::Return(args) => {
            agent::speak(say, given(&cli.globals).as_deref(), Word::Return(args.text)).await
        }
        Command::Rerun => agent::speak(say, given(&cli.globals).as_deref(), Word::Rerun).await,
        Command::Call(args) => agent::call(say, given(&cli.globals).as_deref(), &args).await,
        Command::Demo => demo::demo(say).await,
        Command::Actor(args) => demo::actor(&args, cli.globals.store.as_deref()).await,
        Command::Completions { shell } => docs::completions(shell),
        Command::Man { out } => docs::man(say, out.as_deref()),
        // It became another program, or obeyed another, before it got here.
        Command::Become(_) | Command::VerifyWorker => Ok(exit::USAGE),
    };
    result.unwrap_or_else(|refusal| say.refuse(&refusal))
}

fn given(globals: &Globals) -> Option<String> {
    open::given(globals.store.clone())
}

fn scene(say: &Say, globals: &Globals) -> Result<Scene, Refusal> {
    Ok(Scene::new(say.clone(), open::choose(globals.store.as_deref())?))
}

/// Help and the version are answers; anything else is a command line that can't be understood.
fn misunderstood(error: &clap::Error) -> ExitCode {
    // Nobody is left to be told that the stream is closed.
    let _ = error.print();
    if error.use_stderr() { exit::USAGE.into() } else { exit::OK.into() }
}

/// Logs go to stderr, and only if `BELL_LOG` says which.
fn log_if_asked() {
    if let Ok(filter) = EnvFilter::try_from_env("BELL_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}

fn no_runtime(error: &std::io::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not start: {error}"),
        "Look at the limits of this process (ulimit -a) and try again.",
    )
}
