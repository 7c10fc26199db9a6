//! Whether a tick of a schedule becomes a job. Each leaves a record, whatever comes of it.

use serde::{Deserialize, Serialize};

use super::Wall;
use super::accept::{Accepted, Offer, Room};
use super::agent::AgentName;
use super::job::JobId;
use super::line::{Caps, Line, Slot};
use super::row::{Event, RowId, What};
use crate::view::{Changes, Decided, Draft, View};

/// The stored record of a tick. Creating it is the claim: whoever comes second finds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fire {
    /// When it was decided.
    pub at: Wall,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What came of a tick.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// A job.
    Job {
        /// Which.
        job: JobId,
    },
    /// Nothing.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// The reason of the record that says from when on a schedule counts.
pub const FIRST_SEEN: &str = "the schedule is new: it counts from here";
/// The reason of a tick that the wall clock was set ahead over. Its time has not come: if the clock is set back, or another
/// node's clock shows it, it is decided then.
pub const SET_AHEAD_OVER: &str = "missed: the wall clock was set ahead over its time";
/// That record's place among the ticks: the oldest.
const BEFORE_ALL: Wall = Wall(0);

impl Fire {
    /// Up to when the schedule has been decided, if this is the latest record, at `nominal`.
    pub fn decided_until(&self, nominal: Wall) -> Wall {
        if nominal == BEFORE_ALL { self.at } else { nominal }
    }

    /// Whether it stands, whatever clocks show.
    fn is_final(&self) -> bool {
        !matches!(&self.verdict, Verdict::Skipped { reason } if reason == SET_AHEAD_OVER)
    }
}

/// What to do with a tick while the agent is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Leave it out.
    #[default]
    Skip,
    /// Queue it, unless a tick is in the queue already.
    QueueOne,
    /// Queue it.
    Queue,
}

/// A tick that is due.
#[derive(Clone, Debug)]
pub struct Tick {
    /// Whose.
    pub agent: AgentName,
    /// When it was due.
    pub nominal: Wall,
    /// The job it would become.
    pub offer: Offer,
    /// What to do while the agent is busy.
    pub overlap: Overlap,
}

/// What comes of a tick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fired {
    /// It was decided now.
    Now(Fire),
    /// Somebody had decided it before.
    Before(Fire),
    /// The agent has no free runner as far as the records go: see whether these still live, then decide again.
    Occupied(Vec<Slot>),
}

/// Decides a tick. `seen_alive` are those in the way that the caller has seen to live.
///
/// # Errors
/// What it has not seen yet.
pub fn fire(
    view: &View,
    tick: &Tick,
    caps: Caps,
    room: Room,
    seen_alive: &[Slot],
) -> Decided<(Fired, Changes)> {
    let mut draft = Draft::new(view);
    let id = (tick.agent.clone(), tick.nominal);
    draft.need_rows([
        RowId::Fire(tick.agent.clone(), tick.nominal),
        RowId::Pool,
        RowId::Line(tick.agent.clone()),
    ])?;
    if let Some(before) = draft.get::<Fire>(&id)?.filter(|before| before.is_final()) {
        return Ok((Fired::Before(before.clone()), Changes::default()));
    }
    let (pool, line) = (draft.pool()?, draft.line(&tick.agent)?);
    if let Some(pause) = pool.pause_of(&tick.agent) {
        return Ok(skip(draft, tick, format!("paused: {}", pause.reason)));
    }
    if caps.as_scaled(&pool, &tick.agent).agent == 0 {
        return Ok(skip(draft, tick, "the agent is disabled: its scale is 0".to_owned()));
    }
    if let Some(occupants) = caps.in_the_way(&pool, &tick.agent) {
        if !occupants.iter().all(|slot| seen_alive.contains(slot)) {
            return Ok((Fired::Occupied(occupants), Changes::default()));
        }
        if let Some(reason) = left_out(tick.overlap, &line, &occupants) {
            return Ok(skip(draft, tick, reason));
        }
    } else if line.waiting > 0
        && let Some(reason) = left_out(tick.overlap, &line, &[])
    {
        return Ok(skip(draft, tick, reason));
    }
    let job = match draft.accept(&tick.offer, room)? {
        Accepted::Queued { .. } => tick.offer.id.clone(),
        Accepted::Duplicate(job) => job,
        Accepted::Full => return Ok(skip(draft, tick, "the queue is full".to_owned())),
    };
    Ok(decided(draft, tick, Verdict::Job { job }))
}

/// Notes a tick that nobody was there to decide in time.
///
/// # Errors
/// What it has not seen yet.
pub fn miss(view: &View, tick: &Tick, reason: &str) -> Decided<(Fired, Changes)> {
    let draft = Draft::new(view);
    match draft.get::<Fire>(&(tick.agent.clone(), tick.nominal))? {
        Some(before) => Ok((Fired::Before(before.clone()), Changes::default())),
        None => Ok(skip(draft, tick, reason.to_owned())),
    }
}

/// Notes from when on a schedule counts, so that a tick that is missed before the first one fires is known to be
/// missed. Nothing has happened, so history tells nothing of it.
///
/// # Errors
/// What it has not seen yet.
pub fn first_seen(view: &View, agent: &AgentName, at: Wall) -> Decided<(Fired, Changes)> {
    let mut draft = Draft::new(view);
    // One name for all: two nodes that see it at the same time must not count from two moments, or a tick between
    // these is nobody's.
    let id = (agent.clone(), BEFORE_ALL);
    if let Some(before) = draft.get::<Fire>(&id)? {
        return Ok((Fired::Before(before.clone()), Changes::default()));
    }
    let fire = Fire { at, verdict: Verdict::Skipped { reason: FIRST_SEEN.to_owned() } };
    draft.put(&id, fire.clone());
    Ok((Fired::Now(fire), draft.into_changes()))
}

/// Why a tick is left out while the agent is busy; `None`: it is queued.
fn left_out(overlap: Overlap, line: &Line, occupants: &[Slot]) -> Option<String> {
    match overlap {
        Overlap::Queue => None,
        Overlap::QueueOne if line.scheduled == 0 => None,
        Overlap::QueueOne => Some("a tick waits in the queue already (overlap = queue-one)".to_owned()),
        Overlap::Skip if occupants.is_empty() => {
            Some(format!("{} jobs wait for a runner (overlap = skip)", line.waiting))
        }
        Overlap::Skip => {
            Some(format!("all {} runners are busy, with {} first", occupants.len(), occupants[0].run))
        }
    }
}

fn skip(mut draft: Draft<'_>, tick: &Tick, reason: String) -> (Fired, Changes) {
    let what = What::Skipped { nominal: tick.nominal, reason: reason.clone() };
    let event = Event { agent: Some(tick.agent.clone()), job: None, what };
    draft.note(tick.offer.at, format!("{}-{}", tick.agent, tick.nominal.0), event);
    decided(draft, tick, Verdict::Skipped { reason })
}

fn decided(mut draft: Draft<'_>, tick: &Tick, verdict: Verdict) -> (Fired, Changes) {
    let fire = Fire { at: tick.offer.at, verdict };
    draft.put(&(tick.agent.clone(), tick.nominal), fire.clone());
    (Fired::Now(fire), draft.into_changes())
}
