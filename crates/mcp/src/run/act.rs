//! Doing what a tool of a run is asked: one question to the supervisor of the run, and its answer.

use std::time::Duration;

use bell_api::ask::{AcquireRequest, Nothing, ReleaseRequest, RenewRequest};
use bell_api::call::CallRequest;
use bell_client::Client;
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::Value;
use uuid::Uuid;

use super::arguments::{Acquire, Call, Check, List, Release, Renew, Return, Status, Wait};
use super::tools;
use crate::result::{self, LIST_MAX, Refused, Told, read};

/// Does what a tool is asked; `None`: there is no such tool. `given_up` is ready when nobody wants the answer any more.
pub(crate) async fn act(
    client: &Client,
    name: &str,
    arguments: JsonObject,
    given_up: impl Future<Output = ()>,
) -> Option<CallToolResult> {
    let told = match name {
        tools::ACQUIRE_LOCK => acquire(client, arguments, given_up).await,
        tools::RELEASE_LOCK => release(client, arguments).await,
        tools::RENEW_LOCK => renew(client, arguments).await,
        tools::LIST_LOCKS => list(client, arguments).await,
        tools::CALL_AGENT => call(client, arguments).await,
        tools::CHECK_CALL => check(client, arguments).await,
        tools::WAIT_CALL => wait(client, arguments).await,
        tools::SET_STATUS => status(client, arguments).await,
        tools::RETURN_VALUE => give_back(client, arguments).await,
        tools::RERUN => rerun(client, arguments).await,
        _ => return None,
    };
    Some(told.unwrap_or_else(Into::into))
}

/// One call, however long the wait: programs give up after a minute, and not all of them say so.
///
/// Who named the request can come back to it, so a call that is given up leaves it its place for a few seconds. A name that
/// was made here nobody knows yet: its place is given up at once.
async fn acquire(client: &Client, arguments: JsonObject, given_up: impl Future<Output = ()>) -> Told {
    let Acquire { keys, mode, wait_seconds, ttl_seconds, request_id } = read(arguments)?;
    let is_named = request_id.is_some();
    let request_id = request_id.unwrap_or_else(fresh);
    let (ttl_ms, wait_ms) = (ttl_seconds.map(ms), ms(wait_seconds));
    let request = AcquireRequest { keys, mode, ttl_ms, wait_ms, request_id: request_id.clone() };
    let answered = tokio::select! {
        answered = client.attend(&request) => answered,
        () = given_up => match is_named {
            true => return Err(Refused::gone()),
            false => client.leave(&request_id).await,
        },
    };
    Ok(match answered {
        Ok(answer) => result::lock_request(answer, &request_id),
        Err(failure) => Refused::from(failure).of_request(&request_id),
    })
}

async fn release(client: &Client, arguments: JsonObject) -> Told {
    let Release { key, fence } = read(arguments)?;
    Ok(result::lock(client.release(&ReleaseRequest { key, fence }).await?))
}

async fn renew(client: &Client, arguments: JsonObject) -> Told {
    let Renew { key, fence, ttl_seconds } = read(arguments)?;
    Ok(result::lock(client.renew(&RenewRequest { key, fence, ttl_ms: ttl_seconds.map(ms) }).await?))
}

async fn list(client: &Client, arguments: JsonObject) -> Told {
    let List { prefix } = read(arguments)?;
    let mut found = client.list(&prefix).await?;
    found.more |= found.locks.len() > LIST_MAX;
    found.locks.truncate(LIST_MAX);
    Ok(result::list(&found))
}

async fn call(client: &Client, arguments: JsonObject) -> Told {
    let Call { agent, context, request_id } = read(arguments)?;
    let request_id = request_id.unwrap_or_else(fresh);
    let request = CallRequest { agent, context: Value::Object(context), request_id };
    Ok(result::call(&client.call(&request).await?))
}

async fn check(client: &Client, arguments: JsonObject) -> Told {
    let Check { job } = read(arguments)?;
    Ok(result::call(&client.check_call(&job).await?))
}

async fn wait(client: &Client, arguments: JsonObject) -> Told {
    let Wait { job, wait_seconds } = read(arguments)?;
    Ok(result::waited(&client.wait_call(&job, Duration::from_secs(wait_seconds)).await?))
}

async fn status(client: &Client, arguments: JsonObject) -> Told {
    let Status { text } = read(arguments)?;
    Ok(result::run(&client.status(&text).await?))
}

async fn give_back(client: &Client, arguments: JsonObject) -> Told {
    let Return { value } = read(arguments)?;
    let value = match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(result::run(&client.give_back(&value).await?))
}

async fn rerun(client: &Client, arguments: JsonObject) -> Told {
    let Nothing {} = read(arguments)?;
    Ok(result::run(&client.rerun().await?))
}

fn fresh() -> String {
    Uuid::now_v7().simple().to_string()
}

fn ms(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn ask(name: &str, arguments: Value) -> Value {
        let client = Client::new("unix:/nobody/is/here", &"token".to_owned().into()).unwrap();
        let arguments = arguments.as_object().unwrap().clone();
        let result = act(&client, name, arguments, std::future::pending()).await;
        serde_json::to_value(result.unwrap_or_else(|| panic!("no tool {name}"))).unwrap()
    }

    fn sound(name: &str) -> Value {
        match name {
            tools::ACQUIRE_LOCK => json!({"keys": ["job:a"]}),
            tools::RELEASE_LOCK | tools::RENEW_LOCK => json!({"key": "job:a", "fence": 1}),
            tools::CALL_AGENT => json!({"agent": "reviewer", "context": {"number": 42}}),
            tools::CHECK_CALL | tools::WAIT_CALL => json!({"job": "x"}),
            tools::SET_STATUS => json!({"text": "at work"}),
            tools::RETURN_VALUE => json!({"value": {"merged": true}}),
            _ => json!({}),
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn every_tool_that_is_listed_asks_and_with_nobody_there_none_says_ok() {
        for tool in tools::all() {
            let result = ask(&tool.name, sound(&tool.name)).await;
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(result["structuredContent"]["outcome"], "unreachable", "{result}");
            assert!(result["structuredContent"]["hint"].is_string(), "{result}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn arguments_that_can_not_be_read_are_refused_in_words_that_a_model_sees() {
        for tool in tools::all() {
            let mut arguments = sound(&tool.name);
            arguments["colour"] = "red".into();
            let result = ask(&tool.name, arguments).await;
            assert_eq!(result["structuredContent"]["outcome"], "invalid", "{result}");
            assert!(result["structuredContent"]["message"].as_str().unwrap().contains("colour"), "{result}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_request_has_an_id_to_come_back_with_whatever_became_of_it() {
        let made = ask(tools::ACQUIRE_LOCK, sound(tools::ACQUIRE_LOCK)).await;
        assert_eq!(made["structuredContent"]["request_id"].as_str().unwrap().len(), 32);
        let kept = ask(tools::ACQUIRE_LOCK, json!({"keys": ["job:a"], "request_id": "mine"})).await;
        assert_eq!(kept["structuredContent"]["request_id"], "mine");
    }
}
