//! What an agent says from inside its run: what it does, what it returns, that it wants to run again, and whom it calls.
//!
//! All of it goes through the supervisor of the run, whose address and token are in the environment. Without them
//! nothing is done: never «ok» by mistake.

use std::time::Duration;

use bell_api::call::{CallAnswer, CallRequest, CallState};
use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_api::run::RunAnswer;
use bell_client::Client;
use bell_client::client::POLL;
use bell_coord::new_request;
use bell_store::clock::boottime;
use serde_json::Value;

use crate::answer::Refusal;
use crate::cli::{CallArgs, CallCommand};
use crate::desk::this_run;
use crate::progress::Progress;
use crate::say::Say;
use crate::span::{self, WITHOUT_LIMIT};

/// Something a run says of itself.
pub(crate) enum Word {
    /// What it is doing.
    Status(String),
    /// What it returns.
    Return(String),
    /// It wants to be run again.
    Rerun,
}

/// The supervisor of the run that this process is a part of.
pub(crate) fn supervisor() -> Result<Client, Refusal> {
    this_run()?.ok_or_else(|| {
        Refusal::new(
            Outcome::Unreachable,
            "could not reach the supervisor of a run: BELL_URL is not set",
            "This command works inside a run, with the environment that the run's supervisor has set.",
        )
    })
}

/// Says something about the run that this command is a part of. Answers the exit code.
pub(crate) async fn speak(say: &Say, word: Word) -> Result<u8, Refusal> {
    let noted = tell(&supervisor()?, word).await?;
    let _ = say.answer(&noted, || "noted".to_owned());
    Ok(exit::OK)
}

/// Tells the supervisor.
pub(crate) async fn tell(client: &Client, word: Word) -> Result<RunAnswer, Refusal> {
    Ok(match word {
        Word::Status(text) => client.status(&text).await?,
        Word::Return(value) => client.give_back(&value).await?,
        Word::Rerun => client.rerun().await?,
    })
}

/// Calls another agent, or looks after a call. Answers the exit code.
pub(crate) async fn call(say: &Say, args: &CallArgs) -> Result<u8, Refusal> {
    let client = supervisor()?;
    match &args.command {
        Some(CallCommand::Check(args)) => {
            let found = client.check_call(&args.job).await?;
            let _ = say.answer(&found, || words(&found));
            Ok(exit::OK)
        }
        Some(CallCommand::Wait(args)) => {
            let limit = span::wait(args.timeout.as_deref(), "--timeout", WITHOUT_LIMIT)?;
            Ok(end(say, over(say, &client, &args.job, limit).await?))
        }
        None => {
            let context = context(args.context.as_deref())?;
            let agent = args.agent.clone().unwrap_or_default();
            let called = make(&client, agent, context).await?;
            if args.wait {
                return Ok(end(say, over(say, &client, called.job.as_str(), WITHOUT_LIMIT).await?));
            }
            let _ = say.answer(&called, || format!("called as job {}", called.job));
            Ok(exit::OK)
        }
    }
}

/// Makes a call.
pub(crate) async fn make(client: &Client, agent: String, context: Value) -> Result<CallAnswer, Refusal> {
    Ok(client.call(&CallRequest { agent, context, request_id: new_request().to_string() }).await?)
}

/// Waits until a call is over, or the time is; then it says that it still waits.
pub(crate) async fn over(
    say: &Say,
    client: &Client,
    job: &str,
    limit: Duration,
) -> Result<CallAnswer, Refusal> {
    let give_up = boottime() + limit;
    let mut progress = Progress::new(say);
    let over = async {
        loop {
            let left = give_up.saturating_sub(boottime());
            let found = client.wait_call(job, left.clamp(Duration::from_millis(1), POLL)).await?;
            if found.outcome != Outcome::Waiting || boottime() >= give_up {
                return Ok(found);
            }
        }
    };
    tokio::select! {
        found = over => found,
        never = progress.tell("waiting for the call") => match never {},
    }
}

/// Shows what a call came to. Answers the exit code.
fn end(say: &Say, found: CallAnswer) -> u8 {
    let _ = say.answer(&found, || found.returned.clone().unwrap_or_else(|| words(&found)));
    match found.state {
        CallState::Completed => exit::OK,
        CallState::Failed => exit::CONFLICT,
        CallState::Queued | CallState::Running => exit::TIMED_OUT,
    }
}

fn words(found: &CallAnswer) -> String {
    match found.state {
        CallState::Queued => "waiting for its turn".to_owned(),
        CallState::Running => "running".to_owned(),
        CallState::Completed => "completed".to_owned(),
        CallState::Failed => found.message.clone().unwrap_or_else(|| "failed".to_owned()),
    }
}

fn context(given: Option<&str>) -> Result<Value, Refusal> {
    let Some(text) = given else { return Ok(Value::Null) };
    serde_json::from_str(text).map_err(|error| {
        Refusal::invalid(
            format!("could not read the context: {error}"),
            "Give JSON: --context '{\"number\": 42}'.",
        )
    })
}
