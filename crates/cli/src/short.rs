//! The short commands that projects of Action Llama use: the same acts, with the answers that such projects expect.
//!
//! Which one is meant is the name that the program was called by; the daemon links them where agents find them. Each
//! answers with one JSON object on stdout. Exit codes are those of every other command.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::time::Duration;

use bell_api::ask::{AcquireRequest, Mode, ReleaseRequest, RenewRequest};
use bell_api::call::{CallAnswer, CallState};
use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_api::rfc3339::rfc3339;
use bell_coord::new_request;
use bell_coord::work::intake::MAX_PAYLOAD_BYTES;
use bell_store::clock::{boottime, wall};
use clap::{CommandFactory, Parser};
use serde_json::{Map, Value, json};

use crate::agent::{Word, make, over, supervisor, tell};
use crate::answer::Refusal;
use crate::cli::{Short, ShortCall, ShortWait};
use crate::say::{Format, Say};
use crate::span::ms;

/// How long `al-exit` waits to be ended with everything else, so that nothing after it is done.
const END_WITHIN: Duration = Duration::from_secs(60);

/// What was said, and the exit code.
type Said = Result<(Value, u8), Refusal>;

/// What a short name stands for, if the program was called by one.
pub(crate) fn called() -> Option<Result<Short, clap::Error>> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let name = Path::new(arguments.first()?).file_name()?.to_owned();
    let is_known = |known: &clap::Command| name == known.get_name();
    if !ShortCall::command().get_subcommands().any(is_known) {
        return None;
    }
    *arguments.first_mut()? = name;
    Some(ShortCall::try_parse_from(arguments).map(|call| call.command))
}

/// Says in the shape of an answer that the command line can't be understood.
pub(crate) fn misunderstood(error: &clap::Error) {
    if error.use_stderr() {
        let text = error.to_string();
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or("see --help");
        answer(&json!({ "ok": false, "error": format!("usage: {usage}") }));
    }
}

/// Carries out a short command. Answers the exit code.
pub(crate) async fn short(command: Short) -> u8 {
    let said = match command {
        Short::Lock(args) => lock(args.key).await,
        Short::Unlock(args) => unlock(args.key).await,
        Short::Heartbeat(args) => heartbeat(args.key).await,
        Short::Rerun => rerun().await,
        Short::Status { text } => speak(Word::Status(text.join(" "))).await,
        Short::Return { value } => match value.as_slice() {
            [] => match stdin() {
                Ok(value) => speak(Word::Return(value)).await,
                Err(refusal) => Err(refusal),
            },
            words => speak(Word::Return(words.join(" "))).await,
        },
        Short::Exit { code } => end(code).await,
        Short::Subagent { agent } => call(agent).await,
        Short::Check { call } => check(&call).await,
        Short::Wait(args) => wait(&args).await,
    };
    let (value, code) = said.unwrap_or_else(|refusal| (refused(&refusal), refusal.exit()));
    answer(&value);
    code
}

fn answer(value: &Value) {
    // Whoever asked may have gone.
    let _ = Say::new(Format::Json).answer(value, String::new);
}

/// A refusal with every word that a script may look for.
fn refused(refusal: &Refusal) -> Value {
    let LockAnswer { outcome, message, hint, holder, cycle, .. } = &*refusal.0;
    let mut said = Map::from_iter([
        ("ok".to_owned(), Value::from(false)),
        ("reason".to_owned(), json!(message)),
        ("error".to_owned(), json!(message)),
        ("hint".to_owned(), json!(hint)),
        ("outcome".to_owned(), json!(outcome)),
    ]);
    if let Some(holder) = holder {
        let who = holder.run.clone().or_else(|| holder.label.clone());
        said.insert("holder".to_owned(), json!(who.unwrap_or_else(|| holder.session.to_string())));
        said.insert("heldSince".to_owned(), json!(holder.held_since));
    }
    if !cycle.is_empty() {
        said.insert("cycle".to_owned(), json!(cycle));
    }
    Value::Object(said)
}

async fn lock(key: String) -> Said {
    let request = AcquireRequest {
        keys: vec![key],
        mode: Mode::Exclusive,
        ttl_ms: None,
        wait_ms: 0,
        request_id: new_request().to_string(),
    };
    let granted = supervisor()?.acquire(&request).await?;
    Ok((json!({ "ok": true, "fence": granted.fence, "expiresAt": expires(&granted) }), exit::OK))
}

