//! The store's disk is full.

use anyhow::{Context as _, Result};

use super::{Fault, Ground};

/// No space is left; later there is. A server that gave up meanwhile is started again, as its operator would.
pub(super) struct Full;

impl Fault for Full {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.disk.context("there is no small disk")?.fill()
    }

    /// What the store has freed since is taken too.
    fn go_on(&mut self, ground: &mut Ground<'_>, _percent: u32) -> Result<()> {
        ground.stage.need_space();
        self.inject(ground)
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.disk.context("there is no small disk")?.free()?;
        if ground.stage.network().is_empty() { Ok(()) } else { ground.stage.revive() }
    }
}
