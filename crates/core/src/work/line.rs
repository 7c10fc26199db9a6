//! What is stored of an agent's queue, and of everything that runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Wall;
use super::agent::AgentName;
use super::job::JobId;
use super::run::RunId;
use crate::session::SessionId;

/// A place in a queue; the lowest comes first.
pub type Place = u64;

/// Where a queue begins: far from both ends, since reruns go in front of the first.
const MIDDLE: Place = 1 << 40;

/// The stored record of an agent's queue. Every change of the queue changes it, so whoever expects it sees the
/// queue exactly.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// No taken place is lower.
    pub front: Place,
    /// The next free place at the end.
    pub back: Place,
    /// How many wait.
    pub waiting: u32,
    /// How many of them wait because their time had come.
    #[serde(default)]
    pub scheduled: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { front: MIDDLE, back: MIDDLE, waiting: 0, scheduled: 0 }
    }
}

/// A taken place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// Whose it is.
    pub job: JobId,
}

/// The stored record of everything that runs, in the whole fleet: what caps are counted on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    /// Who runs.
    #[serde(default)]
    pub slots: Vec<Slot>,
    /// Nothing may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Agents of which nothing may start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paused_agents: BTreeMap<AgentName, Pause>,
    /// Agents of which an operator has said how many may run, whatever their settings say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scales: BTreeMap<AgentName, Scale>,
}

impl Pool {
    /// Why nothing of this agent may start, if so.
    pub fn pause_of(&self, agent: &AgentName) -> Option<&Pause> {
        self.paused.as_ref().or_else(|| self.paused_agents.get(agent))
    }

    /// The slots that are taken by an agent.
    pub fn slots_of<'p>(&'p self, agent: &'p AgentName) -> impl Iterator<Item = &'p Slot> {
        self.slots.iter().filter(move |slot| slot.agent == *agent)
    }
}

/// A run that counts. It does so only while its session lives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Whose run.
    pub agent: AgentName,
    /// Which.
    pub run: RunId,
    /// What shows that it lives.
    pub session: SessionId,
}

/// Who paused, and when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pause {
    /// Since when.
    pub since: Wall,
    /// In whose words.
    pub reason: String,
}

/// That an operator has said how many of an agent may run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scale {
    /// So many; 0: none.
    pub scale: u32,
    /// Since when.
    pub since: Wall,
    /// In whose words.
    pub reason: String,
}

/// How many may run at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Of this agent; 0: it is disabled.
    pub agent: usize,
    /// Of the whole fleet; `None`: as many as there are.
    pub fleet: Option<usize>,
}

impl Caps {
    /// These, unless an operator has said otherwise of the agent.
    #[must_use]
    pub fn as_scaled(self, pool: &Pool, agent: &AgentName) -> Self {
        let said = pool.scales.get(agent).map(|said| usize::try_from(said.scale).unwrap_or(usize::MAX));
        Self { agent: said.unwrap_or(self.agent), ..self }
    }

    /// Those in the way of one more run of `agent`; `None`: nobody.
    pub fn in_the_way(self, pool: &Pool, agent: &AgentName) -> Option<Vec<Slot>> {
        let caps = self.as_scaled(pool, agent);
        let mine: Vec<Slot> = pool.slots_of(agent).cloned().collect();
        if mine.len() >= caps.agent {
            return Some(mine);
        }
        // A record must stay far below the largest value a store takes.
        let fleet = caps.fleet.unwrap_or(MAX_SLOTS).min(MAX_SLOTS);
        (pool.slots.len() >= fleet).then(|| pool.slots.clone())
    }
}

/// Runs at once in a fleet: their slots, at some 150 bytes each, fit into one record of 1 MiB with room to spare.
pub const MAX_SLOTS: usize = 4_000;
