//! Deliveries from outside: is it from whom it says, what does it say, and which agents want it?
//!
//! Nothing here listens, stores or waits. The types carry the order of work: a [`Delivery`] is bytes that anybody may have
//! sent; only [`Delivery::verify`] makes an [`Event`] of it, over the raw bytes and before a byte is parsed; only from an
//! event comes something to take on ([`Hooks::receipt`]). That one delivery makes one job for one agent is then the store's
//! promise: the record of the delivery and its jobs are one commit.
//!
//! ```
//! use bell_core::work::Wall;
//! use bell_intake::{Delivery, Kind, Secret, Source, Trust, Verified};
//!
//! let secret = Secret::new("It's a Secret to Everybody").expect("not empty");
//! let source = Source::new("my-github", Kind::Github, Trust::Signed(vec![secret]));
//! let headers: [(&str, &[u8]); 2] = [("X-GitHub-Event", b"ping"), ("X-Hub-Signature-256", b"sha256=00")];
//! let delivery = Delivery::new(headers, b"{}".to_vec())?;
//! assert!(delivery.verify(&source, Wall(0)).is_err());
//! # Ok::<(), bell_intake::Refused>(())
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`delivery`] | what was sent: headers and bytes |
//! | [`verify`](mod@verify) | from delivery to event |
//! | [`event`] | what was verified |
//! | [`hooks`] | which sources there are, and which agents want what |
//! | [`rehearse`](mod@rehearse) | a delivery as its source would send it, for trying out filters |
//! | `source` | one file for each kind of source: its signature and its payloads |
//! | [`secret`], [`refused`], [`limits`] | what proves a sender; why a delivery is refused; how large it may be |
//! | `mac`, `window`, `json`, `part`, `look` | comparing in constant time, time windows, reading bodies |

pub mod delivery;
pub mod event;
#[cfg(test)]
mod forgeries;
pub mod hooks;
mod json;
pub mod limits;
mod look;
mod mac;
mod part;
pub mod refused;
pub mod rehearse;
pub mod secret;
mod source;
pub mod verify;
mod window;

pub use delivery::{Delivery, Kept};
pub use event::{Answer, DeliveryId, Event, Origin};
pub use hooks::{Hooks, Looked, Subscriber};
pub use refused::Refused;
pub use rehearse::{Fixture, rehearse};
pub use secret::{EmptySecret, Secret, Trust};
pub use source::{Encoding, HmacScheme, Kind, Source};
pub use verify::Verified;
