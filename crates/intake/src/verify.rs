//! From delivery to event: the signature over the raw bytes, then the time, and only then a look into the body.

use std::collections::BTreeMap;

use bell_core::webhook::Context;
use bell_core::work::Wall;

use crate::delivery::Delivery;
use crate::event::{Answer, DeliveryId, Event};
use crate::json;
use crate::limits::{DATA_BYTES_MAX, UNSIGNED_BODY_BYTES_MAX};
use crate::look::Look;
use crate::refused::Refused;
use crate::secret::Trust;
use crate::source::{Read, Source};

/// What a delivery turned out to be.
#[derive(Clone, Debug)]
pub enum Verified {
    /// Something happened.
    Event(Box<Event>),
    /// The source asks whether somebody is there who knows the secret. This is the answer; nothing happened.
    Question(Answer),
}

impl Delivery<'_> {
    /// Whether it is from whom it says, and what it says. `now` is the wall clock's time, for schemes that sign theirs.
    ///
    /// # Errors
    /// Why it is refused. Nothing of it may be kept then.
    pub fn verify(&self, source: &Source, now: Wall) -> Result<Verified, Refused> {
        let scheme = source.kind.scheme();
        match &source.trust {
            Trust::Signed(secrets) if secrets.is_empty() => return Err(Refused::NoSecret),
            Trust::Signed(secrets) => scheme.check(self, secrets, now)?,
            Trust::Anyone => self.check_unsigned()?,
        }
        let body = json::body_of(self)?;
        if let Trust::Signed(_) = &source.trust {
            scheme.check_body(&body, now)?;
        }
        let reading = match scheme.read(self, Look(&body))? {
            Read::Event(reading) => *reading,
            Read::Question(answer) => return Ok(Verified::Question(answer)),
        };
        let id = match &reading.id {
            Some(id) => DeliveryId::given(id)?,
            None => DeliveryId::derived(self.body()),
        };
        let mut context = mapped(reading.context, &source.fields, Look(&body));
        (context.source, context.kind) = (source.name.clone(), source.kind.word().to_owned());
        let data = (source.kind.is_shapeless() && self.is_small()).then(|| body.into_value());
        let kept = self.kept(&scheme.speaking());
        Ok(Verified::Event(Box::new(Event::new(id, context, data, reading.answer, kept))))
    }

    fn check_unsigned(&self) -> Result<(), Refused> {
        match self.body().len() {
            bytes if bytes > UNSIGNED_BODY_BYTES_MAX => {
                Err(Refused::BodyTooLarge { bytes, most: UNSIGNED_BODY_BYTES_MAX })
            }
            _ => Ok(()),
        }
    }

    fn is_small(&self) -> bool {
        self.body().len() <= DATA_BYTES_MAX
    }
}

/// What the settings say about where things are counts before what the source is known for.
fn mapped(mut context: Context, fields: &BTreeMap<String, String>, body: Look<'_>) -> Context {
    for (name, path) in fields {
        context.set(name, body.values(name, path));
    }
    context
}
