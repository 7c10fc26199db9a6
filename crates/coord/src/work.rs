//! Jobs and runs: accept, fire, claim, begin, finish, and looking at all of it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `rows` | records of the work as they are stored |
//! | [`intake`] | what becomes a job: offers, ticks of a schedule |
//! | [`running`] | a run from its claim to its end |
//! | [`shelf`] | cancelling, clearing, replaying, retrying |
//! | [`reading`] | what there is and what happened |
//! | [`tidy`] | forgetting what is old |

pub mod intake;
pub mod reading;
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
