//! `bell up`: the daemon of a project, and the process beside each of its runs.

use std::path::Path;
use std::process::ExitCode;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_daemon::flow::{Daemon, Options, UpError};
use bell_daemon::supervisor::Keeper;
use bell_locks::open::redacted;
use serde::Serialize;

use crate::answer::{Refusal, refused};
use crate::cli::UpArgs;
use crate::interrupt::Interrupts;
use crate::say::Say;

/// What is told once the daemon is ready.
#[derive(Serialize)]
struct Ready {
    outcome: Outcome,
    project: String,
    store: String,
    agents: Vec<String>,
    broken: usize,
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
        _ => None,
    }
}

/// Runs a project until told to stop. Answers the exit code.
pub(crate) async fn up(say: &Say, store: Option<&str>, args: &UpArgs) -> Result<u8, Refusal> {
    let mut interrupts = Interrupts::listen()?;
    let program = std::env::current_exe().map_err(|error| {
        Refusal::unavailable(format!("could not find this program: {error}"), "Start it by its full path.")
    })?;
    let options = Options { project: args.project.clone(), store: store.map(str::to_owned), program };
    let daemon = Daemon::start(&options).await.map_err(|error| not_up(&error))?;
    let ready = ready(&daemon);
    let _ = say.answer(&ready, || banner(&ready, &daemon));
    interrupts.next().await;
    say.talk("stopping: nothing new starts; what runs may finish (again to end it)");
    let stopped = daemon
        .stop(async {
            interrupts.next().await;
        })
        .await?;
    say.talk(&format!(
        "stopped: {} jobs cleared from the queue, {} runs interrupted",
        stopped.cleared, stopped.interrupted
    ));
    Ok(exit::OK)
}

fn ready(daemon: &Daemon) -> Ready {
    let site = daemon.site();
    let loaded = site.loaded();
    Ready {
        outcome: Outcome::Listed,
        project: site.folder.path().display().to_string(),
        store: redacted(&site.store_url),
        agents: loaded.agents.keys().map(ToString::to_string).collect(),
        broken: loaded.problems.iter().filter(|problem| problem.is_error()).count(),
    }
}

fn banner(ready: &Ready, daemon: &Daemon) -> String {
    let mut lines = vec![
        format!("project  {}", ready.project),
        format!("store    {}", ready.store),
        format!("agents   {}", ready.agents.join(", ")),
    ];
    if ready.broken > 0 {
        lines.push(format!("broken   {} problems: bell check tells", ready.broken));
    }
    let warnings = daemon.store_info().warnings.iter();
    lines.extend(warnings.map(|warning| format!("warning  {}", warning.words)));
    lines.push("ready".to_owned());
    lines.join("\n")
}

fn not_up(error: &UpError) -> Refusal {
    match error {
        UpError::Project { folder, problems } => {
            let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let why = if why.is_empty() { "no agent was found in it".to_owned() } else { why.join("\n") };
            Refusal::invalid(
                format!("could not use the project in {}: {why}", folder.display()),
                "bell check says everything that is wrong.",
            )
        }
        UpError::Occupied(_) => Refusal::new(
            Outcome::Busy,
            error.to_string(),
            "Stop the other one, or use bell run: it works with the one that is there.",
        ),
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
