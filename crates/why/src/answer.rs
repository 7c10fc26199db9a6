//! An answer: one sentence, the facts behind it, and what to do next.

pub use bell_api::control::why::{Answer, Fact, Kind};
