//! Starting a run: its directory, its supervisor, and the word that the agent runs.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncReadExt;

use crate::adopt::{self, Adopted};
use crate::command::{SUPERVISE, quiet};
use crate::error::{Error, Kind, Result};
use crate::exit::Reason;
use crate::handle::SupervisorHandle;
use crate::launch::Launch;
use crate::run_dir::RunDir;
use crate::supervise::Report;

/// Starts the run. Returns when the agent's program runs, or says why it never will.
///
/// An error of [`Kind::Gone`] leaves open whether the agent ran; after every other it never did.
///
/// `program` is Bellwether itself: it calls [`supervise::main`](crate::supervise::main) when it is started as
/// `__supervise <run directory>`, and [`stage::main`](crate::stage::main) as `__exec`. The supervisor has the
/// environment of this process, the agent only that of its launch. Dropped half-way, the run may have started:
/// [`adopt`](crate::adopt::adopt) tells.
pub async fn spawn(program: &Path, launch: &Launch) -> Result<SupervisorHandle> {
    launch.check()?;
    let dir = RunDir::make(launch).map_err(Error::of_machine)?;
    let failed = |error: std::io::Error| {
        Error::io(format!("start a supervisor for {}", launch.run), error)
            .hint("Look at the limits of this user (ulimit -u) and the memory of the machine.")
    };
    let mut command = quiet(program);
    command.arg(SUPERVISE).arg(&launch.run_dir).envs(std::env::vars_os()).stdout(Stdio::piped());
    // It outlives this function, and this process if need be. Its end is taken note of in the background.
    let supervisor =
        tokio::process::Command::from(command).spawn().map_err(|error| failed(error).of_machine());
    // A folder of nobody would be waited for by whoever follows its output, and has secrets in it.
    let mut supervisor = supervisor.inspect_err(|_| drop(std::fs::remove_dir_all(dir.root())))?;
    let mut said = Vec::new();
    if let Some(line) = &mut supervisor.stdout {
        line.read_to_end(&mut said).await.map_err(|error| failed(error).unclear())?;
    }
    match Report::heard(said.as_slice()).map_err(Error::unclear)? {
        Some(Report::Failed(error)) => Err(error),
        Some(Report::Started) => found(launch).await,
        None => {
            // Only its death makes it hang up without a word. That closes its files first: it would still be found alive.
            supervisor.wait().await.map_err(|error| failed(error).unclear())?;
            found(launch).await
        }
    }
}

async fn found(launch: &Launch) -> Result<SupervisorHandle> {
    match adopt::adopt(&launch.run_dir).await.map_err(Error::unclear)? {
        Adopted::Running(handle) => Ok(handle),
        Adopted::Ended(exit) => match exit.reason {
            Reason::NotStarted { error } => Err(error),
            _ => already_over(launch),
        },
        Adopted::Lost(why) => {
            let message = format!("start {}: {why}", launch.run);
            Err(Error::new(Kind::Gone, message)
                .hint("Look in the system's log for what ended its supervisor."))
        }
    }
}

/// Some agents are done before anybody can look; their supervisor may still tidy up.
fn already_over(launch: &Launch) -> Result<SupervisorHandle> {
    let dir = RunDir::open(&launch.run_dir)?;
    let state = dir.state()?.ok_or_else(|| {
        let message = format!("find the supervisor of {}", launch.run);
        Error::new(Kind::Gone, message).hint("Look whether its folder was cleaned up.")
    })?;
    let process = state.supervisor.open();
    Ok(SupervisorHandle::new(dir, state, process))
}
