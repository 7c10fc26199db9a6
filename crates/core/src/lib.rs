//! Pure decisions: no clock, no randomness, no I/O, no async.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`time`] | what a moment and a version are |

pub mod time;
