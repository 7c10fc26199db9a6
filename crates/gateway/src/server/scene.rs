//! For tests: a server with a store in memory, and no daemon behind it.

use std::sync::Arc;

use async_trait::async_trait;
use bell_control::Control;
use bell_coord::Coord;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_store::memory::Memory;

use super::Server;
use super::guard::Hosts;
use super::levers::{Levers, Pace, Reloaded};

struct NoDaemon;

#[async_trait]
impl Levers for NoDaemon {
    fn stop(&self, _pace: Pace) {}

    async fn reload(&self) -> Option<Reloaded> {
        None
    }
}

/// A server of a project, and the store of both its locks and its work.
pub(super) fn server(folder: &std::path::Path) -> (Server, Coord) {
    let coord = Coord::new(Arc::new(Memory::new()));
    let folder = Folder::open(folder).unwrap();
    let loaded = Arc::new(Loaded::load(&folder));
    let control = Control::once(coord.clone(), coord.clone(), Arc::new(folder), loaded);
    let hosts = Hosts::of("127.0.0.1:80".parse().unwrap(), &[]);
    (Server::new(control, hosts, Arc::new(NoDaemon)), coord)
}
