//! What any store can be wrapped in. Each layer is a store itself and does one thing.
//!
//! From the outside in, a store that is reached over a network wants [`Metered`], [`Retry`], [`Timeout`]:
//! what is measured is what callers felt, and each attempt has a limit of its own.

mod metered;
mod retry;
#[cfg(test)]
mod scripted;
mod timeout;

pub use metered::{BUCKETS_SECONDS, Latency, Metered, Metrics, Op};
pub use retry::{Patience, Retry};
pub use timeout::Timeout;
