//! Steering a fleet: holding it, ending runs, and looking after the queues. All of it goes through the store, so it works
//! for every node, and while no daemon runs.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, JobId, State};
use bell_core::work::pause::Extent;
use bell_core::work::run::RunId;
use bell_core::work::shelve::Moved;
use bell_core::work::speak::Asked;
use bell_daemon::site::room;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{HoldArgs, KillArgs, QueueArgs, QueueCommand, ResumeArgs};
use crate::say::Say;
use crate::work::{Project, agent_name, open};

/// Rows shown of a queue, or of what was not done.
const ROWS: usize = 1_000;

/// What was done, in words.
#[derive(Serialize)]
struct Done {
    outcome: Outcome,
    message: String,
}

fn done(say: &Say, message: String) -> u8 {
    let answer = Done { outcome: Outcome::Written, message };
    let _ = say.answer(&answer, || answer.message.clone());
    exit::OK
}

/// Holds the fleet, or an agent. Answers the exit code.
pub(crate) async fn pause(say: &Say, store: Option<&str>, args: &HoldArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let extent = extent(args.agent.as_deref())?;
    let changed = project.coord.pause(&extent, &args.reason).await?;
    let what = words(&extent);
    Ok(done(say, if changed { format!("paused {what}") } else { format!("{what} was paused already") }))
}

/// Lets it go on. Answers the exit code.
pub(crate) async fn resume(say: &Say, store: Option<&str>, args: &ResumeArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let extent = extent(args.agent.as_deref())?;
    let changed = project.coord.resume_work(&extent).await?;
    let what = words(&extent);
    Ok(done(say, if changed { format!("resumed {what}") } else { format!("{what} was not paused") }))
}

fn extent(agent: Option<&str>) -> Result<Extent, Refusal> {
    Ok(match agent {
        Some(name) => Extent::Agent(agent_name(name)?),
        None => Extent::Fleet,
    })
}

fn words(extent: &Extent) -> String {
    match extent {
        Extent::Fleet => "the fleet".to_owned(),
        Extent::Agent(name) => format!("the agent {name}"),
    }
}

/// Ends a run, wherever it is. Answers the exit code.
pub(crate) async fn kill(say: &Say, store: Option<&str>, args: &KillArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    let run = RunId::from(args.run.as_str());
    match project.coord.kill(&run, &args.reason).await? {
        Asked::Noted => Ok(done(say, format!("asked the supervisor of {run} to end it"))),
        Asked::Ended(end) => Err(Refusal::new(
            Outcome::NotHeld,
            format!("could not end {run}: it has ended, {end}"),
            "bell runs shows what runs.",
        )),
        Asked::Unknown => Err(not_found(format!("could not find a run called {run}"))),
    }
}

fn not_found(message: String) -> Refusal {
    Refusal::new(Outcome::NotFound, message, "bell runs and bell queue list show what there is.")
}

#[derive(Serialize)]
struct QueueAnswer {
    outcome: Outcome,
    queues: Vec<Queue>,
}

#[derive(Serialize)]
struct Queue {
    agent: AgentName,
    waiting: u32,
    /// The first of them, in order.
    jobs: Vec<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
}

#[derive(Serialize)]
struct UndoneAnswer {
    outcome: Outcome,
    undone: Vec<UndoneLine>,
}

#[derive(Serialize)]
struct UndoneLine {
    job: JobId,
    agent: AgentName,
    at_ms: u64,
    fate: Fate,
}

/// Looks after the queues. Answers the exit code.
pub(crate) async fn queue(say: &Say, store: Option<&str>, args: &QueueArgs) -> Result<u8, Refusal> {
    let project = open(store, &args.project).await?;
    match &args.command {
        QueueCommand::List => list(say, &project).await,
        QueueCommand::Undone => undone(say, &project).await,
        QueueCommand::Clear { agent } => {
            let name = agent_name(agent)?;
            let cleared = project.coord.clear(&name).await?.len();
            Ok(done(say, format!("cleared {cleared} jobs of {name}; bell queue undone lists them")))
        }
        QueueCommand::Cancel { job } => {
            let id = JobId::from(job.as_str());
            moved(say, &id, "cancelled", project.coord.cancel(&id).await?)
        }
        QueueCommand::Replay { job } => {
            let id = JobId::from(job.as_str());
            let size = size(&project, &id).await?;
            moved(say, &id, "queued again", project.coord.replay(&id, size).await?)
        }
    }
}

