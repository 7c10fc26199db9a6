//! Real runs: real supervisors, real agents, real signals.
//!
//! Every agent here is a few lines of shell. Each test ends what it started, by the run's own mark.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adoption;
mod confinement;
mod container;
mod ends;
mod isolation;
mod limits;
mod output;
mod refusals;
mod support;
mod trees;
mod watchdog;
mod worktree;
