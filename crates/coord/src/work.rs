//! Jobs and runs: accept, fire, claim, begin, finish, and looking at all of it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `rows` | records of the work as they are stored |
//! | `gather` | offers that wait together |
//! | [`intake`] | what becomes a job: offers, ticks of a schedule |
//! | [`receiving`] | deliveries from outside: taking them on, and looking at them |
//! | [`running`] | a run from its claim to its end |
//! | [`shelf`] | cancelling, clearing, replaying, retrying |
//! | [`reading`] | what there is and what happened |
//! | [`feed`] | what happens, in the order of the commits, from any position on |
//! | [`asking`] | single facts, for whoever asks why |
//! | [`tidy`] | forgetting what is old |

pub mod asking;
pub mod feed;
pub(crate) mod gather;
pub mod intake;
pub mod lock_waits;
pub mod reading;
pub mod receiving;
pub(crate) mod rows;
pub mod running;
pub mod shelf;
pub mod tidy;

use bell_core::work::Wall;
use bell_store::clock::wall;

/// Now, by this machine's wall clock: for people, and for what is due by the calendar.
pub fn wall_now() -> Wall {
    Wall(u64::try_from(wall().as_millis()).unwrap_or(u64::MAX))
}
