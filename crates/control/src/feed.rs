//! What happens, as it happens: for whoever follows a fleet.

use std::time::Duration;

use bell_api::control::feed::{EventsQuery, FeedEvent};
use bell_api::control::history::{Kind, Row};
use bell_coord::work::feed::{Happened, Happening, Position};
use bell_coord::{Coord, Denied};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_why::history::{of_event, of_job};
use tokio::time::{Instant, sleep};

use crate::control::{Control, agent_name};
use crate::history::kinds;
use crate::refused::Refused;

/// The least time between two looks: a fleet that does a hundred things in a second is looked at ten times.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many times as long as a look took is waited before the next, so that looking takes a tenth of the time at most.
const REST: u32 = 9;

/// What happens from a position on.
pub struct Feed {
    coord: Coord,
    position: Position,
    looked: Option<Looked>,
}

#[derive(Clone, Copy)]
struct Looked {
    seen: u64,
    next_at: Instant,
}

/// Something that happened, and the position behind it.
#[derive(Clone, Debug)]
pub struct Told {
    /// The position behind it.
    pub position: Position,
    /// What happened.
    pub event: FeedEvent,
}

impl Feed {
    /// What happens after `position`.
    pub fn after(coord: Coord, position: Position) -> Self {
        Self { coord, position, looked: None }
    }

    /// Where it stands: behind everything that it has told.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// What has happened and was not told yet: nothing, if that is so.
    ///
    /// Dropped half-way, nothing is lost.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn ready(&mut self) -> Result<Vec<Told>, Denied> {
        let began = Instant::now();
        let found = self.coord.happened_after(&self.position).await?;
        let rest = (began.elapsed() * REST).max(LOOK_EVERY);
        self.looked = Some(Looked { seen: found.seen, next_at: Instant::now() + rest });
        if let Some(last) = found.happenings.last() {
            self.position = last.position;
        }
        Ok(found.happenings.into_iter().map(told).collect())
    }

    /// What happens next, as soon as something does.
    ///
    /// Dropped half-way, nothing is lost.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn next(&mut self) -> Result<Vec<Told>, Denied> {
        loop {
            if let Some(looked) = self.looked {
                self.coord.may_have_happened(looked.seen).await?;
                sleep(looked.next_at.saturating_duration_since(Instant::now())).await;
            }
            let told = self.ready().await?;
            if !told.is_empty() {
                return Ok(told);
            }
        }
    }
}

fn told(happening: Happening) -> Told {
    let Happening { position, at, what } = happening;
    let row = match what {
        Happened::Noted(event) => of_event(at, event),
        Happened::Accepted(id, job) => of_job(id, &job),
    };
    Told { position, event: FeedEvent { id: position.to_string(), row } }
}

impl Control {
    fn wanted(&self, query: &EventsQuery) -> Result<Wanted, Refused> {
        let agent = query.agent.as_deref().map(agent_name).transpose()?;
        Ok(Wanted { agent, kinds: kinds(query.kinds.as_deref())? })
    }

    /// What happens from where the question says: behind an event, at a moment, or now; and what of it is wanted.
    ///
    /// # Errors
    /// If it can't be read, or names a position of another store.
    pub async fn feed(&self, query: &EventsQuery) -> Result<(Feed, Wanted), Refused> {
        let wanted = self.wanted(query)?;
        let latest = self.coord.latest_position().await?;
        let Some(after) = query.after.as_deref() else {
            let position = query.since_ms.map_or(latest, |since| Position::since(Wall(since)));
            return Ok((Feed::after(self.coord.clone(), position), wanted));
        };
        let position: Position = after.parse().map_err(|error| {
            Refused::invalid(
                format!("could not go on after {after:?}: {error}"),
                "Leave it out to begin now.",
            )
        })?;
        if position.revision() > latest.revision() {
            return Err(Refused::invalid(
                "could not go on there: this store has not come so far, so the position is another store's",
                "Leave it out to begin now; bell history shows what happened before.",
            ));
        }
        Ok((Feed::after(self.coord.clone(), position), wanted))
    }
}

/// What somebody wants to hear of.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only this agent, and what happens to the whole fleet.
    pub agent: Option<AgentName>,
    /// Only these; empty: all.
    pub kinds: Vec<Kind>,
}

impl Wanted {
    /// Whether this is wanted.
    pub fn admits(&self, row: &Row) -> bool {
        let agent = match (&self.agent, &row.agent) {
            (Some(wanted), Some(agent)) => wanted == agent,
            _ => true,
        };
        agent && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
    }
}
