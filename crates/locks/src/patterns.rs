//! The four ways to use a lock.
//!
//! | way | for | what it does |
//! | --- | --- | --- |
//! | [`PerItem`] | one state change, one issue, one deploy | ttl 60 s, renewed every 20 s, given back explicitly |
//! | [`TtlHold`] | reconcilers, clean-up, cron leaders | ttl twice the period, never given back: expiry rotates it |
//! | [`Fenced`] | what a stale writer would corrupt | the fence goes with every write, and a guard checks it |
//! | [`TwoLayer`] | many tasks of one process against many nodes | a mutex in the process first, then the lock |

mod fenced;
mod per_item;
mod ttl_hold;
mod two_layer;

pub use fenced::{Fenced, FencedError};
pub use per_item::PerItem;
pub use ttl_hold::{Tick, TtlHold};
pub use two_layer::{TwoLayer, TwoLayerHeld};
