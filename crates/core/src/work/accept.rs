//! Taking a job on: from then on it is never lost.

use std::sync::Arc;

use super::Wall;
use super::agent::AgentName;
use super::job::{Fate, Job, JobId, JobSpec, State, Trigger};
use super::line::{Line, Place, Ticket};
use super::row::{Event, Row, RowId, Undone, What};
use crate::view::{Changes, Decided, Draft, View};

/// A job to take on.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What it will be called. Offered again under this name, it is taken on once.
    pub id: JobId,
    /// What is wanted.
    pub spec: JobSpec,
    /// What came with the trigger, as JSON.
    pub payload: Arc<str>,
    /// What must lead to one job only, whoever offers it: a delivery, a request.
    pub once: Option<String>,
    /// When it is offered.
    pub at: Wall,
}

/// How long a queue may become, and what happens then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Jobs that may wait.
    pub size: u32,
    /// What happens to one more.
    pub overflow: Overflow,
}

/// What happens to one job more than a queue may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// The oldest is dropped for it.
    DropOldest,
    /// It is refused.
    Reject,
}

/// What comes of an offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// It is in the queue.
    Queued {
        /// How many are ahead of it.
        ahead: u32,
        /// The jobs that were dropped for it: one, unless the queue was made smaller.
        dropped: Vec<JobId>,
    },
    /// It had been taken on before, as this job.
    Duplicate(JobId),
    /// The queue is full.
    Full,
}

/// Jobs dropped for one: after a queue was made smaller, the rest leaves with the next ones.
const MAX_DROPS: usize = 2;

/// Records that one offer may change: a job is written with its payload, its ticket and what leads to it only; a dropped
/// one is deleted from its place, written, listed and noted.
pub(super) const MAX_CHANGES: usize = 4 + MAX_DROPS * 4;

/// Records that one commit may change.
const COMMIT: usize = 125;

/// Offers taken on in one commit, at the most: as many as are written with three records each, beside the queue.
pub const MAX_OFFERS: usize = 38;
const _: () = assert!(1 + (MAX_OFFERS - 1) * 3 + MAX_CHANGES <= COMMIT);

/// Takes on jobs of one agent, in this order: as many as fit into one commit. Offers beyond those that are answered
/// need another call.
///
/// # Errors
/// What it has not seen yet.
pub fn accept(view: &View, offers: &[Offer], room: Room) -> Decided<(Vec<Accepted>, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_rows(offers.iter().take(MAX_OFFERS).flat_map(rests_on))?;
    let mut accepted = Vec::new();
    for offer in offers.iter().take(MAX_OFFERS) {
        if draft.changed_rows() + MAX_CHANGES > COMMIT {
            break;
        }
        accepted.push(draft.accept(offer, room)?);
    }
    Ok((accepted, draft.into_changes()))
}

/// What must be seen to tell whether an offer is new, and where its queue ends.
fn rests_on(offer: &Offer) -> impl Iterator<Item = RowId> {
    let once = offer.once.clone().map(RowId::Once);
    [RowId::Job(offer.id.clone()), RowId::Line(offer.spec.agent.clone())].into_iter().chain(once)
}

