//! What becomes a job: offers, and ticks of a schedule.

use bell_core::view::View;
use bell_core::work::accept::{Accepted, MAX_OFFERS, Offer, Room, accept};
use bell_core::work::fire::{Fired, Tick, fire, miss};
use bell_core::work::job::JobId;
use bell_core::work::line::{Caps, Slot};
use bell_core::work::row::RowId;
use uuid::Uuid;

use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;

/// Bytes that may come with a trigger: half of what a record may have, so that no store refuses one.
pub const MAX_PAYLOAD_BYTES: usize = 512 * 1_024;

/// Bytes in what must lead to one job only. With the longest prefix it is still a legal name.
pub const MAX_ONCE_BYTES: usize = 512;

/// A fresh name for a job. Names of later jobs come later.
pub fn new_job() -> JobId {
    JobId::from(Uuid::now_v7().simple().to_string().as_str())
}

impl Coord {
    /// Takes on jobs of one agent, in this order. Answered once they are as durable as the store promises: from
    /// then on they are not lost. Repeated with the same names after no answer, they are taken on once.
    ///
    /// Dropped half-way, some have been taken on, each whole or not at all.
    ///
    /// # Errors
    /// [`Denied::Invalid`] if a payload is too large; [`Denied::Unavailable`] if the store can't be reached.
    pub async fn accept(&self, offers: &[Offer], room: Room) -> Result<Vec<Accepted>, Denied> {
        offers.iter().try_for_each(check)?;
        let mut answers = Vec::with_capacity(offers.len());
        for batch in offers.chunks(MAX_OFFERS) {
            let done = self.transact(self.as_new(batch), &[], |view| accept(view, batch, room)).await?;
            answers.extend(done.answer);
        }
        Ok(answers)
    }

    /// Offers are new but for the one in a thousand that is repeated, so that is the first guess.
    fn as_new(&self, offers: &[Offer]) -> Loaded {
        let mut guess = Loaded::guess();
        for offer in offers {
            guess.assume_row(self, &RowId::Job(offer.id.clone()), None);
            if let Some(once) = &offer.once {
                guess.assume_row(self, &RowId::Once(once.clone()), None);
            }
        }
        guess
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
            match self.transact(Loaded::default(), &[], decide).await?.answer {
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
        Ok(self.transact(Loaded::default(), &[], |view| miss(view, tick, reason)).await?.answer)
    }
}

fn check(offer: &Offer) -> Result<(), Denied> {
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
