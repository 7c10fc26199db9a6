//! Who is compared with whom, and on what.

use anyhow::{Context, Result};
use bell_e2e::{Etcd, Postgres, Redis};
use clap::ValueEnum;
use serde::Serialize;

use super::hand::AnyHand;
use super::redis::{Connections, Fence};
use super::{etcd, ours, postgres, redis};

/// Handles of one store in [`How::OursApart`]. They share nothing but the server, as processes do.
const HANDLES_APART: usize = 4;

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    Redis,
    Postgres,
    Etcd,
}

impl Engine {
    pub(super) const ALL: [Self; 3] = [Self::Redis, Self::Postgres, Self::Etcd];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
            Self::Etcd => "etcd",
        }
    }

    /// Everybody on this server, ours first.
    pub(super) fn contenders(self) -> Vec<Contender> {
        let recipes = match self {
            Self::Redis => vec![How::SetNx, How::SetNxFenced, How::SetNxFencedPiped],
            Self::Postgres => vec![How::RowLease, How::Advisory],
            Self::Etcd => vec![How::CreatedKey, How::LockService],
        };
        let all = [How::Ours, How::OursApart].into_iter().chain(recipes);
        all.map(|how| Contender { engine: self, how }).collect()
    }

    /// The cheapest recipe that is correct and comes with a fence.
    pub(super) fn cheapest_fenced(self) -> How {
        match self {
            Self::Redis => How::SetNxFenced,
            Self::Postgres => How::RowLease,
            Self::Etcd => How::CreatedKey,
        }
    }

    /// What the engine itself offers as a lock.
    pub(super) fn own_lock(self) -> Option<How> {
        match self {
            Self::Redis => None,
            Self::Postgres => Some(How::Advisory),
            Self::Etcd => Some(How::LockService),
        }
    }
}

/// By which means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum How {
    /// Bellwether, all sessions on one handle: one process.
    Ours,
    /// Bellwether, sessions dealt out to four handles: four processes.
    OursApart,
    SetNx,
    SetNxFenced,
    SetNxFencedPiped,
    RowLease,
    Advisory,
    CreatedKey,
    LockService,
}

impl How {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "Bellwether",
            Self::OursApart => "Bellwether, four handles",
            Self::SetNx => "`SET NX PX`, no fence",
            Self::SetNxFenced => "`SET NX PX` and `INCR` in a script",
            Self::SetNxFencedPiped => "the same, all over one connection",
            Self::RowLease => "row lease with a fence",
            Self::Advisory => "`pg_advisory_lock`, no fence",
            Self::CreatedKey => "key created in a transaction",
            Self::LockService => "lock service",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursApart)
    }

    /// Whether whoever waits sleeps and tries again.
    pub(super) fn polls(self) -> bool {
        matches!(
            self,
            Self::SetNx | Self::SetNxFenced | Self::SetNxFencedPiped | Self::RowLease | Self::CreatedKey
        )
    }
}

/// One of those who are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Contender {
    pub(super) engine: Engine,
    pub(super) how: How,
}

impl Contender {
    /// So many hands, who go in by these doors.
    pub(super) async fn hands(self, doors: &Doors, hands: usize) -> Result<Vec<AnyHand>> {
        match self.how {
            How::Ours => ours::hands(&doors.url(self.engine), hands, 1).await,
            How::OursApart => ours::hands(&doors.url(self.engine), hands, HANDLES_APART).await,
            How::SetNx => redis::hands(doors.redis, hands, Fence::None, Connections::Each).await,
            How::SetNxFenced => redis::hands(doors.redis, hands, Fence::Counted, Connections::Each).await,
            How::SetNxFencedPiped => redis::hands(doors.redis, hands, Fence::Counted, Connections::One).await,
            How::RowLease => postgres::row_lease(doors.postgres, hands).await,
            How::Advisory => postgres::advisory(doors.postgres, hands).await,
            How::CreatedKey => etcd::created_key(doors.etcd, hands).await,
            How::LockService => etcd::lock_service(doors.etcd, hands).await,
        }
    }
}

/// The ports of 127.0.0.1 at which the servers are reached: their own, or those of somebody in between.
#[derive(Clone, Copy)]
pub(super) struct Doors {
    pub(super) redis: u16,
    pub(super) postgres: u16,
    pub(super) etcd: u16,
}

impl Doors {
    pub(super) fn port(&self, engine: Engine) -> u16 {
        match engine {
            Engine::Redis => self.redis,
            Engine::Postgres => self.postgres,
            Engine::Etcd => self.etcd,
        }
    }

    /// The same, but for one server that is reached at this port.
    pub(super) fn through(self, engine: Engine, port: u16) -> Self {
        match engine {
            Engine::Redis => Self { redis: port, ..self },
            Engine::Postgres => Self { postgres: port, ..self },
            Engine::Etcd => Self { etcd: port, ..self },
        }
    }

    fn url(&self, engine: Engine) -> String {
        let port = self.port(engine);
        match engine {
            Engine::Redis => format!("redis://127.0.0.1:{port}/0?prefix=bell"),
            Engine::Postgres => {
                format!("postgres://postgres:{}@127.0.0.1:{port}/postgres?schema=bell", Postgres::PASSWORD)
            }
            Engine::Etcd => format!("etcd://127.0.0.1:{port}/bell"),
        }
    }
}

/// The servers that are wanted. Dropped, they end.
#[derive(Default)]
pub(super) struct Servers {
    redis: Option<Redis>,
    postgres: Option<Postgres>,
    etcd: Option<Etcd>,
}

impl Servers {
    /// Starts one of each of these: Redis in memory, where what we do comes to the most beside everything else;
    /// PostgreSQL and etcd with their own settings, which sync every commit.
    pub(super) fn start(engines: &[Engine]) -> Self {
        let mut servers = Self::default();
        for engine in engines {
            match engine {
                Engine::Redis => servers.redis = Some(Redis::start()),
                Engine::Postgres => {
                    // Room for a connection of each of 64 hands, twice: those of the last round may still
                    // be closing.
                    let postgres = Postgres::start_with(&["-c", "max_connections=300"]);
                    postgres.sql(postgres::TABLE);
                    servers.postgres = Some(postgres);
                }
                Engine::Etcd => servers.etcd = Some(Etcd::start()),
            }
        }
        servers
    }

    /// Where they are. A server that was not started is nowhere.
    pub(super) fn doors(&self) -> Result<Doors> {
        let etcd = self.etcd.as_ref().map(|etcd| etcd.address(0)).unwrap_or_default();
        let port = etcd.rsplit(':').next().filter(|port| !port.is_empty()).unwrap_or("0");
        Ok(Doors {
            redis: self.redis.as_ref().map_or(0, Redis::port),
            postgres: self.postgres.as_ref().map_or(0, Postgres::port),
            etcd: port.parse().context("could not read etcd's port")?,
        })
    }
}
