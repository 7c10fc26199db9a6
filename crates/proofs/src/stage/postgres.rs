//! PostgreSQL: one server, and a primary with a standby.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use bell_e2e::Postgres;
use rustix::process::Signal;

use super::{Side, Stage, Ways};
use crate::proxy::Proxy;

const SCHEMA: &str = "proof";

/// One server.
pub struct PostgresStage {
    server: Postgres,
    ways: Ways,
}

impl PostgresStage {
    /// Starts it with its data below a folder.
    ///
    /// # Errors
    /// If there is no way to it.
    pub fn start(below: &Path) -> Result<Self> {
        let server = Postgres::start_in(below, &[]);
        let ways = Ways::to(&[server.port()])?;
        Ok(Self { server, ways })
    }
}

impl Stage for PostgresStage {
    fn place(&self) -> String {
        format!("PostgreSQL {}", self.server.version())
    }

    fn url(&self, side: Side) -> String {
        url(&self.ways.hosts(side))
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
        self.server.signal_all(signal);
        Ok(())
    }

    /// What it set aside for its log at the start would last for longer than the disk is full here.
    fn need_space(&mut self) {
        // A server that has given up already needs none.
        let _ = self.server.try_sql("SELECT pg_switch_wal()");
    }

    /// Replaces the function that reads the server's clock: the machine's own is not for tests to set.
    fn set_clock(&mut self, hours: i64) -> Result<()> {
        self.server.sql(&format!(
            "CREATE OR REPLACE FUNCTION {SCHEMA}.wall_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
             SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {hours} * 3600000 $$"
        ));
        Ok(())
    }
}

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replication {
    /// It does.
    Synchronous,
    /// It does not.
    Asynchronous,
}

/// A primary with a standby.
pub struct PostgresPair {
    primary: Postgres,
    standby: Postgres,
    replication: Replication,
}

impl PostgresPair {
    /// Starts them.
    pub fn start(replication: Replication) -> Self {
        let primary = Postgres::start_with(&[]);
        let standby = Postgres::standby_of(&primary, &[]);
        if replication == Replication::Synchronous {
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
            primary.sql("SELECT pg_reload_conf()");
        }
        Self { primary, standby, replication }
    }
}

impl Stage for PostgresPair {
    fn place(&self) -> String {
        let how = match self.replication {
            Replication::Synchronous => "synchronous_standby_names = '*'",
            Replication::Asynchronous => "which does not wait for it",
        };
        format!("PostgreSQL {}, a primary with a standby, {how}", self.standby.version())
    }

    fn url(&self, _side: Side) -> String {
        url(&format!("127.0.0.1:{},127.0.0.1:{}", self.primary.port(), self.standby.port()))
    }

    /// Where nobody waits for the standby, it is behind when its primary dies.
    fn fail_over(&mut self) -> Result<()> {
        if self.replication == Replication::Asynchronous {
            self.standby.signal_all(Signal::STOP);
            sleep(Duration::from_millis(300));
        }
        self.primary.kill();
        if self.replication == Replication::Asynchronous {
            self.standby.signal_all(Signal::CONT);
        }
        self.standby.promote();
        Ok(())
    }
}

fn url(hosts: &str) -> String {
    format!("postgres://postgres:{}@{hosts}/postgres?schema={SCHEMA}", Postgres::PASSWORD)
}
