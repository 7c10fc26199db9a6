//! One agent process, supervised by a process of its own that outlives the daemon.
//!
//! A [`Launch`](launch::Launch) says what to run. [`spawn`](spawn::spawn) writes it into a folder of its own, the
//! run directory, and starts a supervisor there: this very program again, under a hidden name
//! ([`supervise::main`]). The supervisor starts the agent by way of [`stage::main`], keeps its output, ends it
//! and everything it started, and writes down how it ended. A daemon that comes back finds all of that with
//! [`adopt`](adopt::adopt). Nothing here knows a store, a lock or a configuration file: what the
//! supervisor must tell others goes through [`Hooks`](hooks::Hooks).
//!
//! What a run directory holds, and what each end means, is in `docs/reference/runner.md`.

pub mod acl;
pub mod adopt;
pub mod cgroup;
pub mod container;
pub mod delegate;
pub mod env;
pub mod error;
pub mod exit;
pub mod handle;
pub mod hooks;
pub mod isolation;
pub mod launch;
pub mod logs;
pub mod presets;
pub mod process;
pub mod spawn;
pub mod stage;
pub mod sudo;
pub mod supervise;
pub mod user;
pub mod watchdog;

mod born;
mod children;
mod command;
mod readiness;
mod run_dir;
mod state;
mod tool;
mod tree;
mod worktree;

pub use error::{Error, Kind, Result};
