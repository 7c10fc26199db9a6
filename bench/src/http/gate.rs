//! A server to ask: its place, its key, sessions at it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::empty::free_address;
use super::served::Order;
use super::wire::{Connection, Place, Way};
use crate::bench::Bench;
use crate::scheduler::fleet::{Project, Up};
use crate::worker::{self, Worker};

/// Where the daemon keeps its locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kept {
    Memory,
    Sqlite,
}

impl Kept {
    pub(crate) const ALL: [Self; 2] = [Self::Memory, Self::Sqlite];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
        }
    }
}

/// A server that is ready.
pub(crate) struct Gate {
    process: Process,
    pub(crate) door: Door,
}

enum Process {
    /// The real daemon.
    Daemon(Up),
    /// Its server alone.
    Served(Worker),
}

/// Where it is, and the key to it.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) place: Place,
    key: String,
}

impl Gate {
    pub(crate) fn open(bench: &Bench, program: &Path, kept: Kept) -> Result<Self> {
        let project = Project::make(bench, 1, &["true"])?;
        fs::write(project.folder.join("config.toml"), "[gateway]\nport = 0\n")?;
        match kept {
            Kept::Memory => Self::serve(bench, project),
            Kept::Sqlite => Self::up(program, &project),
        }
    }

    fn up(program: &Path, project: &Project) -> Result<Self> {
        let up = Up::start(program, project)?;
        let bell = project.folder.join(".bell");
        let gateway: Value = serde_json::from_slice(&fs::read(bell.join("gateway.json"))?)?;
        let address = gateway["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let address = address.context("could not find the daemon's address")?.to_owned();
        let key = fs::read_to_string(bell.join("api-key"))?.trim().to_owned();
        let place = Place { address, socket: bell.join("bell.sock") };
        Ok(Self { process: Process::Daemon(up), door: Door { place, key } })
    }

    fn serve(bench: &Bench, project: Project) -> Result<Self> {
        let (address, socket, key) = (free_address()?, bench.new_place(), bench.new_place());
        let order = Order { project: project.folder, address, socket: socket.clone(), key: key.clone() };
        let mut worker = Worker::start(&worker::Order::Served(order))?;
        worker.wait_until_ready()?;
        let place = Place { address: address.to_string(), socket };
        let door = Door { place, key: fs::read_to_string(key)? };
        Ok(Self { process: Process::Served(worker), door })
    }

    pub(crate) fn pid(&self) -> u32 {
        match &self.process {
            Process::Daemon(up) => up.pid(),
            Process::Served(worker) => worker.pid(),
        }
    }
}

impl Door {
    /// A connection of a new session.
    pub(crate) async fn session(&self, way: Way) -> Result<Connection> {
        let mut connection = Connection::open(&self.place, way, &self.key).await?;
        let made =
            connection.post("/v1/sessions", r#"{"label":"bench","ttl_ms":600000}"#).await?.good()?.json()?;
        let token = made["token"].as_str().context("the session has no token")?;
        connection.act_as(&self.place.address, token);
        Ok(connection)
    }
}

/// A request for one key.
pub(crate) fn acquire(key: &str, request: usize, wait_ms: u64) -> String {
    format!(r#"{{"keys":["{key}"],"request_id":"r{request}","ttl_ms":600000,"wait_ms":{wait_ms}}}"#)
}

pub(crate) fn release(key: &str) -> String {
    format!(r#"{{"key":"{key}"}}"#)
}