impl Draft<'_> {
    pub(super) fn accept(&mut self, offer: &Offer, room: Room) -> Decided<Accepted> {
        self.need_rows(rests_on(offer))?;
        if let Some(known) = self.known(offer)? {
            return Ok(Accepted::Duplicate(known));
        }
        let accepted = self.queue(offer, room)?;
        if let (Some(once), Accepted::Queued { .. }) = (&offer.once, &accepted) {
            self.set_row(RowId::Once(once.clone()), Some(Row::Once(offer.id.clone())));
        }
        Ok(accepted)
    }

    /// Puts a job that is new at the end of its queue, if there is room.
    pub(super) fn queue(&mut self, offer: &Offer, room: Room) -> Decided<Accepted> {
        let agent = &offer.spec.agent;
        let full = |line: &Line| line.waiting >= room.size && line.waiting > 0;
        let mut line = self.line(agent)?;
        if room.overflow == Overflow::Reject && full(&line) {
            return Ok(Accepted::Full);
        }
        let mut dropped = Vec::new();
        while full(&line) && dropped.len() < MAX_DROPS {
            let Some((place, job)) = self.oldest(agent)? else { break };
            self.shelve(agent, place, &job, Fate::Dropped, offer.at)?;
            dropped.push(job);
            line = self.line(agent)?;
        }
        let ahead = line.waiting;
        let place = self.queue_last_in(line, &offer.id, &offer.spec);
        let job = Job::new(offer.spec.clone(), offer.at, State::Queued { place });
        self.put(&offer.id, Job { once: offer.once.clone(), ..job });
        self.set_row(RowId::Payload(offer.id.clone()), Some(Row::Payload(Arc::clone(&offer.payload))));
        Ok(Accepted::Queued { ahead, dropped })
    }

    /// The job that this offer had led to before.
    fn known(&self, offer: &Offer) -> Decided<Option<JobId>> {
        if self.get::<Job>(&offer.id)?.is_some() {
            return Ok(Some(offer.id.clone()));
        }
        match offer.once.as_ref().map(|once| self.row(&RowId::Once(once.clone()))).transpose()?.flatten() {
            Some(Row::Once(job)) => Ok(Some(job.clone())),
            _ => Ok(None),
        }
    }

    /// Puts a job at the end of its queue.
    pub(super) fn queue_last(&mut self, id: &JobId, spec: &JobSpec) -> Decided<Place> {
        let line = self.line(&spec.agent)?;
        Ok(self.queue_last_in(line, id, spec))
    }

    fn queue_last_in(&mut self, line: Line, id: &JobId, spec: &JobSpec) -> Place {
        let place = line.back;
        self.take_place(id, spec, Line { back: place + 1, ..line }, place);
        place
    }

    /// Puts a job in front of all others.
    pub(super) fn queue_first(&mut self, id: &JobId, spec: &JobSpec) -> Decided<Place> {
        let line = self.line(&spec.agent)?;
        let place = line.front - 1;
        self.take_place(id, spec, Line { front: place, ..line }, place);
        Ok(place)
    }

    fn take_place(&mut self, id: &JobId, spec: &JobSpec, line: Line, place: Place) {
        let waiting = line.waiting + 1;
        let scheduled = line.scheduled + u32::from(is_scheduled(spec));
        self.put(&spec.agent, Line { waiting, scheduled, ..line });
        self.put(&(spec.agent.clone(), place), Ticket { job: id.clone() });
    }

    /// Takes a job out of its place.
    pub(super) fn unqueue(&mut self, spec: &JobSpec, place: Place) -> Decided<()> {
        let line = self.line(&spec.agent)?;
        let front = if place == line.front { place + 1 } else { line.front };
        let waiting = line.waiting.saturating_sub(1);
        let scheduled = line.scheduled.saturating_sub(u32::from(is_scheduled(spec)));
        // Nobody waits: the places that were left in between need never be looked at again.
        let front = if waiting == 0 { line.back } else { front };
        self.put(&spec.agent, Line { front, waiting, scheduled, ..line });
        self.delete::<Ticket>(&(spec.agent.clone(), place));
        Ok(())
    }

    /// The first in the queue of an agent.
    pub(super) fn oldest(&self, agent: &AgentName) -> Decided<Option<(Place, JobId)>> {
        let line = self.line(agent)?;
        if line.waiting == 0 {
            return Ok(None);
        }
        for from in (line.front..line.back).step_by(LOOK_AHEAD) {
            let places = from..line.back.min(from + LOOK_AHEAD as Place);
            self.need_rows(places.clone().map(|place| RowId::Ticket(agent.clone(), place)))?;
            for place in places {
                if let Some(ticket) = self.get::<Ticket>(&(agent.clone(), place))? {
                    return Ok(Some((place, ticket.job.clone())));
                }
            }
        }
        Ok(None)
    }

    /// Takes a job out of the queue for good, and says so.
    pub(super) fn shelve(
        &mut self,
        agent: &AgentName,
        place: Place,
        id: &JobId,
        fate: Fate,
        at: Wall,
    ) -> Decided<()> {
        if let Some(job) = self.get::<Job>(id)?.cloned() {
            self.unqueue(&job.spec, place)?;
            self.put(id, Job { state: State::Over { fate: fate.clone(), at }, lock_wait: None, ..job });
        }
        if fate.is_undone() {
            let undone = Undone { agent: agent.clone(), fate: fate.clone() };
            self.set_row(RowId::Undone(at, id.clone()), Some(Row::Undone(undone)));
        }
        let event = Event::of_job(agent, id, What::Shelved { fate });
        self.note(at, id.as_str(), event);
        Ok(())
    }
}

/// Places looked at together: usually the first is taken, and a gap is left only by who was cancelled.
const LOOK_AHEAD: usize = 8;

fn is_scheduled(spec: &JobSpec) -> bool {
    matches!(spec.trigger, Trigger::Cron { .. })
}
