//! What becomes a job: offers, and ticks of a schedule.

use std::borrow::Cow;

use bell_core::view::View;
use bell_core::work::Wall;
use bell_core::work::accept::{Accepted, MAX_OFFERS, Offer, Room, accept};
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{Fired, Tick, fire, first_seen, miss};
use bell_core::work::job::JobId;
use bell_core::work::line::{Caps, Slot};
use bell_core::work::row::{Row, RowId};
use bell_store::{Error, Kind};

use super::gather::{News, Place, Turn};
use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::load::Loaded;

/// Bytes that may come with a trigger: half of what a record may have, so that no store refuses one.
pub const MAX_PAYLOAD_BYTES: usize = 512 * 1_024;

/// Bytes in what must lead to one job only. With the longest prefix it is still a legal name.
pub const MAX_ONCE_BYTES: usize = 512;

/// A fresh name for a job. Names of later jobs come later.
pub fn new_job() -> JobId {
    JobId::from(fresh::uuid().simple().to_string().as_str())
}

impl Coord {
    /// Takes on jobs of one agent, in this order. Answered once they are as durable as the store promises: from
    /// then on they are not lost. Repeated with the same names after no answer, they are taken on once.
    ///
    /// Offers to one agent that wait in this process are taken on together, in the order of their coming, by one of
    /// those who wait: who neither polls nor drops this keeps the others waiting.
    ///
    /// Dropped half-way, some have been taken on, each whole or not at all.
    ///
    /// # Errors
    /// [`Denied::Invalid`] if a payload is too large; [`Denied::Unavailable`] if the store can't be reached.
    pub async fn accept(&self, offers: &[Offer], room: Room) -> Result<Vec<Accepted>, Denied> {
        offers.iter().try_for_each(check)?;
        let Some(agent) = offers.first().map(|offer| &offer.spec.agent) else { return Ok(Vec::new()) };
        loop {
            match self.line_up(agent, offers, room) {
                Place::First(turn) => return self.take_turn(turn, offers, room).await,
                Place::Behind(news) => match news.await {
                    Ok(News::Answer(answer)) => return answer,
                    Ok(News::Turn(turn)) => return self.take_turn(turn, offers, room).await,
                    Err(_) => {}
                },
            }
        }
    }

    /// Takes on one's own offers and those of all who came along.
    async fn take_turn(&self, mut turn: Turn, own: &[Offer], room: Room) -> Result<Vec<Accepted>, Denied> {
        let mut parties = std::mem::take(&mut turn.others);
        let counts: Vec<usize> = parties.iter().map(|party| party.offers.len()).collect();
        let mut offers = Cow::Borrowed(own);
        for party in &mut parties {
            offers.to_mut().append(&mut party.offers);
        }
        let mut answers = Vec::with_capacity(offers.len());
        let failure = self.take_on(&mut turn, &offers, room, &mut answers).await.err();
        drop(turn);
        let mut answers = answers.into_iter();
        let mut next = |count: usize| {
            let own: Vec<Accepted> = answers.by_ref().take(count).collect();
            if own.len() == count { Ok(own) } else { Err(failure.as_ref().map_or_else(unanswered, repeated)) }
        };
        let answer = next(own.len());
        for (party, count) in parties.into_iter().zip(counts) {
            party.answer(next(count));
        }
        answer
    }

    /// As many commits as it takes; `answers` has what was decided when one of them fails.
    async fn take_on(
        &self,
        turn: &mut Turn,
        offers: &[Offer],
        room: Room,
        answers: &mut Vec<Accepted>,
    ) -> Result<(), Denied> {
        while let Some(rest) = offers.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            let batch = together(rest);
            let line = RowId::Line(batch[0].spec.agent.clone());
            let mut guess = as_new(batch);
            if let Some((known, version)) = turn.line.take() {
                guess.assume_row(line.clone(), Some((Row::Line(known), version)));
            }
            let done = self.transact(guess, |view| accept(view, batch, room)).await?;
            if let Some(seen) = done.loaded.view.rows.get(&line)
                && let Some(Row::Line(now)) = seen.get()
            {
                turn.line = Some((now.clone(), seen.version));
            }
            answers.extend(done.answer);
        }
        Ok(())
    }

    /// Decides a tick of a schedule, once in the fleet: who comes second hears what was decided.
    ///
    /// # Errors
    /// As for [`Self::accept`].
    pub async fn fire(&self, tick: &Tick, caps: Caps, room: Room) -> Result<Fired, Denied> {
        check(&tick.offer)?;
        let mut seen_alive: Vec<Slot> = Vec::new();
        loop {
            let decide = |view: &View| fire(view, tick, caps, room, &seen_alive);
            match self.transact(Loaded::default(), decide).await?.answer {
                Fired::Occupied(slots) => seen_alive = self.living(slots).await?,
                decided => return Ok(decided),
            }
        }
    }

    /// Notes a tick that nobody was there to decide in time.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn miss(&self, tick: &Tick, reason: &str) -> Result<Fired, Denied> {
        Ok(self.transact(Loaded::default(), |view| miss(view, tick, reason)).await?.answer)
    }

    /// Notes from when on the schedule of an agent counts.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn first_seen(&self, agent: &AgentName, at: Wall) -> Result<Fired, Denied> {
        Ok(self.transact(Loaded::default(), |view| first_seen(view, agent, at)).await?.answer)
    }
}

/// Offers are new but for the one in a thousand that is repeated, so that is the first guess.
fn as_new(offers: &[Offer]) -> Loaded {
    let mut guess = Loaded::guess();
    for offer in offers {
        guess.assume_row(RowId::Job(offer.id.clone()), None);
        if let Some(once) = &offer.once {
            guess.assume_row(RowId::Once(once.clone()), None);
        }
    }
    guess
}

/// The first offers, as many as one commit may carry: one with the largest payload, or many with small ones.
fn together(offers: &[Offer]) -> &[Offer] {
    let mut bytes = 0;
    let fits = |offer: &&Offer| {
        bytes += offer.payload.len();
        bytes <= MAX_PAYLOAD_BYTES
    };
    let count = offers.iter().take(MAX_OFFERS).take_while(fits).count();
    &offers[..count.max(1)]
}

/// The same refusal, for another who was refused by it.
pub(super) fn repeated(denied: &Denied) -> Denied {
    match denied {
        Denied::Unavailable(error) => {
            Denied::Unavailable(Error::new(error.kind(), error.to_string()).hint(error.advice()))
        }
        other => Denied::Invalid(other.to_string()),
    }
}

/// Can't be: everything is answered, or refused.
pub(super) fn unanswered() -> Denied {
    Denied::Unavailable(Error::new(Kind::Unknown, "tell what became of an offer"))
}

pub(super) fn check(offer: &Offer) -> Result<(), Denied> {
    let too_large = |what: &str, bytes: usize, most: usize| {
        Err(Denied::Invalid(format!("{what} has {bytes} bytes, and {most} is the most")))
    };
    match (offer.payload.len(), offer.once.as_ref().map_or(0, String::len)) {
        (bytes, _) if bytes > MAX_PAYLOAD_BYTES => {
            too_large("what came with the trigger", bytes, MAX_PAYLOAD_BYTES)
        }
        (_, bytes) if bytes > MAX_ONCE_BYTES => too_large("the id of the delivery", bytes, MAX_ONCE_BYTES),
        _ => Ok(()),
    }
}
