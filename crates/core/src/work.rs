//! Agents' work: jobs that were accepted, their order, who may run them, and how that ended.
//!
//! A *job* is one thing to do, accepted once and never lost; a *run* is one try at it. A job waits in its
//! agent's queue, is claimed by a run (which is a session, so its locks end with it), and is over when a run
//! has ended it. How many may run at once is read off the live runs: there is no counter.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`agent`] | how an agent is named |
//! | [`job`] | what is stored of a job |
//! | [`run`] | what is stored of a run, and how it can end |
//! | [`line`](mod@line) | what is stored of an agent's queue, and of everything that runs |
//! | [`row`] | which records there are |
//! | [`accept`](mod@accept) | taking a job on |
//! | [`delivery`] | what is stored of a delivery from outside |
//! | [`receive`](mod@receive) | taking a delivery on, with the jobs that come of it |
//! | [`fire`](mod@fire) | whether a cron tick becomes a job |
//! | [`claim`](mod@claim) | who may run next |
//! | [`lock_wait`] | queued jobs that wait for the locks their agent declares |
//! | [`finish`](mod@finish) | the end of a run and what follows from it |
//! | [`shelve`] | clearing, cancelling, replaying |
//! | [`speak`](mod@speak) | what a run says, and what is said to it |
//! | [`pause`](mod@pause) | holding everything, or one agent |
//! | [`scale`](mod@scale) | how many of an agent may run, whatever its settings say |

pub mod accept;
pub mod agent;
pub mod claim;
pub mod delivery;
pub mod finish;
pub mod fire;
pub mod job;
pub mod line;
pub mod lock_wait;
pub mod pause;
pub mod receive;
pub mod row;
pub mod run;
pub mod scale;
pub mod shelve;
pub mod speak;

use serde::{Deserialize, Serialize};

/// A moment on a wall clock, in milliseconds since 1970: for people, and for what is due by the calendar. Leases
/// are never measured on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(pub u64);
