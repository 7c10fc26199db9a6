//! The flow of a fleet: who calls whom, start, and shutdown. `flow.rs` is the file to read first.
//!
//! Nothing here is the truth about anything: that is in the store, and a daemon that is killed at any instant
//! loses no more than the time until the next one looks. Several daemons on one store are a fleet.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`flow`] | from start to stop |
//! | [`place`] | where a project keeps what is Bellwether's |
//! | [`site`] | what every part of the daemon works with |
//! | `timer` | ticks of schedules |
//! | `claiming` | asking for work and starting it |
//! | `launching` | from a claimed job to a process that can be started |
//! | `prompt` | what an agent is told |
//! | `watching` | runs of this machine until their end; finding them again |
//! | `chores` | what must happen now and then |
//! | [`supervisor`] | what the process beside each run does with the store |

mod chores;
mod claiming;
pub mod flow;
mod launching;
pub mod place;
mod prompt;
pub mod site;
pub mod supervisor;
mod timer;
mod watching;
