//! Several daemons on one store, and daemons that are killed all the time: nothing is lost, nothing runs twice in
//! silence, caps hold.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `both` | two daemons on one Redis and on one PostgreSQL |
//! | `campaign` | a daemon that is killed a hundred times under load, and the controls that must lose |
//! | `ledger` | what was accepted beside what ran: the comparison itself |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod both;
mod campaign;
#[path = "../support/fleet.rs"]
#[expect(dead_code, reason = "each test binary uses a part of it")]
mod fleet;
mod ledger;
#[path = "../support/mod.rs"]
mod support;
