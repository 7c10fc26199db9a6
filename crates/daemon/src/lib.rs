//! The flow of a fleet: who calls whom, start, and shutdown. `flow.rs` is the file to read first.
//!
//! Nothing here is the truth about anything: that is in the store, and a daemon that is killed at any instant
//! loses no more than the time until the next one looks. Several daemons on one store are a fleet.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`flow`] | from start to stop |
//! | [`site`] | what every part of the daemon works with |
//! | [`files`] | how many files it may have open |
//! | `server` | the port and the socket of the daemon |
//! | [`timer`] | ticks of schedules |
//! | `wall_watch` | whether the wall clock was set |
//! | [`claiming`] | asking for work and starting it |
//! | [`start_error`] | why a run could not be started, and what becomes of it |
//! | `start_pace` | claiming slower while nothing can be started |
//! | `isolation` | what a run sees of this machine |
//! | `launching` | from a claimed job to a process that can be started |
//! | [`run_user`] | which user a run runs as, and its home |
//! | `prompt` | what an agent is told |
//! | `watching` | runs of this machine until their end; finding them again |
//! | [`chores`] | what must happen now and then |
//! | `store_watch` | whether the store is still the one that it was |
//! | [`supervisor`] | what the process beside each run does with the store |
//! | `counter` | the socket on which a run's agent talks to its supervisor |
//! | `traces` | traces from a trigger to the exit of its agent |
//! | [`tallies`] | what the processes of this machine count, brought together |
//! | `callees` | whom a run may call |
//! | `wishes` | what somebody wishes of this daemon over HTTP |

mod callees;
pub mod chores;
pub mod claiming;
mod counter;
pub mod files;
pub mod flow;
mod isolation;
mod launching;
mod lease_ends;
mod lock_waits;
mod outage_log;
mod prompt;
pub mod run_user;
mod server;
pub mod site;
pub mod start_error;
mod start_pace;
mod store_watch;
pub mod supervisor;
pub mod tallies;
pub mod timer;
mod traces;
mod under_way;
mod wall_watch;
mod watching;
mod wishes;
