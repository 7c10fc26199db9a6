//! What a supervisor tells others, and what it lets itself be told.
//!
//! The order at an end is fixed: [`Hooks::ending`] before the first signal, [`Hooks::ended`] after the last process
//! is gone. So a fence can be raised and a token revoked before the agent is touched, and locks are freed
//! only when nothing can use them any more. Each call has a time limit: a store that does not
//! answer never keeps an agent alive.

use std::time::Duration;

use async_trait::async_trait;

use crate::env::Environment;
use crate::error::Result;
use crate::exit::{Exit, Reason};

/// The supervisor's link to the rest of the system.
#[async_trait(?Send)]
pub trait Hooks {
    /// The agent is about to be started: take what it must have first. Answers what to add to its environment, or why
    /// it may not start; then [`Hooks::ended`] follows all the same.
    async fn starting(&self) -> Result<Environment>;

    /// The agent's main process runs. Called once, while the supervision already goes on.
    async fn started(&self, pid: i32);

    /// Returns when the run has lost its right to go on, and says what was lost. Dropped half-way at any time.
    async fn revoked(&self) -> String;

    /// On the boot clock: nothing of the run may live from then on, whatever its grace. `None` if nothing bounds it. It
    /// moves while the run's leases are renewed, so it is asked for again.
    fn deadline(&self) -> Option<Duration>;

    /// The run is about to be ended for this reason: raise the fence, revoke the token. Not called if the
    /// agent ended by itself.
    async fn ending(&self, reason: &Reason);

    /// From now on KILL is sent until nothing of the run is left: nothing has to watch over the deadline any more.
    fn killing(&self);

    /// The last process is gone and `exit.json` is written: release, record.
    async fn ended(&self, exit: &Exit);
}

/// Tells nobody and is told nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

#[async_trait(?Send)]
impl Hooks for NoHooks {
    async fn starting(&self) -> Result<Environment> {
        Ok(Environment::empty())
    }

    async fn started(&self, _pid: i32) {}

    async fn revoked(&self) -> String {
        std::future::pending().await
    }

    fn deadline(&self) -> Option<Duration> {
        None
    }

    async fn ending(&self, _reason: &Reason) {}

    fn killing(&self) {}

    async fn ended(&self, _exit: &Exit) {}
}
