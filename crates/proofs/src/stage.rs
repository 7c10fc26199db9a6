//! A store under test: where it is, the network in front of it, and what can be done to it.
//!
//! Clients come from two sides. What breaks the network breaks it for one of them, so that the others can take over.

mod disk;
mod etcd;
mod files;
mod postgres;
mod redis;

use std::path::Path;

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::proxy::Proxy;

pub use disk::Disk;
pub use etcd::EtcdStage;
pub use files::Files;
pub use postgres::{PostgresPair, PostgresStage, Replication};
pub use redis::{RedisPair, RedisStage};

/// Where a client comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Through the network that may be broken.
    Near,
    /// Through the one that is never broken.
    Far,
}

/// A store under test.
pub trait Stage {
    /// What it is: engine, version, settings that matter.
    fn place(&self) -> String;

    /// How a client reaches it.
    fn url(&self, side: Side) -> String;

    /// The network in front of the near clients.
    fn network(&self) -> &[Proxy] {
        &[]
    }

    /// Kills the server, as a power cut would end its process.
    ///
    /// # Errors
    /// If there is none.
    fn kill(&mut self) -> Result<()> {
        bail!("there is no server")
    }

    /// Starts what was killed, or has ended, on the same data.
    ///
    /// # Errors
    /// If there is none.
    fn revive(&mut self) -> Result<()> {
        bail!("there is no server")
    }

    /// Sends the server a signal.
    ///
    /// # Errors
    /// If there is none.
    fn signal(&mut self, signal: Signal) -> Result<()> {
        bail!("there is no server to send {signal:?}")
    }

    /// Sets the server's clock this many hours ahead of where it was before the first call.
    ///
    /// # Errors
    /// If it can't be.
    fn set_clock(&mut self, hours: i64) -> Result<()> {
        bail!("there is no clock to set by {hours} h")
    }

    /// Makes the engine need space that it has not set aside, if it does that.
    fn need_space(&mut self) {}

    /// Kills the server that leads and lets another take its place.
    ///
    /// # Errors
    /// If there is none.
    fn fail_over(&mut self) -> Result<()> {
        bail!("nothing can take over")
    }
}

/// Where stores lie that need no small disk.
pub fn usual_place() -> std::path::PathBuf {
    std::env::temp_dir()
}

/// The two sides' ways to servers on these ports.
struct Ways {
    near: Vec<Proxy>,
    far: Vec<Proxy>,
}

impl Ways {
    fn to(servers: &[u16]) -> Result<Self> {
        let lead = || servers.iter().map(|server| Proxy::to(*server)).collect::<Result<Vec<_>>>();
        Ok(Self { near: lead()?, far: lead()? })
    }

    /// `127.0.0.1:port,…`
    fn hosts(&self, side: Side) -> String {
        let proxies = match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        };
        let hosts: Vec<_> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
        hosts.join(",")
    }
}

/// A name for a path in a URL.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
