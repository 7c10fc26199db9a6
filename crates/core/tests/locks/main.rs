//! The rules of the lock contract (L2–L9, L14–L18), as sentences, as a random walk beside a naive model,
//! and as a search through every interleaving of a small world.

mod breaking;
mod deadlocks;
mod ending;
mod exhaustive;
mod flaws;
mod granting;
mod keeping;
mod limits;
mod queueing;
mod several_keys;
mod sharing;
mod support;
mod two_requests;
mod walk;
