//! How many of an agent may run, whatever its settings say: an operator's word, until it is taken back.

use super::Wall;
use super::agent::AgentName;
use super::line::Scale;
use super::row::{Event, What};
use crate::view::{Changes, Decided, Draft, View};

/// Has so many of an agent run at the most; `None`: as many as its settings say. Whether that is new.
///
/// What runs goes on: with fewer, no new run begins until enough have ended.
///
/// # Errors
/// What it has not seen yet.
pub fn scale(
    view: &View,
    agent: &AgentName,
    to: Option<u32>,
    reason: &str,
    at: Wall,
) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let mut pool = draft.pool()?;
    if pool.scales.get(agent).map(|said| said.scale) == to {
        return Ok((false, Changes::default()));
    }
    match to {
        Some(scale) => {
            let said = Scale { scale, since: at, reason: reason.to_owned() };
            pool.scales.insert(agent.clone(), said);
        }
        None => drop(pool.scales.remove(agent)),
    }
    draft.put(&(), pool);
    let what = What::Scaled { scale: to, reason: reason.to_owned() };
    let about = format!("scale-{agent}-{}", to.map_or_else(|| "default".to_owned(), |to| to.to_string()));
    draft.note(at, about, Event { agent: Some(agent.clone()), job: None, what });
    Ok((true, draft.into_changes()))
}
