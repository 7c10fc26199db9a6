//! The server dies, hangs, or another takes its place.

use anyhow::Result;
use rustix::process::Signal;

use super::{Fault, Ground};

/// `kill -9`; later it is started again on the same data.
pub(super) struct Kill;

impl Fault for Kill {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.kill()
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.revive()
    }
}

/// `kill -STOP`; later `-CONT`.
pub(super) struct Stop;

impl Fault for Stop {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.signal(Signal::STOP)
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.signal(Signal::CONT)
    }
}

/// The server that leads is killed, and another takes over.
pub(super) struct FailOver;

impl Fault for FailOver {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.fail_over()
    }

    fn heal(&mut self, _ground: &mut Ground<'_>) -> Result<()> {
        Ok(())
    }
}
