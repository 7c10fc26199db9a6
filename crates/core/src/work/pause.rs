//! Holding everything, or one agent: nothing new starts, nothing accepted is lost.

use super::Wall;
use super::agent::AgentName;
use super::line::Pause;
use super::row::{Event, What};
use crate::view::{Changes, Decided, Draft, View};

/// What is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Everything.
    Fleet,
    /// One agent.
    Agent(AgentName),
}

/// Holds it. Whether it was not held before; who held it first stays on record.
///
/// # Errors
/// What it has not seen yet.
pub fn pause(view: &View, extent: &Extent, reason: &str, at: Wall) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let mut pool = draft.pool()?;
    let pause = Pause { since: at, reason: reason.to_owned() };
    match extent {
        Extent::Fleet => pool.paused.get_or_insert(pause),
        Extent::Agent(agent) => pool.paused_agents.entry(agent.clone()).or_insert(pause),
    };
    if pool == draft.pool()? {
        return Ok((false, Changes::default()));
    }
    draft.put(&(), pool);
    draft.note_pause(extent, Some(reason), at);
    Ok((true, draft.into_changes()))
}

/// Lets it go on. Whether it was held.
///
/// # Errors
/// What it has not seen yet.
pub fn resume(view: &View, extent: &Extent, at: Wall) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let mut pool = draft.pool()?;
    let held = match extent {
        Extent::Fleet => pool.paused.take().is_some(),
        Extent::Agent(agent) => pool.paused_agents.remove(agent).is_some(),
    };
    if held {
        draft.put(&(), pool);
        draft.note_pause(extent, None, at);
    }
    Ok((held, draft.into_changes()))
}

impl Draft<'_> {
    fn note_pause(&mut self, extent: &Extent, reason: Option<&str>, at: Wall) {
        let agent = match extent {
            Extent::Fleet => None,
            Extent::Agent(agent) => Some(agent.clone()),
        };
        // A fleet may be let go within the millisecond in which it was held.
        let act = if reason.is_some() { "pause" } else { "resume" };
        let about = format!("{act}-{}", agent.as_ref().map_or("", AgentName::as_str));
        let what = What::Paused { reason: reason.map(str::to_owned) };
        self.note(at, about, Event { agent, job: None, what });
    }
}
