//! What came from outside, and for whom it is: facts about a delivery, filters over them, and the reason for each answer.
//!
//! Nothing here knows how a source signs or what its payloads look like: `bell-intake` reads them into a [`Context`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`context`] | what is known about a delivery, the same for every source |
//! | [`field`](mod@field) | what can be asked about it |
//! | [`filter`] | what somebody wants |
//! | [`matching`] | whether it is that, and why or why not |

pub mod context;
pub mod field;
pub mod filter;
pub mod matching;

pub use context::Context;
pub use field::Field;
pub use filter::{Filter, Pattern, PatternError};
pub use matching::{Check, Verdict, Why, matches};
