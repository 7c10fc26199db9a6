//! Several daemons on one store, and daemons that are killed all the time: nothing is lost, nothing runs twice in
//! silence, caps hold.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `both` | two daemons on one Redis and on one PostgreSQL |
//! | `campaign` | a daemon that is killed a hundred times under load, and the controls that must lose |
//! | `cut_off` | a node that loses its store while its agent ignores TERM; supervisors that are stopped |
//! | `ledger` | what was accepted beside what ran: the comparison itself |
//! | `outages` | a store that is away, again and again, while runs start |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod both;
mod campaign;
mod cut_off;
#[path = "../support/fleet.rs"]
#[expect(dead_code, reason = "each test binary uses a part of it")]
mod fleet;
mod ledger;
mod outages;
#[path = "../support/mod.rs"]
mod support;
