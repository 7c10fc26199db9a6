//! `bell verify` with the real binary.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `machine` | stores on this machine, and the command itself |
//! | `servers` | real servers: sound, unsafe, refused, and gone in the middle |
//! | `peer` | two that find each other through the store |
//! | `report` | what the others share |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod machine;
mod peer;
mod report;
mod servers;
#[path = "../support/mod.rs"]
mod support;
