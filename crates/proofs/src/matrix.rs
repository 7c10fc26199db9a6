//! Which stores, which faults, and what is to be tried on what.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A store, set up in one way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// A SQLite file.
    Sqlite,
    /// A folder.
    File,
    /// One Redis server that syncs every commit.
    Redis,
    /// One PostgreSQL server.
    Postgres,
    /// One etcd member.
    Etcd,
    /// Three etcd members.
    EtcdCluster,
    /// PostgreSQL with a standby that every commit waits for.
    PostgresSync,
    /// PostgreSQL with a standby that no commit waits for.
    PostgresAsync,
    /// Redis with a replica and a sentinel.
    RedisSentinel,
}

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Clients are killed, one after the other.
    ClientKill,
    /// Clients are stopped for longer than a ttl.
    ClientStop,
    /// Clients' wall clocks jump by an hour, ahead and back.
    ClientClock,
    /// The server is killed and started again on its data.
    ServerKill,
    /// The server is stopped for longer than a ttl.
    ServerStop,
    /// The server's wall clock jumps by an hour, ahead and back.
    ServerClock,
    /// The network is cut in both directions.
    CutBoth,
    /// Nothing reaches the server.
    CutToServer,
    /// Nothing comes back from the server.
    CutToClient,
    /// Everything is late.
    Delay,
    /// Connections lose what they are given.
    Loss,
    /// Connections are reset, again and again.
    Reset,
    /// Another server takes over.
    FailOver,
    /// The store's disk is full.
    FullDisk,
}

/// Whether a fault is tried on a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// The contract must hold.
    Holds,
    /// The documents call it unsafe; the store must say so itself.
    Unsafe,
    /// There is no such thing there.
    Absent,
    /// It could happen, and can't be made to happen here.
    NotInjected(&'static str),
}

impl Store {
    /// All of them.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// What is tried on it.
    pub fn trial(self, fault: Fault) -> Trial {
        use Fault::{ClientClock, ClientKill, ClientStop, FailOver, FullDisk, ServerClock};
        match (self, fault) {
            (Self::EtcdCluster | Self::PostgresSync, FailOver) => Trial::Holds,
            (Self::PostgresAsync | Self::RedisSentinel, FailOver) => Trial::Unsafe,
            // One server of several is tried by itself.
            (Self::EtcdCluster | Self::PostgresSync | Self::PostgresAsync | Self::RedisSentinel, _) => {
                Trial::Absent
            }
            (_, FailOver) => Trial::Absent,
            (Self::Sqlite | Self::File, ClientKill | ClientStop | ClientClock | FullDisk) => Trial::Holds,
            (Self::Sqlite | Self::File, _) => Trial::Absent,
            (Self::Etcd, ServerClock) => {
                Trial::NotInjected("Go asks the kernel itself; the store asks no member for the time")
            }
            (Self::Redis | Self::Postgres | Self::Etcd, _) => Trial::Holds,
        }
    }
}

impl Fault {
    /// All of them.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// What happens, for a reader of the table.
    pub fn says(self) -> &'static str {
        match self {
            Self::ClientKill => "clients killed (`kill -9`), one after the other",
            Self::ClientStop => "clients stopped (SIGSTOP) for longer than their ttl",
            Self::ClientClock => "clients' wall clock an hour ahead, then an hour behind",
            Self::ServerKill => "server killed (`kill -9`), started again on its data",
            Self::ServerStop => "server stopped (SIGSTOP) for longer than a ttl",
            Self::ServerClock => {
                "server's wall clock, as the store reads it, an hour ahead, then an hour behind"
            }
            Self::CutBoth => "network of some clients cut in both directions",
            Self::CutToServer => "network of some clients cut towards the server",
            Self::CutToClient => "network of some clients cut towards them",
            Self::Delay => "network of some clients late by 30 to 120 ms each way",
            Self::Loss => "every other connection of some clients loses all data",
            Self::Reset => "connections of some clients reset, four times a second",
            Self::FailOver => "the leading server killed, another takes over",
            Self::FullDisk => "the store's disk full",
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

/// As it is written on the command line.
fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_and_every_fault_is_tried_somewhere() {
        let tried = |store: Store, fault| matches!(store.trial(fault), Trial::Holds | Trial::Unsafe);
        for store in Store::all() {
            assert!(Fault::all().iter().any(|fault| tried(*store, *fault)), "{store}");
        }
        for fault in Fault::all() {
            assert!(Store::all().iter().any(|store| tried(*store, *fault)), "{fault}");
        }
    }
}
