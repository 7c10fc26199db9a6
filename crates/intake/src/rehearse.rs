//! A delivery as its source would send it, signed with a key that counts nowhere else: for trying out filters on a payload
//! at hand. It takes the same way through [`Delivery::verify`] as a real one.

use bell_core::work::Wall;

use crate::delivery::Delivery;
use crate::event::DeliveryId;
use crate::limits::HEADERS_MAX;
use crate::refused::Refused;
use crate::secret::{Secret, Trust};
use crate::source::{Draft, Source};
use crate::verify::Verified;

/// The key of rehearsals. Everybody may know it: only the copy of a source that a rehearsal makes for itself believes it.
const KEY: [u8; 32] = *b"only rehearsals believe this key";

/// A payload to rehearse with.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Headers that were recorded with it, if any; those that prove something are made anew.
    pub headers: Vec<(String, String)>,
    /// What kind of event it is, for sources that say so in a header.
    pub event: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a payload through [`Delivery::verify`], as a new delivery of this id that is signed now.
///
/// # Errors
/// If the source would refuse it for another reason than its signature.
pub fn rehearse(source: &Source, fixture: Fixture, id: &str, now: Wall) -> Result<Verified, Refused> {
    let Fixture { headers, event, body } = fixture;
    let signed = source.kind.scheme().sign(Draft { id, event: event.as_deref(), now, body }, &KEY);
    let is_new = |name: &str| signed.headers.iter().any(|(new, _)| new.eq_ignore_ascii_case(name));
    let kept = headers.iter().filter(|(name, _)| !is_new(name)).take(HEADERS_MAX / 2);
    let kept = kept.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let new = signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let delivery = Delivery::new(kept.chain(new), signed.body)?;
    let secret = Secret::new(&signed.secret).map_err(|_| Refused::NoSecret)?;
    let believing = Source { trust: Trust::Signed(vec![secret]), ..source.clone() };
    Ok(match delivery.verify(&believing, now)? {
        // Some sources have their id in the body.
        Verified::Event(event) => Verified::Event(Box::new(event.renamed(DeliveryId::given(id)?))),
        question @ Verified::Question(_) => question,
    })
}
