//! What a model is told about the tools of a run.

use bell_api::ask::Nothing;
use bell_api::call::CallAnswer;
use bell_api::lock::{ListAnswer, LockAnswer};
use bell_api::run::RunAnswer;
use rmcp::model::Tool;

use super::arguments::{Acquire, Call, Check, List, Release, Renew, Return, Status, Wait};
use crate::result::Acquired;
use crate::shape::{Nature, tool};

pub(crate) const ACQUIRE_LOCK: &str = "acquire_lock";
pub(crate) const RELEASE_LOCK: &str = "release_lock";
pub(crate) const RENEW_LOCK: &str = "renew_lock";
pub(crate) const LIST_LOCKS: &str = "list_locks";
pub(crate) const CALL_AGENT: &str = "call_agent";
pub(crate) const CHECK_CALL: &str = "check_call";
pub(crate) const WAIT_CALL: &str = "wait_call";
pub(crate) const SET_STATUS: &str = "set_status";
pub(crate) const RETURN_VALUE: &str = "return_value";
pub(crate) const RERUN: &str = "rerun";

/// Every tool, in the order in which a model meets them.
pub(crate) fn all() -> Vec<Tool> {
    vec![
        tool::<Acquire, Acquired>(
            ACQUIRE_LOCK,
            "Lock a resource (an issue, a file, a deployment) before you change it, so that no other agent works on it at \
             the same time. Outcome \"granted\": it is yours, with a fence number to send with writes; release it when you \
             are done. \"busy\": another agent has it; skip it and go on with other work. \"waiting\": call again at once \
             with the request_id of the answer. \"deadlock\": release what the cycle names first.",
            Nature::Repeatable,
        ),
        tool::<Release, LockAnswer>(
            RELEASE_LOCK,
            "Unlock: give a lock back as soon as the work on the resource is done, or is given up. Outcome \"released\"; \
             \"lost\" or \"not_holder\": it was no longer yours, so check what you wrote.",
            Nature::Repeatable,
        ),
        tool::<Renew, LockAnswer>(
            RENEW_LOCK,
            "Keep a lock for longer: it lasts its full time again, from now. Use it before long work. Outcome \
             \"renewed\"; \"lost\": stop the work on that resource at once and write nothing more.",
            Nature::Repeatable,
        ),
        tool::<List, ListAnswer>(
            LIST_LOCKS,
            "List the locks that are held or waited for: which agent has which resource, since when. Only a look: to be \
             sure of a resource, take it with acquire_lock.",
            Nature::Look,
        ),
        tool::<Call, CallAnswer>(
            CALL_AGENT,
            "Call another agent (a subagent) of this project and go on at once. The answer has the job; get its result \
             with wait_call. A busy agent queues the call.",
            Nature::Act,
        ),
        tool::<Check, CallAnswer>(
            CHECK_CALL,
            "Look where a call of another agent stands, without waiting. State \"queued\", \"running\", \"completed\" \
             (with what it returned) or \"failed\" (with the reason).",
            Nature::Look,
        ),
        tool::<Wait, CallAnswer>(
            WAIT_CALL,
            "Wait until a call of another agent is over, and get what it returned. Lasts 55 seconds at the most; outcome \
             \"waiting\": it is not over, call again with the same job.",
            Nature::Look,
        ),
        tool::<Status, RunAnswer>(
            SET_STATUS,
            "Tell the people who watch what this run is doing now, in a few words. Use it when you begin something new.",
            Nature::Repeatable,
        ),
        tool::<Return, RunAnswer>(
            RETURN_VALUE,
            "Give the result of this run to whoever called it. The last value counts; the run goes on until you end.",
            Nature::Repeatable,
        ),
        tool::<Nothing, RunAnswer>(
            RERUN,
            "Ask for this run to be run again once it has completed, because there is more work than it could do.",
            Nature::Repeatable,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_a_run_has_words_and_shapes_that_any_program_can_read() {
        let tools = all();
        assert_eq!(tools.len(), 10);
        for tool in tools {
            crate::shape::check(&tool);
        }
    }
}
