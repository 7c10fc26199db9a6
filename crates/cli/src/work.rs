//! Having agents run, and seeing what came of it.

use std::time::Duration;

use bell_api::control::jobs::JobAnswer;
use bell_api::control::runs::{RunLine, RunsQuery};
use bell_api::exit;
use bell_core::work::job::Fate;
use bell_core::work::run::End;

use crate::answer::Refusal;
use crate::cli::{RunAgentArgs, RunsArgs};
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::progress::Progress;
use crate::say::Say;

/// The end of a job is asked for again after this long: no longer than a gateway waits in one call.
const POLL: Duration = Duration::from_secs(55);

/// Has an agent run. Answers the exit code.
pub(crate) async fn run(say: &Say, reach: &Reach, args: &RunAgentArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Write).await?;
    let mut answer = fleet.trigger(&args.agent, args.prompt.clone()).await?;
    if !args.wait {
        let _ = say.answer(&answer, || {
            format!("accepted as job {}, {} ahead of it", answer.job, answer.ahead.unwrap_or(0))
        });
        return Ok(exit::OK);
    }
    let (fate, returned) = over(say, fleet, reach, answer.job.as_str()).await?;
    (answer.fate, answer.returned) = (Some(fate.clone()), returned);
    let _ = say.answer(&answer, || told(&fate, answer.returned.as_deref()));
    Ok(if fate == (Fate::Ended { end: End::Completed }) { exit::OK } else { exit::CONFLICT })
}

/// Waits until a job is over. A daemon that was asked because it ran may stop meanwhile: the store knows.
async fn over(
    say: &Say,
    mut fleet: Fleet,
    reach: &Reach,
    job: &str,
) -> Result<(Fate, Option<String>), Refusal> {
    let mut progress = Progress::new(say);
    let over = async {
        loop {
            match fleet.job(job, POLL).await {
                Ok(JobAnswer { fate: Some(fate), returned, .. }) => return Ok((fate, returned)),
                Ok(_) => {}
                Err(refusal) if fleet.is_gone(&refusal) => {
                    fleet = Fleet::open_store(reach, Need::Work, Access::Read).await?;
                }
                Err(refusal) => return Err(refusal),
            }
        }
    };
    tokio::select! {
        found = over => found,
        never = progress.tell("waiting for the run") => match never {},
    }
}

fn told(fate: &Fate, returned: Option<&str>) -> String {
    let words = match fate {
        Fate::Ended { end: End::Completed } => End::Completed.to_string(),
        Fate::Ended { end } => format!("{end}; next: {}", end.advice()),
        Fate::Dropped => "dropped: the queue was full, and it was the oldest".to_owned(),
        Fate::Cleared => "cleared: the fleet was stopped before its turn came".to_owned(),
        Fate::Cancelled => "cancelled".to_owned(),
    };
    match returned {
        Some(returned) => format!("{words}\n{returned}"),
        None => words,
    }
}

/// Lists runs. Answers the exit code.
pub(crate) async fn runs(say: &Say, reach: &Reach, args: &RunsArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Read).await?;
    let answer = fleet.runs(&RunsQuery { agent: args.agent.clone(), limit: Some(args.limit) }).await?;
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
