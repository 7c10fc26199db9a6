//! From records to reasons. Nothing here reads a store, a file or a clock: what was seen is given, and `now` with it.
//!
//! Where production decides something from the same records, its own functions are asked (who is in the way of a
//! run, what is paused, when a schedule fires), so that an explanation can't drift away from what is done.

pub mod agent;
pub mod fire;
pub mod job;
pub mod lock;
pub mod run;
