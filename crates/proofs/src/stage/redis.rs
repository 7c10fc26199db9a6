//! Redis: one server that syncs every commit, and a pair behind a sentinel.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use bell_e2e::{Redis, Sentinel};
use bell_store::clock::boottime;
use rustix::process::Signal;

use super::{Side, Stage, Ways};
use crate::proxy::Proxy;

const PREFIX: &str = "proof";

/// The settings that the page on Redis asks for.
const SAFE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// One server.
pub struct RedisStage {
    server: Redis,
    ways: Ways,
    hours: i64,
}

impl RedisStage {
    /// Starts it with its data below a folder.
    ///
    /// # Errors
    /// If there is no way to it.
    pub fn start(below: &Path) -> Result<Self> {
        let server = Redis::start_in(below, &SAFE);
        let ways = Ways::to(&[server.port()])?;
        Ok(Self { server, ways, hours: 0 })
    }
}

impl Stage for RedisStage {
    fn place(&self) -> String {
        format!("Redis {}, appendfsync always", self.server.version())
    }

    fn url(&self, side: Side) -> String {
        format!("redis://{}/0?prefix={PREFIX}", self.ways.hosts(side))
    }

    fn network(&self) -> &[Proxy] {
        &self.ways.near
    }

    fn kill(&mut self) -> Result<()> {
        self.server.kill();
        Ok(())
    }

    fn revive(&mut self) -> Result<()> {
        if !self.server.runs() {
            self.server.restart();
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        self.server.signal(signal);
        Ok(())
    }

    /// The store's clock is the server's plus an offset that lies with the data. To every client a change of that looks as
    /// if the server's clock had been set. (redis-server itself hangs under libfaketime.)
    fn set_clock(&mut self, hours: i64) -> Result<()> {
        let by_ms = (hours - self.hours) * 3_600_000;
        self.server.run(&["EVAL", MOVE_CLOCK, "1", &format!("{{{PREFIX}}}:records"), &by_ms.to_string()]);
        self.hours = hours;
        Ok(())
    }
}

/// Adds to the offset in the store's head: KEYS the records, ARGV by how many milliseconds.
const MOVE_CLOCK: &str = "
    local head = redis.call('HGET', KEYS[1], '')
    local revision, last, offset, rest = struct.unpack('>I8I8i8', head)
    head = struct.pack('>I8I8i8', revision, last, offset + ARGV[1]) .. string.sub(head, rest)
    return redis.call('HSET', KEYS[1], '', head)
";

/// A primary with a replica, and a sentinel that lets the replica take over.
pub struct RedisPair {
    primary: Redis,
    replica: Redis,
    sentinel: Sentinel,
}

impl RedisPair {
    /// Starts them, and waits until the sentinel knows both.
    ///
    /// # Errors
    /// If it does not.
    pub fn start() -> Result<Self> {
        let primary = Redis::start_with(&SAFE);
        let port = primary.port().to_string();
        let replica = Redis::start_with(&[&SAFE[..], &["--replicaof", "127.0.0.1", &port]].concat());
        let follows = || replica.run(&["INFO", "replication"]).contains("master_link_status:up");
        until(follows, "the replica does not follow")?;
        let sentinel = Sentinel::start("locks", &primary);
        let knows = || sentinel.run(&["SENTINEL", "REPLICAS", "locks"]).starts_with('1');
        until(knows, "the sentinel does not see the replica")?;
        Ok(Self { primary, replica, sentinel })
    }
}

impl Stage for RedisPair {
    fn place(&self) -> String {
        format!("Redis {}, a primary and a replica, one sentinel", self.replica.version())
    }

    fn url(&self, _side: Side) -> String {
        format!("redis+sentinel://127.0.0.1:{}/locks?prefix={PREFIX}", self.sentinel.port())
    }

    /// The replica is behind when its primary dies, as a slow network or a busy machine would have it.
    fn fail_over(&mut self) -> Result<()> {
        self.replica.signal(Signal::STOP);
        sleep(Duration::from_millis(300));
        self.primary.kill();
        self.replica.signal(Signal::CONT);
        let leads = || self.replica.run(&["INFO", "replication"]).contains("role:master");
        until(leads, "the sentinel does not promote the replica")
    }
}

fn until(is_so: impl Fn() -> bool, otherwise: &str) -> Result<()> {
    let give_up = boottime() + PATIENCE;
    while !is_so() {
        ensure!(boottime() < give_up, "{otherwise}");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
