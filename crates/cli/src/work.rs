//! Having agents run, and seeing what came of it. All of it works without a daemon: it reads and writes the store.

use std::path::Path;
use std::str::FromStr;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_coord::Coord;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, JobId, JobSpec, State, Trigger};
use bell_core::work::row::What;
use bell_core::work::run::{End, RunId};
use bell_daemon::flow::store_url;
use bell_daemon::place::Place;
use bell_daemon::site::{room, rules};
use bell_project::load::Loaded;
use bell_runner::logs;
use serde::Serialize;

use crate::answer::Refusal;
use crate::check::open_project;
use crate::cli::{LogsArgs, RunAgentArgs, RunsArgs};
use crate::say::Say;

/// Lines of a log read at once.
const LINES: usize = 1_000;

/// A project and its store.
pub(crate) struct Project {
    pub(crate) loaded: Loaded,
    pub(crate) coord: Coord,
}

/// The name of an agent, as given.
pub(crate) fn agent_name(given: &str) -> Result<AgentName, Refusal> {
    AgentName::from_str(given).map_err(|error| {
        Refusal::invalid(format!("the name {given:?} {error}"), "bell check lists the agents.")
    })
}

pub(crate) async fn open(store: Option<&str>, folder: &Path) -> Result<Project, Refusal> {
    let loaded = Loaded::load(&open_project(folder)?);
    let url = store_url(store, &loaded, &Place::of(folder));
    let coord = Coord::new(bell_locks::open::open_store(&url).await?);
    Ok(Project { loaded, coord })
}

#[derive(Serialize)]
struct RunAnswer {
    outcome: Outcome,
    job: JobId,
    /// How many are ahead of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fate: Option<Fate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<String>,
}

/// Has an agent run. Answers the exit code.
pub(crate) async fn run(say: &Say, store: Option<&str>, args: &RunAgentArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let name = agent_name(&args.agent)?;
    let agent = project.loaded.agents.get(&name).ok_or_else(|| {
        Refusal::new(
            Outcome::NotFound,
            format!("could not find an agent called {name} that can be run"),
            "bell check lists the agents, and says what is wrong with them.",
        )
    })?;
    if !agent.is_enabled() {
        return Err(Refusal::invalid(
            format!("could not run {name}: it is disabled, its scale is 0"),
            "Set its scale to 1 or more.",
        ));
    }
    let by = std::env::var("USER").ok();
    let spec = JobSpec { agent: name, trigger: Trigger::Manual { by }, rules: rules(agent) };
    let payload = serde_json::json!({ "prompt": args.prompt }).to_string();
    let offer = Offer { id: new_job(), spec, payload, once: None, at: wall_now() };
    let accepted = project.coord.accept(std::slice::from_ref(&offer), room(agent)).await?;
    let ahead = match accepted.first() {
        Some(Accepted::Queued { ahead, .. }) => Some(*ahead),
        Some(Accepted::Duplicate(_)) | None => None,
        Some(Accepted::Full) => {
            return Err(Refusal::new(
                Outcome::Busy,
                format!("could not queue {}: its queue is full", offer.spec.agent),
                "Wait until it has worked some off, or raise work_queue_size.",
            ));
        }
    };
    let mut answer =
        RunAnswer { outcome: Outcome::Written, job: offer.id.clone(), ahead, fate: None, returned: None };
    if !args.wait {
        let _ = say.answer(&answer, || {
            format!("accepted as job {}, {} ahead of it", answer.job, ahead.unwrap_or(0))
        });
        return Ok(exit::OK);
    }
    let (fate, returned) = over(&project.coord, &offer.id).await?;
    (answer.fate, answer.returned) = (Some(fate.clone()), returned);
    let _ = say.answer(&answer, || told(&fate, answer.returned.as_deref()));
    Ok(if fate == (Fate::Ended { end: End::Completed }) { exit::OK } else { exit::CONFLICT })
}

/// Waits until a job is over.
pub(crate) async fn over(coord: &Coord, id: &JobId) -> Result<(Fate, Option<String>), Refusal> {
    loop {
        let Some((job, version)) = coord.job(id).await? else {
            return Err(Refusal::new(Outcome::NotFound, format!("job {id} is gone"), "Look at bell runs."));
        };
        if let State::Over { fate, .. } = job.state {
            return Ok((fate, job.returned));
        }
        coord.job_changed(id, version).await?;
    }
}

