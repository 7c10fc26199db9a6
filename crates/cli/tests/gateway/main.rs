//! What `bell up` serves on its port and its socket, with the real binary.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `served` | a project whose daemon runs, and requests to it |
//! | `control`, `schema` | what operators ask and do, held against the document |
//! | `events` | what happens and what runs print, followed |
//! | `doctor` | what the check-up says about the gateway |
//! | `metrics` | the numbers that operators watch, and whether the daemon is ready |
//! | `outsider`, `locks` | locks for programs outside of any run |
//! | `lock_page` | what the page about them shows, and `bell lock` through a gateway |
//! | `lock_faults`, `lock_input` | the same while things go wrong, and wrongly asked for |
//! | `remote` | the commands of operators, asked of the store, the socket and the port |
//! | `store_trouble` | a store that is removed, replaced or set back under the daemon |
//! | `restart` | a daemon that is replaced under load |
//! | `webhooks`, `webhook_faults` | deliveries from outside; the same while things go wrong |
//! | `signers` | real signers of webhooks |
//! | `auth` | keys that are guessed, logins, what an answer tells a browser |
//! | `limits` | what is refused unread, and slow clients |
//! | `audit` | the record of what operators did |
//! | `canary` | secrets, looked for everywhere |
//! | `mcp` | tools for models, of runs and of operators |
//! | `outgoing` | what bell connects to by itself |
//! | `opening` | where it listens, what it leaves behind, who is let in |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod auth;
mod canary;
mod control;
mod doctor;
mod events;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../support/fleet.rs"]
mod fleet;
mod limits;
mod lock_faults;
mod lock_input;
mod lock_page;
mod locks;
mod mcp;
mod metrics;
mod opening;
mod outgoing;
mod outsider;
mod remote;
mod restart;
mod schema;
mod served;
#[path = "../../../intake/tests/support/mod.rs"]
mod signers;
mod store_trouble;
#[path = "../support/mod.rs"]
mod support;
mod webhook_faults;
mod webhooks;
