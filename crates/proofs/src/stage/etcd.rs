//! etcd: one member, or a cluster of three.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use bell_e2e::Etcd;
use rustix::process::Signal;

use super::{Side, Stage, Ways};
use crate::proxy::Proxy;

/// One member or several.
pub struct EtcdStage {
    members: usize,
    cluster: Etcd,
    ways: Ways,
}

impl EtcdStage {
    /// Starts so many members with their data below a folder.
    ///
    /// # Errors
    /// If there is no way to them.
    pub fn start(below: &Path, members: usize) -> Result<Self> {
        // Without it a member that was cut off disturbs the others when it comes back; newer versions do so by default.
        let cluster = Etcd::start_in(below, members, &["--pre-vote"]);
        let ports: Vec<u16> = (0..members).map(|index| cluster.port(index)).collect();
        Ok(Self { members, cluster, ways: Ways::to(&ports)? })
    }
}

impl Stage for EtcdStage {
    fn place(&self) -> String {
        let members =
            if self.members == 1 { "one member".to_owned() } else { format!("{} members", self.members) };
        format!("etcd {}, {members}", self.cluster.version())
    }

    fn url(&self, side: Side) -> String {
        format!("etcd://{}/proof", self.ways.hosts(side))
    }

    fn network(&self) -> &[Proxy] {
        &self.ways.near
    }

    fn kill(&mut self) -> Result<()> {
        (0..self.members).for_each(|index| self.cluster.kill(index));
        Ok(())
    }

    fn revive(&mut self) -> Result<()> {
        for index in 0..self.members {
            if !self.cluster.runs(index) {
                self.cluster.restart(index);
            }
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        (0..self.members).for_each(|index| self.cluster.signal(index, signal));
        Ok(())
    }

    fn fail_over(&mut self) -> Result<()> {
        let leader = self.cluster.leader();
        self.cluster.kill(leader);
        // The others elect one of themselves; then the old leader comes back and follows.
        sleep(Duration::from_secs(2));
        self.cluster.leader();
        self.cluster.restart(leader);
        Ok(())
    }
}
