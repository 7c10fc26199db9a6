//! `bell up`: the daemon of a project, and the process beside each of its runs.

mod banner;

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_daemon::flow::{Daemon, Options, Stopped, UpError};
use bell_daemon::supervisor::Keeper;
use bell_gateway::server::levers::Pace;
use bell_project::stores::absolute;
use bell_why::words::count;
use listenfd::ListenFd;
use serde::Serialize;

use crate::answer::{Refusal, refused};
use crate::cli::UpArgs;
use crate::fleet::Reach;
use crate::interrupt::Interrupts;
use crate::say::{Format, Say};
use crate::stop::bring_back;
use banner::{Ready, problem_lines};

/// What is told, one line each with `--json`: programs wait for `ready`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    /// Everything has started.
    Ready(Box<Ready>),
    /// It was told to stop.
    Stopping,
    /// It has stopped.
    Stopped {
        /// Jobs that were taken out of the queue; each can be replayed.
        cleared: usize,
        /// Runs that were told to stop.
        interrupted: usize,
    },
}

#[derive(Serialize)]
struct Told {
    outcome: Outcome,
    #[serde(flatten)]
    event: Event,
}

/// Becomes the supervisor of a run, or the step before an agent, if that is what this process was started for.
pub(crate) fn beside_a_run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        "__supervise" => {
            let run_dir = arguments.next()?;
            let run_dir = Path::new(&run_dir);
            Some(bell_runner::supervise::main(run_dir, || Keeper::of(run_dir)))
        }
        "__exec" => Some(bell_runner::stage::main()),
        "__delegate" => Some(bell_runner::delegate::main()),
        _ => None,
    }
}

/// Runs a project until told to stop. Answers the exit code.
pub(crate) async fn up(say: &Say, reach: &Reach, args: &UpArgs) -> Result<u8, Refusal> {
    bell_daemon::files::raise();
    let mut interrupts = Interrupts::listen()?;
    let program = std::env::current_exe().map_err(|error| {
        Refusal::unavailable(format!("could not find this program: {error}"), "Start it by its full path.")
    })?;
    let project = reach.start.or_at(args.dir.as_deref()).project_to_run()?;
    // A relative path in the environment is below the project, as it is for every other command.
    let store = reach.store.as_ref().map(|store| absolute(&store.url, &project));
    let options = Options { project, store, program, port: handed_over()? };
    let daemon = Daemon::start(&options).await.map_err(|error| not_up(say, &error))?;
    let ready = Ready::of(&daemon).await;
    if say.format() == Format::Plain {
        ready.lines().iter().for_each(|line| say.talk(line));
    }
    tell(say, Event::Ready(Box::new(ready)), "ready");
    let (asked, hurried) = (daemon.asked_to_stop(Pace::Gentle), daemon.asked_to_stop(Pace::Now));
    tokio::select! {
        _ = interrupts.next() => {}
        () = asked => {}
    }
    let words = "stopping: nothing new starts; what runs may finish (again, or bell stop --now, to end it)";
    say.talk(words);
    if say.format() == Format::Json {
        tell(say, Event::Stopping, "");
    }
    let stopped = daemon
        .stop(async {
            tokio::select! {
                _ = interrupts.next() => {}
                () = hurried => {}
            }
        })
        .await?;
    let Stopped { cleared, interrupted } = stopped;
    let (jobs, runs) = (count(cleared, "job"), count(interrupted, "run"));
    say.talk(&format!("stopped: {jobs} cleared from the queue, {runs} interrupted"));
    if cleared > 0 {
        say.talk(&bring_back(cleared));
    }
    if say.format() == Format::Json {
        tell(say, Event::Stopped { cleared, interrupted }, "");
    }
    Ok(exit::OK)
}

/// The port that systemd, or whoever else started this process, holds open for it: the first of `LISTEN_FDS`.
fn handed_over() -> Result<Option<Arc<TcpListener>>, Refusal> {
    let port = ListenFd::from_env().take_tcp_listener(0).map_err(|error| {
        Refusal::invalid(
            format!("could not use the socket that was handed over: {error}"),
            "Hand over a TCP socket that listens: ListenStream=127.0.0.1:8080 in bell.socket.",
        )
    })?;
    Ok(port.map(Arc::new))
}

fn tell(say: &Say, event: Event, plain: &str) {
    // A daemon goes on when nobody listens.
    let _ = say.answer(&Told { outcome: Outcome::Listed, event }, || plain.to_owned());
}

fn not_up(say: &Say, error: &UpError) -> Refusal {
    match error {
        UpError::Settings { folder, problems } => {
            let why: Vec<String> = problems.iter().flat_map(problem_lines).collect();
            let why = match say.format() {
                Format::Json => why.join("; "),
                // A line each: what is told in one message can't hold a line break.
                Format::Plain => {
                    why.iter().for_each(|line| say.talk(line));
                    "config.toml has the errors above".to_owned()
                }
            };
            Refusal::invalid(
                format!("could not start the project in {}: {why}", folder.display()),
                "Correct config.toml, then run bell up again; bell check validates the whole project.",
            )
        }
        UpError::Occupied(_) => Refusal::new(
            Outcome::Busy,
            error.to_string(),
            "Stop the other one (bell stop), or use bell run: it works with the one that is there.",
        ),
        UpError::Port { .. } => Refusal::unavailable(
            error.to_string(),
            "Set gateway.port in config.toml to one that is free, or to 0 for any.",
        ),
        UpError::Exposed(..) => Refusal::invalid(
            error.to_string(),
            "Set gateway.expose = true in config.toml if other machines are to reach it, and have a key (bell keys add).",
        ),
        UpError::NoUser { .. } => Refusal::invalid(error.to_string(), bell_daemon::run_user::REMEDIES),
        UpError::Unsupported(_) => Refusal::invalid(
            error.to_string(),
            "Remove `locks` from config.toml: the store of the project has them.",
        ),
        UpError::Disk { .. } => {
            Refusal::unavailable(error.to_string(), "Look at the rights of the project's folder.")
        }
        UpError::Store(denied) => Refusal(Box::new(refused(denied, None))),
    }
}
