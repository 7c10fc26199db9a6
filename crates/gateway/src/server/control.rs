//! What operators ask of the fleet and do with it. Every question and act is one of `bell_control`; here it only gets an
//! address. Names in a path are whatever was sent: who looks them up says so if there is no such thing.

use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bell_api::ask::Nothing;
use bell_api::control::{
    AgentAnswer, AgentsAnswer, BreakRequest, DoneAnswer, HistoryAnswer, HistoryQuery, JobAnswer, JobQuery,
    KillRequest, PauseRequest, QueuesAnswer, ReplayAnswer, ReplayRequest, ResumeRequest, RunShown,
    RunsAnswer, RunsQuery, ScaleRequest, SimpleRequest, StatusAnswer, StatusQuery, StopRequest,
    TriggerAnswer, TriggerRequest, UndoneAnswer, UndoneQuery, WhyAnswer, WhyQuery,
};
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_control::{Refused, Who};
use bell_coord::audit::act;
use bell_why::words::count;
use serde::Serialize;

use super::Server;
use super::guard::Caller;
use super::levers::Pace;
use super::question::{Named, Question};
use crate::body::Asked;
use crate::limits::{POLL_MAX, WAIT_MAX};
use crate::refusal::{Answer, Refusal};

type Answered<T> = Result<Answer<T>, Refusal>;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/agents", get(agents))
        .route("/v1/agents/{agent}", get(agent))
        .route("/v1/agents/{agent}/run", post(trigger))
        .route("/v1/agents/{agent}/scale", post(scale))
        .route("/v1/agents/{agent}/clear", post(clear))
        .route("/v1/runs", get(runs))
        .route("/v1/runs/{run}", get(run))
        .route("/v1/runs/{run}/kill", post(kill))
        .route("/v1/jobs", get(jobs))
        .route("/v1/jobs/{job}", get(job))
        .route("/v1/jobs/{job}/cancel", post(cancel))
        .route("/v1/jobs/{job}/replay", post(replay))
        .route("/v1/undone", get(undone))
        .route("/v1/undone/replay", post(replay_all))
        .route("/v1/history", get(history))
        .route("/v1/why", get(why))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/locks/break", post(break_lock))
        .route("/v1/reload", post(reload))
        .route("/v1/stop", post(stop))
}

/// An answer to a question that can only be answered or refused.
fn listed<T: Serialize>(answer: Result<T, Refused>) -> Answered<T> {
    Ok(Answer(Outcome::Listed, answer?))
}

/// That an act was done.
fn done<T: Serialize>(answer: Result<T, Refused>) -> Answered<T> {
    Ok(Answer(Outcome::Written, answer?))
}

/// Who acts, with what they say of themselves.
fn who(caller: &Caller, request: &SimpleRequest) -> Who {
    let who = caller.who();
    Who::local(who.words(request.by.as_deref()).unwrap_or_default()).by(who.way)
}

async fn status(
    State(server): State<Server>,
    Question(query): Question<StatusQuery>,
) -> Answered<StatusAnswer> {
    listed(server.control().status(&query).await)
}

async fn agents(
    State(server): State<Server>,
    Question(Nothing {}): Question<Nothing>,
) -> Answered<AgentsAnswer> {
    listed(server.control().agents().await)
}

async fn agent(
    State(server): State<Server>,
    Named(name): Named,
    Question(Nothing {}): Question<Nothing>,
) -> Answered<AgentAnswer> {
    listed(server.control().agent(&name).await)
}

async fn runs(State(server): State<Server>, Question(query): Question<RunsQuery>) -> Answered<RunsAnswer> {
    listed(server.control().runs(&query).await)
}

async fn run(
    State(server): State<Server>,
    Named(name): Named,
    Question(Nothing {}): Question<Nothing>,
) -> Answered<RunShown> {
    listed(server.control().run(&name).await)
}

async fn jobs(
    State(server): State<Server>,
    Question(Nothing {}): Question<Nothing>,
) -> Answered<QueuesAnswer> {
    listed(server.control().jobs().await)
}

