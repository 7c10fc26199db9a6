//! Offers to one agent that wait together are taken on together.
//!
//! Whoever comes first takes on its own offers. Those who come meanwhile wait, and then the first of them takes on the
//! offers of all of them. So a queue that everybody writes to costs one commit for many, nobody waits in the hope of
//! company, and there is no task that could be left behind: the turn goes on when its owner is dropped, too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bell_core::time::Version;
use bell_core::work::accept::{Accepted, Offer, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::line::Line;
use tokio::sync::oneshot;

use crate::Coord;
use crate::denied::Denied;

/// Those who wait, by agent. An agent that nobody is at has no entry.
#[derive(Default)]
pub(crate) struct Gathering(Mutex<BTreeMap<AgentName, VecDeque<Party>>>);

/// Somebody who waits, with their offers.
pub(super) struct Party {
    pub(super) offers: Vec<Offer>,
    room: Room,
    news: oneshot::Sender<News>,
}

impl Party {
    /// Answers. Whoever has gone away meanwhile is not missed.
    pub(super) fn answer(self, answer: Result<Vec<Accepted>, Denied>) {
        let _ = self.news.send(News::Answer(answer));
    }
}

/// What somebody who waits comes to hear.
pub(super) enum News {
    /// Another took them on.
    Answer(Result<Vec<Accepted>, Denied>),
    /// It is their turn.
    Turn(Turn),
}

/// Whether to wait.
pub(super) enum Place {
    /// Nobody is ahead.
    First(Turn),
    /// Somebody is. No news at all: who had taken them along was dropped, so ask again.
    Behind(oneshot::Receiver<News>),
}

/// The right to take on offers for an agent. Dropped, it goes to whoever waits next.
pub(super) struct Turn {
    coord: Coord,
    agent: AgentName,
    /// Whose offers to take along, in this order, behind one's own.
    pub(super) others: Vec<Party>,
    /// The queue as the last commit left it.
    pub(super) line: Option<(Line, Version)>,
}

impl Coord {
    /// Waits for a turn with these offers, or gets it.
    pub(super) fn line_up(&self, agent: &AgentName, offers: &[Offer], room: Room) -> Place {
        let mut waiting = self.gathering().lock();
        if let Some(parties) = waiting.get_mut(agent) {
            let (news, heard) = oneshot::channel();
            parties.push_back(Party { offers: offers.to_vec(), room, news });
            return Place::Behind(heard);
        }
        waiting.insert(agent.clone(), VecDeque::new());
        Place::First(Turn { coord: self.clone(), agent: agent.clone(), others: Vec::new(), line: None })
    }
}

impl Gathering {
    /// The next who still waits, and those that can be taken along: all behind it that want the same room.
    fn next(&self, agent: &AgentName) -> Option<(Party, Vec<Party>)> {
        let mut waiting = self.lock();
        let parties = waiting.get_mut(agent)?;
        parties.retain(|party| !party.news.is_closed());
        let Some(first) = parties.pop_front() else {
            waiting.remove(agent);
            return None;
        };
        let along = parties.iter().take_while(|party| party.room == first.room).count();
        Some((first, parties.drain(..along).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentName, VecDeque<Party>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((first, others)) = self.coord.gathering().next(&self.agent) else { return };
        let turn =
            Self { coord: self.coord.clone(), agent: self.agent.clone(), others, line: self.line.take() };
        // If it has gone away just now the turn comes back, and is dropped here: it goes on to the next.
        let _ = first.news.send(News::Turn(turn));
    }
}
