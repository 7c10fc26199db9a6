//! A wall clock jumps: an hour ahead, then an hour behind, then back to where it was.

use anyhow::Result;

use super::{Fault, Ground};

/// Where the clock is after this much of the time.
fn hours(percent: u32) -> i64 {
    if percent < 50 { 1 } else { -1 }
}

/// That of the near clients.
pub(super) struct OfClients;

impl Fault for OfClients {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        self.go_on(ground, 0)
    }

    fn go_on(&mut self, ground: &mut Ground<'_>, percent: u32) -> Result<()> {
        ground.crew.set_clocks(hours(percent))
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.crew.set_clocks(0)
    }
}

/// That of the server.
pub(super) struct OfServer;

impl Fault for OfServer {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.set_clock(1)
    }

    fn go_on(&mut self, ground: &mut Ground<'_>, percent: u32) -> Result<()> {
        ground.stage.set_clock(hours(percent))
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.set_clock(0)
    }
}
