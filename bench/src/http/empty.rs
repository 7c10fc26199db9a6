//! A handler that does nothing, in a process of its own, served by the code that serves the daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use axum::Router;
use axum::routing::post;
use serde::{Deserialize, Serialize};

use super::served;
use super::wire::Place;
use crate::bench::{Bench, runtime};
use crate::worker::{self, Worker};

/// Where to listen.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    address: SocketAddr,
    socket: PathBuf,
}

/// A server of the handler, until it is dropped.
pub(crate) struct Empty {
    worker: Worker,
    pub(crate) place: Place,
}

impl Empty {
    pub(crate) fn start(bench: &Bench) -> Result<Self> {
        let address = free_address()?;
        let socket = bench.new_place();
        let order = Order { address, socket: socket.clone() };
        let mut worker = Worker::start(&worker::Order::Empty(order))?;
        worker.wait_until_ready()?;
        Ok(Self { worker, place: Place { address: address.to_string(), socket } })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.worker.pid()
    }
}

impl Order {
    /// In a process of its own, until it is told to end.
    pub(crate) fn carry_out(&self) -> Result<()> {
        let routes = Router::new().fallback_service(post(|| async {}));
        let runtime = runtime()?;
        runtime.block_on(served::serve(self.address, &self.socket, routes))?;
        worker::ready()
    }
}

/// A port that nobody has. It is given back at once: nobody else on this machine is handed the same one so soon.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
