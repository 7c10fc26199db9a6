//! Answers about locks, as JSON.
//!
//! An answer about a lock always has `outcome`, `key`, `fence`, `holder` and `ttl_ms`, null where there is
//! none, so that a script can read them without asking first. Other fields are there only when they say
//! something. A reader must ignore fields that it does not know.
//!
//! Every span of time is in milliseconds on the store's clock, and was true when the store answered.

use bell_core::key::Key;
use bell_core::lock::{Fence, Mode};
use bell_core::session::{Identity, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::token::Token;

/// The answer to renew, release, show, wait, break and a guarded write; most of the answer to acquire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockAnswer {
    /// How it ended.
    pub outcome: Outcome,
    /// The key in canonical form; null if what was given is not a key. The first, if several were asked for.
    #[schemars(with = "Option<String>")]
    pub key: Option<Key>,
    /// The fence of `key`. If the caller holds it, the caller's; otherwise its holder's. For a guarded write,
    /// the fence that the write carried.
    #[schemars(with = "Option<u64>")]
    pub fence: Option<Fence>,
    /// Who holds `key`.
    pub holder: Option<HolderAnswer>,
    /// How long the lease lasts from each renewal, in milliseconds. What is left of it is `holder.left_ms`.
    pub ttl_ms: Option<u64>,
    /// If several keys were taken in one call: all of them with their fences, in canonical order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyFence>,
    /// If `key` is shared: who else holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<HolderAnswer>,
    /// The caller held the lock before it asked: same fence, same start, and one release frees it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_held: bool,
    /// How many sessions wait for `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// In the answer to show: who waits, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<WaiterAnswer>,
    /// If waiting would never end: who waits for what, as session, key, session, key and so on. Each key is
    /// blocked by the session after it, and the last one by the first session, which is the caller's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<String>,
    /// If a guarded write was refused: the highest fence that the resource has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub seen_fence: Option<Fence>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do next, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl LockAnswer {
    /// An answer that says how it ended and nothing else.
    pub fn new(outcome: Outcome, key: Option<Key>) -> Self {
        Self {
            outcome,
            key,
            fence: None,
            holder: None,
            ttl_ms: None,
            keys: Vec::new(),
            shared_with: Vec::new(),
            already_held: false,
            waiting: None,
            waiters: Vec::new(),
            cycle: Vec::new(),
            seen_fence: None,
            message: None,
            hint: None,
        }
    }
}

impl LockAnswer {
    /// Everybody who holds `key`, each with its fence.
    pub fn holders(&self) -> impl Iterator<Item = (&HolderAnswer, Option<Fence>)> {
        let first = self.holder.iter().map(|holder| (holder, self.fence));
        first.chain(self.shared_with.iter().map(|holder| (holder, holder.fence)))
    }
}

/// The answer to acquire: the only one that carries the secret.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcquireAnswer {
    /// What any answer about a lock says.
    #[serde(flatten)]
    pub lock: LockAnswer,
    /// Proves the session to renew and release. There only if the lock was granted to a session that was
    /// made for it.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "Token::serialize")]
    #[schemars(with = "Option<String>")]
    pub token: Option<Token>,
}

/// One of several keys that were taken together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyFence {
    /// The key in canonical form.
    #[schemars(with = "String")]
    pub key: Key,
    /// Its fence: each key has its own.
    #[schemars(with = "u64")]
    pub fence: Fence,
}

/// Who holds a lock, as anybody may know it. What is not known is null.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HolderAnswer {
    /// The session's id. It proves nothing.
    #[schemars(with = "String")]
    pub session: SessionId,
    /// The agent that runs in it.
    pub agent: Option<String>,
    /// The run of that agent.
    pub run: Option<String>,
    /// The machine.
    pub node: Option<String>,
    /// The process on that machine.
    pub pid: Option<u32>,
    /// Words for people.
    pub label: Option<String>,
    /// `exclusive` or `shared`.
    #[schemars(with = "crate::ask::Mode")]
    pub mode: Mode,
    /// When it was granted: RFC 3339, UTC, to the millisecond. For people: it is reckoned from `held_ms` on
    /// the answering machine's wall clock.
    pub held_since: String,
    /// How long it has been held, in milliseconds.
    pub held_ms: u64,
    /// How long it lasts unless renewed, in milliseconds.
    pub left_ms: u64,
    /// The fence of its lease, where that is not the one that the answer is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub fence: Option<Fence>,
}

impl HolderAnswer {
    /// A holder that was granted the lock `held_ms` ago and keeps it for `left_ms`, told at `wall_ms` of the
    /// answering machine's wall clock (milliseconds since 1970).
    pub fn new(session: SessionId, who: Identity, mode: Mode, span: Span, wall_ms: u64) -> Self {
        let Identity { agent, run, node, pid, label } = who;
        let Span { held_ms, left_ms } = span;
        let held_since = crate::rfc3339::rfc3339(wall_ms.saturating_sub(held_ms));
        Self { session, agent, run, node, pid, label, mode, held_since, held_ms, left_ms, fence: None }
    }
}

/// How long a lease has lasted and will last, on the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Milliseconds since the grant.
    pub held_ms: u64,
    /// Milliseconds until the end unless renewed.
    pub left_ms: u64,
}

/// The answer to list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListAnswer {
    /// How it ended.
    pub outcome: Outcome,
    /// The locks that somebody holds, ordered by key; each reads like the answer to show.
    pub locks: Vec<LockAnswer>,
    /// The limit was reached and there are more, after the last of these.
    pub more: bool,
}

/// Who waits for a lock, as anybody may know it. What is not known is null.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaiterAnswer {
    /// The session's id.
    #[schemars(with = "String")]
    pub session: SessionId,
    /// The agent that runs in it.
    pub agent: Option<String>,
    /// The run of that agent.
    pub run: Option<String>,
    /// The machine.
    pub node: Option<String>,
    /// The process on that machine.
    pub pid: Option<u32>,
    /// Words for people.
    pub label: Option<String>,
    /// `exclusive` or `shared`.
    #[schemars(with = "crate::ask::Mode")]
    pub mode: Mode,
    /// How long it has waited, in milliseconds.
    pub waited_ms: u64,
}

impl WaiterAnswer {
    /// A session that has waited so long.
    pub fn new(session: SessionId, who: Identity, mode: Mode, waited_ms: u64) -> Self {
        let Identity { agent, run, node, pid, label } = who;
        Self { session, agent, run, node, pid, label, mode, waited_ms }
    }

    /// Who that is.
    pub fn who(&self) -> Identity {
        Identity {
            agent: self.agent.clone(),
            run: self.run.clone(),
            node: self.node.clone(),
            pid: self.pid,
            label: self.label.clone(),
        }
    }
}

impl HolderAnswer {
    /// Who that is.
    pub fn who(&self) -> Identity {
        Identity {
            agent: self.agent.clone(),
            run: self.run.clone(),
            node: self.node.clone(),
            pid: self.pid,
            label: self.label.clone(),
        }
    }
}

/// The answer to looking for changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangesAnswer {
    /// How it ended: `listed` if something may have changed, `waiting` if nothing has.
    pub outcome: Outcome,
    /// What to look for changes after the next time.
    pub revision: u64,
}
