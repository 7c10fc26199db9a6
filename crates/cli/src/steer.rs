//! Steering a fleet: holding it, ending runs, saying how many may run, and looking after the queues.

use bell_api::control::acts::DoneAnswer;
use bell_api::control::jobs::{Queue, UndoneLine, UndoneQuery};
use bell_api::exit;
use bell_core::work::job::Fate;

use crate::answer::Refusal;
use crate::cli::{HoldArgs, JobsArgs, JobsCommand, KillArgs, ReplayArgs, ResumeArgs, ScaleArgs};
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::replay::replay;
use crate::say::Say;

/// Takes an operator's word about the scale of an agent back.
const AS_WRITTEN: &str = "default";

fn done(say: &Say, answer: &DoneAnswer) -> u8 {
    let _ = say.answer(answer, || answer.message.clone());
    exit::OK
}

/// Holds the fleet, or an agent. Answers the exit code.
pub(crate) async fn pause(say: &Say, reach: &Reach, args: &HoldArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Write).await?;
    Ok(done(say, &fleet.pause(args.agent.clone(), args.reason.clone()).await?))
}

/// Lets it go on. Answers the exit code.
pub(crate) async fn resume(say: &Say, reach: &Reach, args: &ResumeArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Write).await?;
    Ok(done(say, &fleet.resume(args.agent.clone()).await?))
}

/// Ends a run, wherever it is. Answers the exit code.
pub(crate) async fn kill(say: &Say, reach: &Reach, args: &KillArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Read).await?;
    Ok(done(say, &fleet.kill(&args.run, args.reason.clone()).await?))
}

/// Says how many of an agent may run. Answers the exit code.
pub(crate) async fn scale(say: &Say, reach: &Reach, args: &ScaleArgs) -> Result<u8, Refusal> {
    let scale = match args.scale.as_str() {
        AS_WRITTEN => None,
        given => Some(given.parse().map_err(|_| {
            Refusal::invalid(
                format!("could not use {given:?} as a scale: it is no number"),
                "Give how many may run at once, or default for what the settings say.",
            )
        })?),
    };
    let fleet = Fleet::open(reach, Need::Work, Access::Write).await?;
    Ok(done(say, &fleet.scale(&args.agent, scale, args.reason.clone()).await?))
}

/// Looks after the queues. Answers the exit code.
pub(crate) async fn jobs(say: &Say, reach: &Reach, args: &JobsArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Read).await?;
    match &args.command {
        JobsCommand::List => {
            let answer = fleet.jobs().await?;
            let _ = say.answer(&answer, || lines(&answer.queues, queue_line, "nothing was ever queued"));
            Ok(exit::OK)
        }
        JobsCommand::Undone => {
            let answer = fleet.undone(&UndoneQuery::default()).await?;
            let _ = say.answer(&answer, || lines(&answer.undone, undone_line, "everything was done"));
            Ok(exit::OK)
        }
        JobsCommand::Clear { agent } => Ok(done(say, &fleet.clear(agent).await?)),
        JobsCommand::Cancel { job } => Ok(done(say, &fleet.cancel(job).await?)),
        JobsCommand::Replay(ReplayArgs { job: Some(job), .. }) => Ok(done(say, &fleet.replay(job).await?)),
        JobsCommand::Replay(args) => replay(say, &fleet, args).await,
    }
}

fn queue_line(queue: &Queue) -> String {
    let paused = queue.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
    format!("{:32} {} waiting{paused}", queue.agent.as_str(), queue.waiting)
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
