//! The routes of calls: one agent has another do something.

use std::str::FromStr;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use bell_api::call::{CallAnswer, CallRequest, CallState};
use bell_api::outcome::Outcome;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, Job, JobId, JobSpec, State as Stands, Trigger};
use bell_core::work::run::End;
use bell_store::clock::boottime;
use serde_json::Value;
use tokio::time::timeout;

use crate::acts::request_id;
use crate::auth::Caller;
use crate::body::Asked;
use crate::desk::{Callee, Desk};
use crate::query::Query;
use crate::refusal::{Answer, Refusal};

type Answered = Result<Answer<CallAnswer>, Refusal>;

pub(crate) async fn call(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<CallRequest>,
) -> Answered {
    caller.must_be_the_run()?;
    let wanted = AgentName::from_str(&request.agent).map_err(|error| {
        Refusal::invalid(
            format!("could not call {:?}: the name {error}", request.agent),
            "bell check lists the agents.",
        )
    })?;
    let id = request_id(&request.request_id)?;
    let standing = desk.standing();
    if wanted == standing.agent {
        return Err(Refusal::invalid(
            format!("could not call {wanted}: an agent can't call itself"),
            "Ask for a rerun instead: bell rerun.",
        ));
    }
    let callee = desk.callees().find(&standing.agent, &wanted).await?;
    let depth = depth(&desk, &wanted, &callee).await?;
    desk.count_call()?;
    let payload = match request.context {
        Value::Null => "{}".to_owned(),
        context => context.to_string(),
    };
    let trigger = Trigger::Call { caller: standing.run.clone(), depth };
    let spec = JobSpec { agent: wanted, trigger, rules: callee.rules };
    let once = Some(format!("call/{}/{id}", standing.run));
    let offer = Offer { id: new_job(), spec, payload: payload.into(), once, at: wall_now() };
    let accepted = standing.work.accept(std::slice::from_ref(&offer), callee.room).await?;
    let job = match accepted.into_iter().next() {
        Some(Accepted::Full) => {
            return Err(Refusal::new(
                Outcome::Busy,
                format!("could not call {}: its queue is full", offer.spec.agent),
                "Skip it and go on, or call it later.",
            ));
        }
        Some(Accepted::Duplicate(job)) => job,
        Some(Accepted::Queued { .. }) | None => offer.id,
    };
    let found = standing.work.job(&job).await?;
    let answer = match found {
        Some((found, _)) => look(Outcome::Written, &job, &found),
        None => return Err(gone(&job)),
    };
    Ok(Answer(Outcome::Written, answer))
}

/// How many calls in a row this one makes, if that is allowed.
async fn depth(desk: &Desk, wanted: &AgentName, callee: &Callee) -> Result<u32, Refusal> {
    let standing = desk.standing();
    let run = standing.work.run(&standing.run).await?.map(|(run, _)| run);
    let Some(run) = run.filter(|run| run.ended.is_none() && run.kill.is_none()) else {
        return Err(Refusal::new(
            Outcome::Lost,
            format!("could not call for {}: it has ended, or is about to", standing.run),
            "Stop: whatever this run does now counts for nothing.",
        ));
    };
    let depth = standing.work.job(&run.job).await?.map_or(0, |(job, _)| job.spec.trigger.depth()) + 1;
    if depth > callee.depth_max {
        let most = callee.depth_max;
        return Err(Refusal::invalid(
            format!(
                "could not call {wanted}: it would be the {depth}th call in a row, and {most} is the most"
            ),
            "Raise max_call_depth.",
        ));
    }
    Ok(depth)
}

pub(crate) async fn check(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answered {
    caller.must_be_the_run()?;
    let wait = Query::read(query.as_deref(), &["wait_ms"])?.wait()?;
    let Path(name) = name.map_err(|error| {
        Refusal::invalid(
            format!("could not read the name of the call: {error}"),
            "Give it as the call answered it.",
        )
    })?;
    let job = job_id(&name)?;
    let (work, give_up) = (&desk.standing().work, boottime() + wait);
    loop {
        let Some((found, version)) = work.job(&job).await? else { return Err(gone(&job)) };
        let is_ours =
            matches!(&found.spec.trigger, Trigger::Call { caller, .. } if *caller == desk.standing().run);
        if !is_ours {
            return Err(Refusal::forbidden(format!("could not look at {job}: this run has not called it")));
        }
        let left = give_up.saturating_sub(boottime());
        if matches!(found.state, Stands::Over { .. }) || wait.is_zero() {
            return Ok(Answer(Outcome::Listed, look(Outcome::Listed, &job, &found)));
        }
        if left.is_zero() {
            return Ok(Answer(Outcome::Waiting, look(Outcome::Waiting, &job, &found)));
        }
        if let Ok(changed) = timeout(left, work.job_changed(&job, version)).await {
            changed?;
        }
    }
}

/// Names of jobs are plain; another one is nobody's.
fn job_id(name: &str) -> Result<JobId, Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let job = JobId::from(name);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) { Err(gone(&job)) } else { Ok(job) }
}

fn gone(job: &JobId) -> Refusal {
    Refusal::new(
        Outcome::NotFound,
        format!("could not find a call named {job}"),
        "Give the name that the call answered; what is long over is forgotten.",
    )
}

fn look(outcome: Outcome, job: &JobId, found: &Job) -> CallAnswer {
    let (state, fate) = match &found.state {
        Stands::Queued { .. } | Stands::Delayed { .. } => (CallState::Queued, None),
        Stands::Running { .. } => (CallState::Running, None),
        Stands::Over { fate: fate @ Fate::Ended { end: End::Completed }, .. } => {
            (CallState::Completed, Some(fate.clone()))
        }
        Stands::Over { fate, .. } => (CallState::Failed, Some(fate.clone())),
    };
    let message = fate.as_ref().filter(|_| state == CallState::Failed).map(words);
    CallAnswer {
        outcome,
        job: job.clone(),
        state,
        run: found.last_run.clone(),
        fate,
        returned: found.returned.clone(),
        message,
    }
}

/// What became of a call that was not done, for people.
fn words(fate: &Fate) -> String {
    match fate {
        Fate::Ended { end } => end.to_string(),
        Fate::Dropped => "dropped: the queue was full, and it was the oldest".to_owned(),
        Fate::Cleared => "cleared: the fleet was stopped before its turn came".to_owned(),
        Fate::Cancelled => "cancelled".to_owned(),
    }
}