async fn job(
    State(server): State<Server>,
    Named(name): Named,
    Question(query): Question<JobQuery>,
) -> Answered<JobAnswer> {
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
    if wait > WAIT_MAX {
        return Err(Refusal::invalid(
            "could not wait so long: 7 days are the most",
            "Wait for less, and ask again: one call waits 55 s at the most.",
        ));
    }
    // Whoever waits when the daemon stops is told how it stands.
    let answered = tokio::select! {
        biased;
        answered = server.control().job(&name, wait.min(POLL_MAX)) => answered,
        () = server.stopping().cancelled() => server.control().job(&name, Duration::ZERO).await,
    };
    let answer = answered?;
    Ok(Answer(answer.outcome, answer))
}

async fn undone(
    State(server): State<Server>,
    Question(query): Question<UndoneQuery>,
) -> Answered<UndoneAnswer> {
    listed(server.control().undone(&query).await)
}

async fn history(
    State(server): State<Server>,
    Question(query): Question<HistoryQuery>,
) -> Answered<HistoryAnswer> {
    listed(server.control().history(&query).await)
}

async fn why(State(server): State<Server>, Question(query): Question<WhyQuery>) -> Answered<WhyAnswer> {
    listed(server.control().why(&query.of).await)
}

async fn pause(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<PauseRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().pause(&request, &caller.who()).await)
}

async fn resume(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<ResumeRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().resume(&request, &caller.who()).await)
}

async fn kill(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(run): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<KillRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().kill(&run, &request, &caller.who()).await)
}

async fn trigger(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(agent): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<TriggerRequest>,
) -> Answered<TriggerAnswer> {
    done(server.control().trigger(&agent, &request, &caller.who()).await)
}

async fn scale(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(agent): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<ScaleRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().scale(&agent, &request, &caller.who()).await)
}

async fn clear(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(agent): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<SimpleRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().clear(&agent, &who(&caller, &request)).await)
}

async fn cancel(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(job): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<SimpleRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().cancel(&job, &who(&caller, &request)).await)
}

async fn replay(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(job): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<SimpleRequest>,
) -> Answered<DoneAnswer> {
    done(server.control().replay(&job, &who(&caller, &request)).await)
}

async fn replay_all(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<ReplayRequest>,
) -> Answered<ReplayAnswer> {
    done(server.control().replay_all(&request, &caller.who()).await)
}

async fn break_lock(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<BreakRequest>,
) -> Answered<LockAnswer> {
    let answer = server.control().break_lock(&request, &caller.who()).await?;
    Ok(Answer(answer.outcome, answer))
}

async fn reload(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<SimpleRequest>,
) -> Answered<DoneAnswer> {
    let reloaded = server.levers().reload().await.ok_or_else(|| {
        Refusal::new(
            Outcome::Unavailable,
            "could not read the project again in time",
            "Look at the disk of the project's folder, and try again.",
        )
    })?;
    let who = caller.who().recorded(request.by.as_deref());
    tracing::info!(by = who.name, "reloaded");
    server.control().record(act(&who, "reload", "the project")).await;
    let mistakes = match reloaded.mistakes {
        0 => String::new(),
        found => format!(", and {} in the files: bell check tells more", count(found, "mistake")),
    };
    let message = format!("read the project again: {}{mistakes}", count(reloaded.agents, "agent"));
    Ok(Answer(Outcome::Written, DoneAnswer::new(message)))
}

async fn stop(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<StopRequest>,
) -> Answered<DoneAnswer> {
    let who = caller.who().recorded(request.by.as_deref());
    tracing::info!(by = who.name, now = request.now, "told to stop");
    let (pace, how) = if request.now {
        (Pace::Now, "stopping: what runs is ended")
    } else {
        (Pace::Gentle, "stopping: nothing new starts, and what runs may finish")
    };
    // First: once it stops, nothing more may be written.
    server.control().record(act(&who, "stop", "the daemon").because(how)).await;
    // A daemon whose store is gone stops all the same.
    let message = match server.control().cleared_by_a_stop().await {
        Ok(waiting @ 1..) => format!(
            "{how}; {waiting} waiting jobs are cleared from the queue; bring them back: bell jobs replay --cleared"
        ),
        Ok(0) | Err(_) => how.to_owned(),
    };
    server.levers().stop(pace);
    Ok(Answer(Outcome::Written, DoneAnswer::new(message)))
}
