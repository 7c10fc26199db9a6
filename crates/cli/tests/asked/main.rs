//! What operators see and ask: why, what happened, what was printed, how it stands, and stopping it. With the real binary.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `why` | `bell why`, of every kind of thing, with and without a daemon |
//! | `history` | `bell history`, and what is forgotten |
//! | `logs` | `bell logs`: by agent, filtered, from an offset |
//! | `replay` | `bell jobs replay` in bulk, and what a stop says of what it cleared |
//! | `stop` | `bell stop`, gracefully and at once |
//! | `standing` | `bell stat`, and the banner and the events of `bell up` |
//! | `broken` | settings and agents that can't be used: at the start, and changed while the daemon runs |
//! | `doctor` | `bell doctor` in a project |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod doctor;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../support/fleet.rs"]
mod fleet;
mod history;
mod logs;
mod replay;
mod standing;
mod stop;
#[path = "../support/mod.rs"]
mod support;
mod why;