pub(crate) fn told(fate: &Fate, returned: Option<&str>) -> String {
    let words = match fate {
        Fate::Ended { end } => format!("{end}: {}", end.advice()),
        Fate::Dropped => "dropped: the queue was full, and it was the oldest".to_owned(),
        Fate::Cleared => "cleared: the fleet was stopped before its turn came".to_owned(),
        Fate::Cancelled => "cancelled".to_owned(),
    };
    match returned {
        Some(returned) => format!("{words}\n{returned}"),
        None => words,
    }
}

#[derive(Serialize)]
struct RunsAnswer {
    outcome: Outcome,
    runs: Vec<RunLine>,
}

#[derive(Serialize)]
struct RunLine {
    run: RunId,
    agent: AgentName,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    /// How it ended; `None`: it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
}

/// Lists runs. Answers the exit code.
pub(crate) async fn runs(say: &Say, store: Option<&str>, args: &RunsArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let live = project.coord.pool().await?.slots;
    let mut runs: Vec<RunLine> = live
        .into_iter()
        .map(|slot| RunLine { run: slot.run, agent: slot.agent, job: None, end: None, ended_ms: None })
        .collect();
    let mut from = None;
    while runs.len() < args.limit {
        let page = project.coord.history(from.as_deref(), LINES).await?;
        for (at, event) in page.rows {
            if let (What::RunEnded { run, end, .. }, Some(agent)) = (event.what, event.agent) {
                runs.push(RunLine { run, agent, job: event.job, end: Some(end), ended_ms: Some(at.0) });
            }
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    runs.truncate(args.limit);
    let answer = RunsAnswer { outcome: Outcome::Listed, runs };
    let _ = say.answer(&answer, || lines(&answer.runs));
    Ok(exit::OK)
}

fn lines(runs: &[RunLine]) -> String {
    if runs.is_empty() {
        return "nothing has run yet".to_owned();
    }
    let line = |run: &RunLine| {
        let end = run.end.as_ref().map_or("running".to_owned(), ToString::to_string);
        format!("{:32} {end}", run.run)
    };
    runs.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
struct LogAnswer {
    outcome: Outcome,
    lines: Vec<LogLine>,
    /// Where to go on reading.
    next: u64,
}

#[derive(Serialize)]
struct LogLine {
    offset: u64,
    at_ms: u64,
    stream: logs::Stream,
    text: String,
}

/// Shows what a run printed. Answers the exit code.
pub(crate) async fn logs(say: &Say, args: &LogsArgs) -> Result<u8, Refusal> {
    let folder = open_project(&args.project)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let run_dir = Place::of(folder.path()).run_dir(&RunId::from(args.run.as_str()));
    if !args.run.chars().all(plain) || !run_dir.is_dir() {
        return Err(Refusal::new(
            Outcome::NotFound,
            format!("could not find the log of {:?} on this machine", args.run),
            "bell runs lists the runs; a log is on the machine that its run was on.",
        ));
    }
    let mut follow = logs::follow(&run_dir, 0).map_err(unreadable)?;
    while let Some(page) = follow.next(LINES).await.map_err(unreadable)? {
        let (is_last, next) = (page.is_last, page.next);
        let lines: Vec<LogLine> = page.lines.into_iter().map(log_line).collect();
        let answer = LogAnswer { outcome: Outcome::Listed, lines, next };
        if !answer.lines.is_empty() {
            let text = || answer.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
            if say.answer(&answer, text).is_err() {
                // Whoever read it has gone.
                break;
            }
        }
        if is_last && !args.follow {
            break;
        }
    }
    Ok(exit::OK)
}

fn log_line(line: logs::Line) -> LogLine {
    let text = String::from_utf8_lossy(&line.text).into_owned();
    LogLine { offset: line.offset, at_ms: line.at_ms, stream: line.stream, text }
}

fn unreadable(error: bell_runner::Error) -> Refusal {
    let hint = error.advice().to_owned();
    Refusal::unavailable(format!("could not {error}"), hint)
}
