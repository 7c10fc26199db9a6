//! The store on real servers: what they do to it, and what it says about them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod clock;
mod express;
mod judging;
mod listening;
mod nodes;
mod processes;
mod reconnect;
mod rewound;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod wrong_input;
