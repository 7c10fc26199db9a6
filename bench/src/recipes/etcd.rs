//! The recipes of etcd: its lock service, and a key that is created in a transaction if it is not there.
//!
//! Each hand has a lease that was granted before. They share one connection, as clients of etcd do. The
//! fence is a revision of etcd in both.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bell_locks::Key;
use etcd_client::{Client, Compare, CompareOp, LockOptions, PutOptions, Txn, TxnOp};

use super::hand::{AnyHand, Hand, TTL, Try, poll};

async fn connect(port: u16) -> Result<Client> {
    Ok(Client::connect([format!("127.0.0.1:{port}")], None).await?)
}

async fn grant(client: &mut Client) -> Result<i64> {
    Ok(client.lease_grant(i64::try_from(TTL.as_secs())?, None).await?.id())
}

struct LockService {
    client: Client,
    lease: i64,
    taken: Option<Vec<u8>>,
}

/// Hands that use the lock service, at the member on this port.
pub(super) async fn lock_service(port: u16, hands: usize) -> Result<Vec<AnyHand>> {
    let mut client = connect(port).await?;
    let mut all: Vec<AnyHand> = Vec::new();
    for _ in 0..hands {
        let lease = grant(&mut client).await?;
        all.push(Box::new(LockService { client: client.clone(), lease, taken: None }));
    }
    Ok(all)
}

#[async_trait]
impl Hand for LockService {
    async fn take(&mut self, key: &Key) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease);
        let answer = self.client.lock(format!("lock/{key}"), Some(options)).await?;
        self.taken = Some(answer.key().to_vec());
        Ok(())
    }

    async fn give_back(&mut self) -> Result<()> {
        let key = self.taken.take().context("gave back what it had not taken")?;
        self.client.unlock(key).await?;
        Ok(())
    }

    async fn leave(mut self: Box<Self>) -> Result<()> {
        self.client.lease_revoke(self.lease).await?;
        Ok(())
    }
}

struct CreatedKey {
    client: Client,
    lease: i64,
    /// The key, and the revision that created it.
    taken: Option<(String, i64)>,
}

/// Hands that create a key, at the member on this port.
pub(super) async fn created_key(port: u16, hands: usize) -> Result<Vec<AnyHand>> {
    let mut client = connect(port).await?;
    let mut all: Vec<AnyHand> = Vec::new();
    for _ in 0..hands {
        let lease = grant(&mut client).await?;
        all.push(Box::new(CreatedKey { client: client.clone(), lease, taken: None }));
    }
    Ok(all)
}

#[async_trait]
impl Try for CreatedKey {
    async fn try_take(&mut self, key: &Key) -> Result<bool> {
        let name = format!("created/{key}");
        let is_absent = Compare::create_revision(name.as_str(), CompareOp::Equal, 0);
        let put = TxnOp::put(name.as_str(), "", Some(PutOptions::new().with_lease(self.lease)));
        let answer = self.client.txn(Txn::new().when([is_absent]).and_then([put])).await?;
        let fence = answer.header().context("an answer without a revision")?.revision();
        self.taken = answer.succeeded().then_some((name, fence));
        Ok(answer.succeeded())
    }
}

#[async_trait]
impl Hand for CreatedKey {
    async fn take(&mut self, key: &Key) -> Result<()> {
        poll(self, key).await
    }

    async fn give_back(&mut self) -> Result<()> {
        let (name, fence) = self.taken.take().context("gave back what it had not taken")?;
        let is_ours = Compare::create_revision(name.as_str(), CompareOp::Equal, fence);
        let delete = TxnOp::delete(name.as_str(), None);
        let answer = self.client.txn(Txn::new().when([is_ours]).and_then([delete])).await?;
        ensure!(answer.succeeded(), "somebody else has {name}");
        Ok(())
    }

    async fn leave(mut self: Box<Self>) -> Result<()> {
        self.client.lease_revoke(self.lease).await?;
        Ok(())
    }
}
