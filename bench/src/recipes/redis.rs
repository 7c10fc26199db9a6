//! The recipes of Redis: a key that is set if it is not there, and a script that deletes it if it is ours.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bell_locks::Key;
use redis::aio::MultiplexedConnection;
use redis::cmd;

use super::hand::{AnyHand, Hand, TTL, Try, poll, token};

/// KEYS: the lock, its fence. ARGV: token, ttl in ms. Set and count in one step, or a holder that died between
/// the two would leave its successor with the same fence.
const TAKE_FENCED: &str = "
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        return redis.call('INCR', KEYS[2])
    end
    return 0
";

/// KEYS: the lock. ARGV: token.
const GIVE_BACK: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0
";

/// Whether a lock comes with a fence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    None,
    Counted,
}

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Connections {
    /// Each hand has its own.
    Each,
    /// All share one, over which their requests are pipelined.
    One,
}

struct RedisHand {
    connection: MultiplexedConnection,
    token: String,
    fence: Fence,
    take_fenced: String,
    give_back: String,
    taken: Option<String>,
}

/// Hands at the server on this port.
pub(super) async fn hands(
    port: u16,
    hands: usize,
    fence: Fence,
    connections: Connections,
) -> Result<Vec<AnyHand>> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/0"))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let take_fenced = load(&mut connection, TAKE_FENCED).await?;
    let give_back = load(&mut connection, GIVE_BACK).await?;
    let mut all: Vec<AnyHand> = Vec::new();
    for number in 0..hands {
        if connections == Connections::Each && number > 0 {
            connection = client.get_multiplexed_async_connection().await?;
        }
        all.push(Box::new(RedisHand {
            connection: connection.clone(),
            token: token(number),
            fence,
            take_fenced: take_fenced.clone(),
            give_back: give_back.clone(),
            taken: None,
        }));
    }
    Ok(all)
}

async fn load(connection: &mut MultiplexedConnection, script: &str) -> Result<String> {
    Ok(cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
}

#[async_trait]
impl Try for RedisHand {
    async fn try_take(&mut self, key: &Key) -> Result<bool> {
        let name = format!("lock:{key}");
        let ttl_ms = u64::try_from(TTL.as_millis())?;
        let mut ask = match self.fence {
            Fence::None => cmd("SET"),
            Fence::Counted => cmd("EVALSHA"),
        };
        let is_ours = match self.fence {
            Fence::None => {
                ask.arg(&name).arg(&self.token).arg("NX").arg("PX").arg(ttl_ms);
                ask.query_async::<Option<String>>(&mut self.connection).await?.is_some()
            }
            Fence::Counted => {
                ask.arg(&self.take_fenced).arg(2).arg(&name).arg(format!("fence:{key}"));
                ask.arg(&self.token).arg(ttl_ms);
                ask.query_async::<u64>(&mut self.connection).await? > 0
            }
        };
        self.taken = is_ours.then_some(name);
        Ok(is_ours)
    }
}

#[async_trait]
impl Hand for RedisHand {
    async fn take(&mut self, key: &Key) -> Result<()> {
        poll(self, key).await
    }

    async fn give_back(&mut self) -> Result<()> {
        let name = self.taken.take().context("gave back what it had not taken")?;
        let mut ask = cmd("EVALSHA");
        ask.arg(&self.give_back).arg(1).arg(&name).arg(&self.token);
        let deleted: u64 = ask.query_async(&mut self.connection).await?;
        ensure!(deleted == 1, "somebody else has {name}");
        Ok(())
    }

    async fn leave(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
