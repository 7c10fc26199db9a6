//! Doing what a tool of operators is asked: one question to the fleet, and its answer.

use std::time::Duration;

use bell_api::ask::Nothing;
use bell_api::control::acts::{BreakRequest, KillRequest, PauseRequest, ResumeRequest, TriggerRequest};
use bell_api::control::jobs::{JobAnswer, JobState};
use bell_api::control::logs::LogQuery;
use bell_api::control::runs::RunsQuery;
use bell_api::control::shape::FateShape;
use bell_api::control::status::StatusQuery;
use bell_api::outcome::Outcome;
use bell_client::client::POLL;
use bell_control::{Control, Who};
use bell_core::work::job::Fate;
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{Break, Kill, Log, Pause, Resume, Run, Runs, Status, Why};
use super::{look, tools};
use crate::result::{self, LIST_MAX, Told, read, result};
use crate::run::List;

/// Runs in one answer, for the same reason.
const RUNS_MAX: usize = 100;
const LINES: usize = 100;
const LINES_MAX: usize = 1_000;

/// What became of an agent that was to run.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ran {
    /// `written`: it is stored and will run; `listed`: it is over; `waiting`: it is not over yet.
    outcome: Outcome,
    /// Names the job: ask why about it.
    job: String,
    /// `queued`, `delayed`, `running` or `over`.
    state: Option<JobState>,
    /// The run that does it, or did it last.
    run: Option<String>,
    /// If it is over: what became of it.
    #[schemars(with = "Option<FateShape>")]
    fate: Option<Fate>,
    /// What it returned.
    returned: Option<String>,
    /// How many are ahead of it in the queue.
    ahead: Option<u32>,
}

/// A part of a log.
#[derive(Serialize, JsonSchema)]
pub(super) struct LogText {
    outcome: Outcome,
    /// The run.
    run: String,
    /// The lines, in the order they were printed.
    text: String,
    /// Whether lines before these were left out.
    left_out: bool,
    /// Where to go on reading.
    next: u64,
    /// Whether the run is over and nothing will follow.
    is_last: bool,
}

/// Does what a tool is asked; `None`: there is no such tool.
pub(super) async fn act(
    control: &Control,
    who: &Who,
    name: &str,
    arguments: JsonObject,
) -> Option<CallToolResult> {
    let told = match name {
        tools::FLEET_STATUS => status(control, arguments).await,
        tools::LIST_AGENTS => agents(control, arguments).await,
        tools::LIST_RUNS => runs(control, arguments).await,
        tools::READ_LOG => log(control, arguments).await,
        tools::LIST_LOCKS => locks(control, arguments).await,
        tools::WHY => why(control, arguments).await,
        tools::RUN_AGENT => run(control, who, arguments).await,
        tools::PAUSE => pause(control, who, arguments).await,
        tools::RESUME => resume(control, who, arguments).await,
        tools::KILL_RUN => kill(control, who, arguments).await,
        tools::BREAK_LOCK => break_lock(control, who, arguments).await,
        _ => return None,
    };
    Some(told.unwrap_or_else(|refused| {
        refused.naming("fleet_status, list_runs and list_locks show what there is.").into()
    }))
}

async fn status(control: &Control, arguments: JsonObject) -> Told {
    let Status { agent } = read(arguments)?;
    let answer = control.status(&StatusQuery { agent }).await?;
    Ok(result(answer.outcome, &answer))
}

async fn agents(control: &Control, arguments: JsonObject) -> Told {
    let Nothing {} = read(arguments)?;
    let answer = control.agents().await?;
    Ok(result(answer.outcome, &answer))
}

async fn runs(control: &Control, arguments: JsonObject) -> Told {
    let Runs { agent, limit } = read(arguments)?;
    let limit = limit.map(|limit| limit.min(RUNS_MAX));
    let answer = control.runs(&RunsQuery { agent, limit }).await?;
    Ok(result(answer.outcome, &answer))
}

async fn log(control: &Control, arguments: JsonObject) -> Told {
    let Log { run, lines, contains, from } = read(arguments)?;
    let lines = lines.unwrap_or(LINES).clamp(1, LINES_MAX);
    // One more than is told: then it is known whether there were more.
    let query = LogQuery { from, grep: contains, tail: Some(lines + 1), ..LogQuery::default() };
    let mut found = control.logs(&run, query).await?;
    let are_more = found.lines.len() > lines;
    found.lines.drain(..usize::from(are_more));
    let (text, is_whole) = look::text(&found);
    let answer = LogText {
        outcome: found.outcome,
        run: found.run,
        text,
        left_out: are_more || !is_whole,
        next: found.next,
        is_last: found.is_last,
    };
    Ok(result(answer.outcome, &answer))
}

async fn locks(control: &Control, arguments: JsonObject) -> Told {
    let List { prefix } = read(arguments)?;
    let mut found = control.list_locks(&prefix, None).await?;
    found.more |= found.locks.len() > LIST_MAX;
    found.locks.truncate(LIST_MAX);
    Ok(result::list(&found))
}

async fn why(control: &Control, arguments: JsonObject) -> Told {
    let Why { of } = read(arguments)?;
    let answer = control.why(&of).await?;
    Ok(result(answer.outcome, &answer))
}

async fn run(control: &Control, who: &Who, arguments: JsonObject) -> Told {
    let Run { agent, prompt, context, wait_seconds, request_id } = read(arguments)?;
    let request = TriggerRequest { prompt, context, request_id, by: None };
    let accepted = control.trigger(&agent, &request, who).await?;
    let job = accepted.job.to_string();
    if wait_seconds == 0 {
        let ahead = accepted.ahead;
        let ran =
            Ran { outcome: accepted.outcome, job, state: None, run: None, fate: None, returned: None, ahead };
        return Ok(result(ran.outcome, &ran));
    }
    let wait = Duration::from_secs(wait_seconds).min(POLL);
    let JobAnswer { outcome, state, run, fate, returned, .. } = control.job(&job, wait).await?;
    let run = run.map(|run| run.to_string());
    let ran = Ran { outcome, job, state: Some(state), run, fate, returned, ahead: None };
    Ok(result::job(&ran, outcome, ran.fate.as_ref()))
}

async fn pause(control: &Control, who: &Who, arguments: JsonObject) -> Told {
    let Pause { agent, reason } = read(arguments)?;
    let request = PauseRequest { agent, reason: Some(reason), by: None };
    let answer = control.pause(&request, who).await?;
    Ok(result(answer.outcome, &answer))
}

async fn resume(control: &Control, who: &Who, arguments: JsonObject) -> Told {
    let Resume { agent } = read(arguments)?;
    let answer = control.resume(&ResumeRequest { agent, by: None }, who).await?;
    Ok(result(answer.outcome, &answer))
}

async fn kill(control: &Control, who: &Who, arguments: JsonObject) -> Told {
    let Kill { run, reason } = read(arguments)?;
    let request = KillRequest { reason: Some(reason), by: None };
    let answer = control.kill(&run, &request, who).await?;
    Ok(result(answer.outcome, &answer))
}

async fn break_lock(control: &Control, who: &Who, arguments: JsonObject) -> Told {
    let Break { key, reason } = read(arguments)?;
    let request = BreakRequest { key, reason, by: None };
    Ok(result::lock(control.break_lock(&request, who).await?))
}
