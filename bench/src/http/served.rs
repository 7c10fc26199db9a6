//! What the daemon serves, over the memory store, in a process of its own. The daemon itself takes no store that dies with
//! it, so this is the same server without the rest of a daemon.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bell_control::Control;
use bell_coord::Coord;
use bell_coord::keys::Role;
use bell_gateway::serve::{Listening, listen, serve_daemon};
use bell_gateway::server::Server;
use bell_gateway::server::guard::Hosts;
use bell_gateway::server::levers::{Levers, Pace, Reloaded};
use bell_gateway::server::routes::{Routes, routes};
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_store::memory::Memory;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::bench::runtime;
use crate::worker;

/// Where to listen, and for which project.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) project: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    /// Where to write the key.
    pub(crate) key: PathBuf,
}

impl Order {
    /// In a process of its own, until it is told to end.
    pub(crate) fn carry_out(&self) -> Result<()> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let coord = Coord::new(Arc::new(Memory::new()));
            let key = coord.add_key(&"bench".parse()?, Role::Full).await?.context("there is a key")?;
            std::fs::write(&self.key, key.expose())?;
            let folder = Folder::open(&self.project)?;
            let loaded = Loaded::load(&folder);
            let control = Control::once(coord.clone(), coord, Arc::new(folder), Arc::new(loaded));
            let server = Server::new(control, Hosts::of(self.address, &[]), Arc::new(Nobody));
            serve(self.address, &self.socket, routes(server)).await
        })?;
        worker::ready()
    }
}

/// Serves on a port and on a socket, for as long as the process lives.
pub(crate) async fn serve(address: SocketAddr, socket: &Path, routes: impl Into<Routes>) -> Result<()> {
    let routes = routes.into();
    let port = TcpListener::bind(address).await.context("could not listen")?;
    for listening in [Listening::Tcp(port), Listening::Unix(listen(socket, None)?)] {
        let routes = routes.clone();
        tokio::spawn(async move { serve_daemon(listening, routes, &CancellationToken::new()).await });
    }
    Ok(())
}

/// There is no daemon that could stop or reload.
struct Nobody;

#[async_trait]
impl Levers for Nobody {
    fn stop(&self, _pace: Pace) {}

    async fn reload(&self) -> Option<Reloaded> {
        None
    }
}
