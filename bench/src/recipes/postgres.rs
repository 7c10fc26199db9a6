//! The recipes of PostgreSQL: its advisory locks, and a row for each lock that says until when it is taken.
//!
//! Each hand has a connection, as it would from a pool. Statements are prepared, so each is one round trip.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bell_e2e::Postgres;
use bell_locks::Key;
use tokio_postgres::{Client, NoTls, Statement};

use super::hand::{AnyHand, Hand, TTL, Try, poll, token};

/// Rows stay when locks are given back, or their fences would start again. Free space keeps the versions of a
/// row on one page.
pub(super) const TABLE: &str = "
    CREATE TABLE lease (
        key     text        PRIMARY KEY,
        token   text        NOT NULL,
        fence   bigint      NOT NULL,
        expires timestamptz NOT NULL
    ) WITH (fillfactor = 50)
";

const TAKE_ROW: &str = "
    INSERT INTO lease (key, token, fence, expires)
    VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
        ON CONFLICT (key) DO UPDATE
       SET token = excluded.token, fence = lease.fence + 1, expires = excluded.expires
     WHERE lease.expires <= clock_timestamp()
    RETURNING fence
";

const GIVE_ROW_BACK: &str = "
    UPDATE lease SET expires = '-infinity' WHERE key = $1 AND token = $2
";

const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";

async fn connect(port: u16) -> Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("postgres").password(Postgres::PASSWORD).dbname("postgres");
    let (client, driver) = config.connect(NoTls).await?;
    // It ends with the client.
    drop(tokio::spawn(driver));
    Ok(client)
}

struct Advisory {
    client: Client,
    lock: Statement,
    unlock: Statement,
    taken: Option<Key>,
}

/// Hands that use advisory locks, at the server on this port.
pub(super) async fn advisory(port: u16, hands: usize) -> Result<Vec<AnyHand>> {
    let mut all: Vec<AnyHand> = Vec::new();
    for _ in 0..hands {
        let client = connect(port).await?;
        let (lock, unlock) = (client.prepare(LOCK).await?, client.prepare(UNLOCK).await?);
        all.push(Box::new(Advisory { client, lock, unlock, taken: None }));
    }
    Ok(all)
}

#[async_trait]
impl Hand for Advisory {
    async fn take(&mut self, key: &Key) -> Result<()> {
        self.client.query_one(&self.lock, &[&key.as_str()]).await?;
        self.taken = Some(key.clone());
        Ok(())
    }

    async fn give_back(&mut self) -> Result<()> {
        let key = self.taken.take().context("gave back what it had not taken")?;
        let had_it: bool = self.client.query_one(&self.unlock, &[&key.as_str()]).await?.try_get(0)?;
        ensure!(had_it, "somebody else has {key}");
        Ok(())
    }

    async fn leave(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct RowLease {
    client: Client,
    take: Statement,
    give_back: Statement,
    token: String,
    taken: Option<Key>,
}

/// Hands that write into the table, at the server on this port.
pub(super) async fn row_lease(port: u16, hands: usize) -> Result<Vec<AnyHand>> {
    let mut all: Vec<AnyHand> = Vec::new();
    for number in 0..hands {
        let client = connect(port).await?;
        let (take, give_back) = (client.prepare(TAKE_ROW).await?, client.prepare(GIVE_ROW_BACK).await?);
        all.push(Box::new(RowLease { client, take, give_back, token: token(number), taken: None }));
    }
    Ok(all)
}

#[async_trait]
impl Try for RowLease {
    async fn try_take(&mut self, key: &Key) -> Result<bool> {
        let ttl_s = TTL.as_secs_f64();
        let fence = self.client.query_opt(&self.take, &[&key.as_str(), &self.token, &ttl_s]).await?;
        self.taken = fence.is_some().then(|| key.clone());
        Ok(fence.is_some())
    }
}

#[async_trait]
impl Hand for RowLease {
    async fn take(&mut self, key: &Key) -> Result<()> {
        poll(self, key).await
    }

    async fn give_back(&mut self) -> Result<()> {
        let key = self.taken.take().context("gave back what it had not taken")?;
        let rows = self.client.execute(&self.give_back, &[&key.as_str(), &self.token]).await?;
        ensure!(rows == 1, "somebody else has {key}");
        Ok(())
    }

    async fn leave(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
