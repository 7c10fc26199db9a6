//! Pure decisions: no clock, no randomness, no I/O, no async.
//!
//! Each function looks at records and the store's time and answers with what to store next. `bell-coord`
//! loads the records, calls, and commits; the simulator and the model checker call the same functions.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`key`] | how a resource is named |
//! | [`session`] | who somebody is, and what proves it |
//! | [`lock`] | what is stored for a key |
//! | [`view`] | what a decision has seen and what it changes |
//! | [`acquire`](mod@acquire) | who may have a key now |
//! | [`keep`] | renewing, releasing, waiting, giving up |
//! | [`end`] | the end of a session, an operator's break |
//! | [`deadlock`] | whether a wait would never end |
//! | [`inspect`](mod@inspect) | what a key looks like |
//! | [`audit`] | what operators did, and whether that record was touched |
//! | [`webhook`] | what came from outside, and for whom it is |
//! | [`work`] | agents' jobs and runs: who may run what, when, how often, and how it ended |
//! | [`time`] | what a moment and a version are |

pub mod acquire;
pub mod audit;
pub mod deadlock;
pub mod end;
pub mod inspect;
pub mod keep;
pub mod key;
pub mod lock;
mod queue;
pub mod session;
pub mod time;
pub mod view;
pub mod webhook;
pub mod work;
