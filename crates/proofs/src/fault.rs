//! What is broken, and mended again. One file for each part of the world.

mod clients;
mod clock;
mod disk;
mod network;
mod server;

use anyhow::Result;

use crate::crew::Crew;
use crate::matrix::Fault as Name;
use crate::stage::{Disk, Stage};

/// What a fault can get at.
pub struct Ground<'a> {
    /// The store.
    pub stage: &'a mut dyn Stage,
    /// Its clients.
    pub crew: &'a mut Crew,
    /// The disk it lies on, if that is a small one of its own.
    pub disk: Option<&'a Disk>,
}

/// Something that goes wrong.
pub trait Fault {
    /// Breaks it.
    ///
    /// # Errors
    /// If it can't be broken.
    fn inject(&mut self, ground: &mut Ground<'_>) -> Result<()>;

    /// Called every so often while it is broken, with how much of that time is over: 0 to 100.
    ///
    /// # Errors
    /// If it can't be broken further.
    fn go_on(&mut self, ground: &mut Ground<'_>, percent: u32) -> Result<()> {
        let _ = (ground, percent);
        Ok(())
    }

    /// Mends it.
    ///
    /// # Errors
    /// If it can't be mended.
    fn heal(&mut self, ground: &mut Ground<'_>) -> Result<()>;
}

/// The fault of this name.
pub fn fault(name: Name) -> Box<dyn Fault> {
    use crate::proxy::Way::{Held, Lost, Open, Slow};
    let slow = Slow { least_ms: 30, most_ms: 120 };
    match name {
        Name::ServerKill => Box::new(server::Kill),
        Name::ServerStop => Box::new(server::Stop),
        Name::FailOver => Box::new(server::FailOver),
        Name::ClientKill => Box::new(clients::Kill::default()),
        Name::ClientStop => Box::new(clients::Stop),
        Name::CutBoth => Box::new(network::Bad { to_server: Held, to_client: Held }),
        Name::CutToServer => Box::new(network::Bad { to_server: Held, to_client: Open }),
        Name::CutToClient => Box::new(network::Bad { to_server: Open, to_client: Held }),
        Name::Delay => Box::new(network::Bad { to_server: slow, to_client: slow }),
        Name::Loss => Box::new(network::Bad { to_server: Lost, to_client: Lost }),
        Name::Reset => Box::new(network::Reset),
        Name::ClientClock => Box::new(clock::OfClients),
        Name::ServerClock => Box::new(clock::OfServer),
        Name::FullDisk => Box::new(disk::Full),
    }
}
