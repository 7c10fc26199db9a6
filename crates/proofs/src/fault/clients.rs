//! Clients die, or hang.

use anyhow::Result;
use rustix::process::Signal;

use super::{Fault, Ground};

/// Steps of a fault between two kills: whoever comes must have time to get something.
const KILL_EVERY: u32 = 3;

/// `kill -9` of one client after the other; another comes in the place of each.
#[derive(Default)]
pub(super) struct Kill {
    steps: u32,
}

impl Fault for Kill {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        let side = ground.crew.kill_oldest()?;
        ground.crew.add(ground.stage, side)
    }

    fn go_on(&mut self, ground: &mut Ground<'_>, _percent: u32) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(KILL_EVERY) { self.inject(ground) } else { Ok(()) }
    }

    fn heal(&mut self, _ground: &mut Ground<'_>) -> Result<()> {
        Ok(())
    }
}

/// `kill -STOP` of the near clients, for longer than any short lease lasts; later `-CONT`.
pub(super) struct Stop;

impl Fault for Stop {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.crew.signal_near(Signal::STOP)
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.crew.signal_near(Signal::CONT)
    }
}