async fn unlock(key: String) -> Said {
    supervisor()?.release(&ReleaseRequest { key, fence: None }).await?;
    Ok((json!({ "ok": true }), exit::OK))
}

async fn heartbeat(key: String) -> Said {
    let renewed = supervisor()?.renew(&RenewRequest { key, fence: None, ttl_ms: None }).await?;
    Ok((json!({ "ok": true, "fence": renewed.fence, "expiresAt": expires(&renewed) }), exit::OK))
}

/// When a lease ends unless it is renewed, by this machine's wall clock.
fn expires(lease: &LockAnswer) -> Option<String> {
    lease.holder.as_ref().map(|holder| rfc3339(ms(wall()) + holder.left_ms))
}

async fn speak(word: Word) -> Said {
    tell(&supervisor()?, word).await?;
    Ok((json!({ "ok": true }), exit::OK))
}

/// A run that can't be run again is not: that is nothing that a script has to stop for.
async fn rerun() -> Said {
    match tell(&supervisor()?, Word::Rerun).await {
        Ok(_) => Ok((json!({ "ok": true, "rerun": true }), exit::OK)),
        Err(Refusal(answer)) if answer.outcome == Outcome::Invalid => {
            Ok((json!({ "ok": true, "rerun": false, "reason": answer.message }), exit::OK))
        }
        Err(refusal) => Err(refusal),
    }
}

async fn end(code: u8) -> Said {
    supervisor()?.exit(code).await?;
    answer(&json!({ "ok": true, "exitCode": code }));
    tokio::time::sleep(END_WITHIN).await;
    Err(Refusal::unavailable("could not end the run in time", "End the main process of the agent yourself."))
}

async fn call(agent: String) -> Said {
    let client = supervisor()?;
    let text = stdin()?;
    let context = if text.is_empty() { Value::Null } else { json!({ "context": text }) };
    let called = make(&client, agent, context).await?;
    Ok((json!({ "ok": true, "callId": called.job }), exit::OK))
}

async fn check(call: &str) -> Said {
    Ok((status(&supervisor()?.check_call(call).await?), exit::OK))
}

/// One entry for each call, whatever became of it.
async fn wait(args: &ShortWait) -> Said {
    let client = supervisor()?;
    let give_up = boottime() + Duration::from_secs(args.timeout.into());
    let (mut entries, mut code) = (Map::new(), exit::OK);
    for call in &args.calls {
        let left = give_up.saturating_sub(boottime());
        match over(&Say::new(Format::Json), &client, call, left).await {
            Ok(found) => {
                if found.fate.is_none() {
                    code = exit::TIMED_OUT;
                }
                entries.insert(call.clone(), status(&found));
            }
            Err(refusal) => {
                code = refusal.exit();
                let message = json!(refusal.0.message);
                let entry = json!({ "status": "error", "errorMessage": message, "error": message });
                entries.insert(call.clone(), entry);
            }
        }
    }
    Ok((Value::Object(entries), code))
}

fn status(found: &CallAnswer) -> Value {
    match found.state {
        CallState::Queued => json!({ "status": "pending" }),
        CallState::Running => json!({ "status": "running" }),
        CallState::Completed => json!({ "status": "completed", "returnValue": found.returned }),
        CallState::Failed => {
            let message = json!(found.message);
            json!({ "status": "error", "errorMessage": message, "error": message, "returnValue": found.returned })
        }
    }
}

/// What is on stdin, if somebody put something there, without the line ends after it.
fn stdin() -> Result<String, Refusal> {
    let input = io::stdin();
    if input.is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_PAYLOAD_BYTES).unwrap_or(u64::MAX);
    let read = input.lock().take(most + 1).read_to_end(&mut bytes);
    let text = read.and_then(|_| String::from_utf8(bytes).map_err(io::Error::other));
    let text = text.map_err(|error| {
        Refusal::invalid(format!("could not read stdin: {error}"), "Send text in UTF-8, or nothing.")
    })?;
    if text.len() > MAX_PAYLOAD_BYTES {
        return Err(Refusal::invalid(
            format!("could not take what is on stdin: it has more than {MAX_PAYLOAD_BYTES} bytes"),
            "Store it elsewhere and send its name.",
        ));
    }
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
