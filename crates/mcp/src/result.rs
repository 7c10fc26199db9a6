//! Answers and refusals as tool results.
//!
//! A refusal is a result with the error flag, which a model reads, and never an error of the protocol, which most programs
//! keep from it. The text of a result is its structure once more, for programs that show text only.

use bell_api::call::{CallAnswer, CallState};
use bell_api::lock::{ListAnswer, LockAnswer};
use bell_api::outcome::{Mcp, Outcome};
use bell_api::run::RunAnswer;
use bell_client::Failure;
use bell_core::work::job::Fate;
use bell_core::work::run::End;
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Locks in one answer: more would fill the memory of a model and tell it nothing.
pub(crate) const LIST_MAX: usize = 200;

/// What a tool came to.
pub(crate) type Told = Result<CallToolResult, Refused>;

/// What a tool was told.
pub(crate) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Refused> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| Refused::unreadable(&error))
}

/// The answer to `acquire_lock`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Acquired {
    #[serde(flatten)]
    pub(crate) lock: LockAnswer,
    /// Names the request: to be given again after "waiting".
    pub(crate) request_id: String,
}

/// Why a tool did not do what it was asked.
pub(crate) struct Refused(Box<LockAnswer>);

impl Refused {
    /// The arguments can't be read.
    pub(crate) fn unreadable(error: &serde_json::Error) -> Self {
        let mut answer = LockAnswer::new(Outcome::Invalid, None);
        answer.message = Some(format!("could not read the arguments: {error}"));
        answer.hint = Some("Give the arguments as the input schema of the tool has them.".to_owned());
        Self(Box::new(answer))
    }

    /// Nobody wants the answer any more.
    pub(crate) fn gone() -> Self {
        let mut answer = LockAnswer::new(Outcome::TimedOut, None);
        answer.message = Some("could not go on waiting: the call was given up".to_owned());
        answer.hint = Some(Outcome::Waiting.next().to_owned());
        Self(Box::new(answer))
    }

    /// The caller may only look.
    pub(crate) fn rights() -> Self {
        let mut answer = LockAnswer::new(Outcome::Unauthorized, None);
        answer.message = Some("could not do this: the key of this connection may only look".to_owned());
        answer.hint = Some("Tell the operator what you would do; a full API key lets you do it.".to_owned());
        Self(Box::new(answer))
    }

    /// The same, with where to find names if one was not found: commands are of no use to who has tools.
    pub(crate) fn naming(mut self, hint: &str) -> Self {
        if self.0.outcome == Outcome::NotFound {
            self.0.hint = Some(hint.to_owned());
        }
        self
    }

    /// The refusal of `acquire_lock`.
    pub(crate) fn of_request(self, request_id: &str) -> CallToolResult {
        lock_request(*self.0, request_id)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self(failure.answer())
    }
}

impl From<bell_control::Refused> for Refused {
    fn from(refused: bell_control::Refused) -> Self {
        Self(refused.0)
    }
}

impl From<Refused> for CallToolResult {
    fn from(Refused(answer): Refused) -> Self {
        lock(*answer)
    }
}

pub(crate) fn lock(answer: LockAnswer) -> CallToolResult {
    result(answer.outcome, &answer)
}

pub(crate) fn lock_request(answer: LockAnswer, request_id: &str) -> CallToolResult {
    result(answer.outcome, &Acquired { lock: answer, request_id: request_id.to_owned() })
}

pub(crate) fn list(answer: &ListAnswer) -> CallToolResult {
    result(answer.outcome, answer)
}

pub(crate) fn run(answer: &RunAnswer) -> CallToolResult {
    result(answer.outcome, answer)
}

/// Where a call stands.
pub(crate) fn call(answer: &CallAnswer) -> CallToolResult {
    result(answer.outcome, answer)
}

/// What a call that was waited for came to: one that failed is not to be taken for done.
pub(crate) fn waited(answer: &CallAnswer) -> CallToolResult {
    if answer.outcome == Outcome::Waiting {
        let hint = "It is not over: call wait_call again with the same job, or go on and look later with check_call.";
        return marked(Mcp::Error, body(answer, Some(hint)));
    }
    let mark = if answer.state == CallState::Failed { Mcp::Error } else { answer.outcome.row().mcp };
    marked(mark, body(answer, None))
}

/// What a job that was waited for came to: one that did not complete is not to be taken for done.
pub(crate) fn job(answer: &impl Serialize, outcome: Outcome, end: Option<&Fate>) -> CallToolResult {
    match end {
        Some(Fate::Ended { end: End::Completed }) => result(outcome, answer),
        Some(_) => {
            marked(Mcp::Error, body(answer, Some("Read its log with read_log, or ask why about the run.")))
        }
        None => {
            let hint = "It is not over: look later with list_runs, or ask why about the job.";
            marked(Mcp::Error, body(answer, Some(hint)))
        }
    }
}

/// An answer, marked as the table of outcomes says.
pub(crate) fn result(outcome: Outcome, answer: &impl Serialize) -> CallToolResult {
    marked(outcome.row().mcp, body(answer, hint(outcome)))
}

/// What to do next, where the words of the command line would name its options.
fn hint(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Busy => {
            Some("Skip it and go on with other work; or ask again with wait_seconds to wait for it.")
        }
        Outcome::TimedOut => {
            Some("Go on with other work and try again later, or wait longer with wait_seconds.")
        }
        Outcome::Waiting => Some(
            "Call again at once with the same keys and this request_id: the place in the queue is kept for a few seconds.",
        ),
        _ => None,
    }
}

fn body(answer: &impl Serialize, hint: Option<&str>) -> Value {
    // Answers are plain data; should one ever not be writable, nobody may take that for success.
    let unwritable = |error: serde_json::Error| {
        let message = format!("could not write the answer: {error}");
        json!({"outcome": Outcome::Unavailable, "message": message, "hint": Outcome::Unavailable.next()})
    };
    let mut body = serde_json::to_value(answer).unwrap_or_else(unwritable);
    if let (Some(fields), Some(hint)) = (body.as_object_mut(), hint) {
        fields.insert("hint".to_owned(), hint.into());
    }
    body
}

fn marked(mark: Mcp, body: Value) -> CallToolResult {
    match mark {
        Mcp::Ok => CallToolResult::structured(body),
        Mcp::Error => CallToolResult::structured_error(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(outcome: Outcome) -> Value {
        serde_json::to_value(lock(LockAnswer::new(outcome, None))).unwrap()
    }

    #[test]
    fn a_result_is_marked_as_the_table_of_outcomes_says() {
        for row in bell_api::outcome::TABLE {
            let result = answered(row.outcome);
            assert_eq!(result["isError"], row.mcp == Mcp::Error, "{}", row.word);
            assert_eq!(result["structuredContent"]["outcome"], row.word);
        }
    }

    #[test]
    fn busy_advises_to_skip_and_names_no_option_of_the_command_line() {
        let busy = &answered(Outcome::Busy)["structuredContent"]["hint"];
        assert!(busy.as_str().unwrap().starts_with("Skip it and go on"), "{busy}");
        for outcome in [Outcome::Busy, Outcome::TimedOut, Outcome::Waiting] {
            assert!(!answered(outcome)["structuredContent"]["hint"].as_str().unwrap().contains("--"));
        }
    }

    #[test]
    fn the_text_is_the_structure_once_more() {
        let result = answered(Outcome::Granted);
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
    }
}
