//! What users must see of a fleet (docs/reference/acceptance.md), each from end to end: the real binary, real
//! processes, real stores.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `project` | C1–C4: what a project is, its settings, its secrets; S10: changes while it runs |
//! | `cron` | S1: schedules, with the daemon's wall clock set to where it matters |
//! | `work` | S2, S4–S6: queues, caps, reruns, calls |
//! | `holding` | S8, S9: pausing and stopping |
//! | `runs` | S7, S11, S12: how runs end, and exit codes |
//! | `lock_waits` | S14: jobs that wait for the locks their agent declares |
//! | `trouble` | S15: trouble of the machine that passes |
//! | `logs` | G5: what runs printed |
//! | `container` | S17: runs in containers of a real engine |
//! | `isolation` | S13: what a run can't read or change |
//! | `no_means` | S13: a machine that can isolate no run |
//! | `by_sudo` | S13: agents of another user, by sudo |
//! | `hostile` | what wrong input and wrong agents get |
//! | `table` | that the page names tests that are there |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_sudo;
mod container;
mod cron;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../support/fleet.rs"]
mod fleet;
mod holding;
mod hostile;
mod isolation;
mod lock_waits;
mod logs;
mod newcomers;
mod no_means;
#[path = "../support/podman.rs"]
mod podman;
mod project;
mod runs;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod trouble;
mod work;
