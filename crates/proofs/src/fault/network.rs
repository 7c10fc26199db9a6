//! The network of the near clients is cut, slow, or loses what it is given.

use anyhow::Result;

use super::{Fault, Ground};
use crate::proxy::Way;

/// Data fares badly, in one direction or both.
pub(super) struct Bad {
    pub(super) to_server: Way,
    pub(super) to_client: Way,
}

impl Fault for Bad {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.network().iter().for_each(|proxy| proxy.set(self.to_server, self.to_client));
        Ok(())
    }

    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.network().iter().for_each(|proxy| proxy.set(Way::Open, Way::Open));
        Ok(())
    }
}

/// Connections are reset, again and again.
pub(super) struct Reset;

impl Fault for Reset {
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        ground.stage.network().iter().for_each(|proxy| proxy.reset());
        Ok(())
    }

    fn go_on(&mut self, ground: &mut Ground<'_>, _percent: u32) -> Result<()> {
        self.inject(ground)
    }

    fn heal(&mut self, _ground: &mut Ground<'_>) -> Result<()> {
        Ok(())
    }
}