/// How many jobs of its agent may wait. An agent that is gone has the room of a job.
async fn size(project: &Project, id: &JobId) -> Result<u32, Refusal> {
    let job = project.coord.job(id).await?;
    let agent = job.and_then(|(job, _)| project.loaded.agents.get(&job.spec.agent).cloned());
    Ok(agent.map_or(1, |agent| room(&agent).size))
}

fn moved(say: &Say, id: &JobId, verb: &str, moved: Moved) -> Result<u8, Refusal> {
    match moved {
        Moved::Done => Ok(done(say, format!("{verb}: {id}"))),
        Moved::Not(state) => Err(Refusal::new(
            Outcome::Busy,
            format!("could not do this to {id}: it is {}", state_word(&state)),
            "A job that waits can be cancelled, one that is over can be replayed, one that runs can be killed.",
        )),
        Moved::Full => Err(Refusal::new(
            Outcome::Busy,
            format!("could not queue {id} again: the queue of its agent is full"),
            "Wait until it has worked some off, or raise work_queue_size.",
        )),
        Moved::Unknown => Err(not_found(format!("could not find a job called {id}"))),
    }
}

fn state_word(state: &State) -> String {
    match state {
        State::Queued { .. } => "waiting".to_owned(),
        State::Delayed { .. } => "waiting to be tried again".to_owned(),
        State::Running { run } => format!("being done by {run}"),
        State::Over { .. } => "over".to_owned(),
    }
}

async fn list(say: &Say, project: &Project) -> Result<u8, Refusal> {
    let pool = project.coord.pool().await?;
    let mut queues = Vec::new();
    for (agent, line) in project.coord.lines().await? {
        let jobs = project.coord.queued(&agent, ROWS).await?;
        let paused = pool.pause_of(&agent).map(|pause| pause.reason.clone());
        queues.push(Queue { agent, waiting: line.waiting, jobs, paused });
    }
    let answer = QueueAnswer { outcome: Outcome::Listed, queues };
    let _ = say.answer(&answer, || lines(&answer.queues, queue_line, "nothing was ever queued"));
    Ok(exit::OK)
}

fn queue_line(queue: &Queue) -> String {
    let paused = queue.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
    format!("{:32} {} waiting{paused}", queue.agent.as_str(), queue.waiting)
}

async fn undone(say: &Say, project: &Project) -> Result<u8, Refusal> {
    let page = project.coord.undone(None, ROWS).await?;
    let line = |(at, (job, undone)): (bell_core::work::Wall, (JobId, bell_core::work::row::Undone))| {
        UndoneLine { job, agent: undone.agent, at_ms: at.0, fate: undone.fate }
    };
    let answer = UndoneAnswer { outcome: Outcome::Listed, undone: page.rows.into_iter().map(line).collect() };
    let _ = say.answer(&answer, || lines(&answer.undone, undone_line, "everything was done"));
    Ok(exit::OK)
}

fn undone_line(undone: &UndoneLine) -> String {
    let fate = match &undone.fate {
        Fate::Ended { end } => end.to_string(),
        Fate::Dropped => "dropped".to_owned(),
        Fate::Cleared => "cleared".to_owned(),
        Fate::Cancelled => "cancelled".to_owned(),
    };
    format!("{} {:24} {fate}", undone.job, undone.agent.as_str())
}

fn lines<T>(rows: &[T], line: impl Fn(&T) -> String, none: &str) -> String {
    if rows.is_empty() { none.to_owned() } else { rows.iter().map(line).collect::<Vec<_>>().join("\n") }
}
