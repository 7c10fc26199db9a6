//! The prompt that teaches to lock.

use rmcp::model::{GetPromptResult, Prompt, PromptMessage, Role};

/// What the prompt is called.
pub(crate) const NAME: &str = "locking_habit";

const DESCRIPTION: &str = "How to share resources with other agents: lock, work, release; skip what is busy";

const HABIT: &str = "\
You are one of several agents that may work on the same things at the same time. Before you change anything that others \
could change too (an issue, a pull request, a branch, a file, a deployment), lock it:

1. Call acquire_lock with a URI that names the thing itself, the same that every agent would use, for example \
github://acme/app/issues/42. If you need several things, ask for all of them in one call.
2. granted: do the work. If what you write to accepts a fence, send the fence of the answer along.
   busy: another agent is at it. Skip it and go on with something else; do not do the work without the lock.
   waiting: call again at once with the request_id of the answer.
   deadlock: release a lock that the cycle names, then ask again.
   Anything else is no lock: do not start.
3. If the work takes long, call renew_lock from time to time. lost: stop at once and write nothing more.
4. Call release_lock as soon as the work is done, or you give it up. Do not keep locks while you do other things.

A lock that somebody else has is no error to work around. Never act on a resource because its lock \"should\" be free.";

pub(crate) fn prompt() -> Prompt {
    Prompt::new(NAME, Some(DESCRIPTION), None).with_title("Locking habit")
}

pub(crate) fn words() -> GetPromptResult {
    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, HABIT)]).with_description(DESCRIPTION)
}
