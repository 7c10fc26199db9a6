//! What an agent says from inside its run: what it does, what it returns, that it wants to run again, and whom it calls.
//!
//! Whoever says so is known by the run's session (`BELL_SESSION`) and its name (`BELL_RUN`), which its supervisor set.
//! Without them nothing is done: never «ok» by mistake.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_coord::{Session, Token};
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::job::{Fate, JobSpec, Trigger};
use bell_core::work::run::{End, Run, RunId};
use bell_core::work::speak::{Heard, Word};
use bell_daemon::site::{room, rules};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::CallArgs;
use crate::say::Say;
use crate::work::{Project, agent_name, open, over, told};

#[derive(Serialize)]
struct Noted {
    outcome: Outcome,
    run: RunId,
}

/// Says something about the run that this command is a part of. Answers the exit code.
pub(crate) async fn speak(say: &Say, store: Option<&str>, word: Word) -> Result<u8, Refusal> {
    let project = open(Some(reachable(store)?), std::path::Path::new(".")).await?;
    let (run, session) = this_run(&project).await?;
    match project.coord.speak(&run, &session, &word).await? {
        Heard::Noted => {
            let noted = Noted { outcome: Outcome::Written, run };
            let _ = say.answer(&noted, || "noted".to_owned());
            Ok(exit::OK)
        }
        Heard::Ended(end) => Err(Refusal::new(
            Outcome::Lost,
            format!("could not speak for {run}: it has ended, {end}"),
            "Stop: whatever this run does now counts for nothing.",
        )),
        Heard::NotRerunnable(kind) => Err(Refusal::invalid(
            format!("could not ask for a rerun: a run for a {kind} is not run again"),
            "Only runs by schedule or by hand can ask for it.",
        )),
        Heard::Unknown => Err(nobody()),
    }
}

#[derive(Serialize)]
struct CallAnswer {
    outcome: Outcome,
    job: bell_core::work::job::JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    fate: Option<Fate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<String>,
}

/// Calls another agent. Answers the exit code.
pub(crate) async fn call(say: &Say, store: Option<&str>, args: &CallArgs) -> Result<u8, Refusal> {
    let project = open(Some(reachable(store)?), &args.project).await?;
    let (id, session) = this_run(&project).await?;
    let caller = running(&project, &id, &session).await?;
    let offer = offer(&project, &id, &caller, args).await?;
    let agent = project.loaded.agents.get(&offer.spec.agent).ok_or_else(nobody)?;
    let accepted = project.coord.accept(std::slice::from_ref(&offer), room(agent)).await?;
    if matches!(accepted.first(), Some(Accepted::Full)) {
        return Err(Refusal::new(
            Outcome::Busy,
            format!("could not call {}: its queue is full", offer.spec.agent),
            "Skip it and go on, or call it later.",
        ));
    }
    let mut answer =
        CallAnswer { outcome: Outcome::Written, job: offer.id.clone(), fate: None, returned: None };
    if !args.wait {
        let _ = say.answer(&answer, || format!("called as job {}", answer.job));
        return Ok(exit::OK);
    }
    let (fate, returned) = over(&project.coord, &offer.id).await?;
    (answer.fate, answer.returned) = (Some(fate.clone()), returned);
    let _ = say.answer(&answer, || answer.returned.clone().unwrap_or_else(|| told(&fate, None)));
    Ok(if fate == (Fate::Ended { end: End::Completed }) { exit::OK } else { exit::CONFLICT })
}

/// The call, if it is allowed.
async fn offer(project: &Project, id: &RunId, caller: &Run, args: &CallArgs) -> Result<Offer, Refusal> {
    let target = agent_name(&args.agent)?;
    let refuse =
        |why: String, next: &str| Err(Refusal::invalid(format!("could not call {target}: {why}"), next));
    if target == caller.agent {
        return refuse("an agent can't call itself".to_owned(), "Ask for a rerun instead: bell rerun.");
    }
    let may_call = project.loaded.agents.get(&caller.agent).and_then(|agent| agent.settings.may_call.clone());
    if may_call.is_some_and(|may_call| !may_call.contains(&target)) {
        return refuse(format!("{} may not", caller.agent), "Add it to may_call of the caller.");
    }
    let depth = project.coord.job(&caller.job).await?.map_or(0, |(job, _)| job.spec.trigger.depth()) + 1;
    let most = project.loaded.settings.max_call_depth;
    if depth > most {
        return refuse(
            format!("it would be the {depth}th call in a row, and {most} is the most"),
            "Raise max_call_depth.",
        );
    }
    let Some(agent) = project.loaded.agents.get(&target) else {
        return refuse("there is no such agent that can be run".to_owned(), "bell check lists the agents.");
    };
    if !agent.is_enabled() {
        return refuse("it is disabled, its scale is 0".to_owned(), "Set its scale to 1 or more.");
    }
    let context = args.context.as_deref().unwrap_or("{}");
    let context: serde_json::Value = serde_json::from_str(context).map_err(|error| {
        Refusal::invalid(
            format!("could not read the context: {error}"),
            "Give JSON: --context '{\"number\": 42}'.",
        )
    })?;
    let trigger = Trigger::Call { caller: id.clone(), depth };
    let spec = JobSpec { agent: target, trigger, rules: rules(agent) };
    Ok(Offer { id: new_job(), spec, payload: context.to_string(), once: None, at: wall_now() })
}

/// The run that this command is a part of, and the session that proves it.
async fn this_run(project: &Project) -> Result<(RunId, Session), Refusal> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(run), Some(token)) = (variable("BELL_RUN"), variable("BELL_SESSION")) else {
        return Err(nobody());
    };
    let token = Token::parse(&token).ok_or_else(nobody)?;
    Ok((RunId::from(run.as_str()), project.coord.resume(&token).await?))
}

/// The record of the run, if it runs in that session.
async fn running(project: &Project, id: &RunId, session: &Session) -> Result<Run, Refusal> {
    let run = project.coord.run(id).await?.map(|(run, _)| run);
    run.filter(|run| run.session == *session.id() && run.ended.is_none() && run.kill.is_none())
        .ok_or_else(nobody)
}

/// The store that the run's supervisor named. Without one there is nobody to talk to.
fn reachable(store: Option<&str>) -> Result<&str, Refusal> {
    store.ok_or_else(|| {
        Refusal::new(
            Outcome::Unreachable,
            "could not reach the fleet: BELL_STORE is not set",
            "This command works inside a run, on a project whose store is a file or a folder.",
        )
    })
}

fn nobody() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not tell which run this is",
        "This command works inside a run: it needs BELL_RUN and BELL_SESSION as its supervisor set them.",
    )
}
