//! What a program does with a lock: it takes it, acts while it may rely on it, renews it, gives it back or forgets to.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Lease, Session};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use tokio::time::sleep;

use crate::journal::Event;
use crate::process::Process;
use crate::setting::keys;
use crate::sink::send;
use crate::world::World;

/// Somebody with a session.
pub(crate) struct Holder<'a> {
    pub(crate) world: &'a Arc<World>,
    pub(crate) process: &'a Arc<Process>,
    pub(crate) coord: &'a Coord,
    pub(crate) session: &'a Session,
}

impl Holder<'_> {
    /// Takes some of the keys, uses them, and mostly gives them back.
    pub(crate) async fn use_some(&self) -> Result<(), Denied> {
        let chance = &self.process.chance;
        let mut leases = self.take().await?;
        if chance.one_in(3) {
            // While it holds the others: two who do so can wait for each other.
            leases.extend(self.take().await.unwrap_or_default());
        }
        for _ in 0..chance.between(1, 3) {
            for lease in &leases {
                self.act(lease).await;
            }
            sleep(chance.ms(50, 1_000)).await;
            if chance.one_in(2) {
                for lease in &mut leases {
                    *lease = self.coord.renew(self.session, lease).await?;
                }
            }
        }
        for lease in &leases {
            if !chance.one_in(6) {
                self.coord.release(self.session, lease).await?;
            }
        }
        Ok(())
    }

    /// Takes one or two of the keys, waiting for them or not.
    async fn take(&self) -> Result<Vec<Lease>, Denied> {
        let chance = &self.process.chance;
        let mut wanted: Vec<Key> = vec![chance.pick(&keys()).clone()];
        if chance.one_in(4) {
            wanted.push(chance.pick(&keys()).clone());
        }
        let ttl = Ttl::new(chance.ms(1_000, 5_000)).unwrap_or(Ttl::MIN);
        let wait = if chance.one_in(3) { Duration::ZERO } else { chance.ms(500, 6_000) };
        let ask = Ask::all(wanted).ttl(ttl).wait(wait);
        let taken = self.coord.acquire(self.session, &ask).await;
        if let Err(Denied::Deadlock(cycle)) = &taken {
            self.world
                .server
                .note("deadlock refused", || format!("{}: {:?}", self.process.name, cycle.path()));
        }
        taken
    }

    /// Whether this process has heard that an operator broke the lease.
    async fn was_broken(&self, lease: &Lease) -> bool {
        let broken = self.session.revocations();
        tokio::select! {
            biased;
            _ = broken.of(&lease.key, lease.fence) => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Does something that only the holder may do, if this process may still rely on the lease. What is sent to the
    /// sink leaves a moment later: a process can be stopped in between, and find out too late.
    async fn act(&self, lease: &Lease) {
        if lease.trusted_for().is_zero() || self.session.is_over() || self.was_broken(lease).await {
            return;
        }
        let (key, fence) = (lease.key.clone(), lease.fence);
        let acted = Event::Acted { key: key.clone(), session: self.session.id().clone(), fence };
        self.world.server.happened(self.process, &acted);
        let chance = &self.process.chance;
        sleep(chance.ms(0, 40)).await;
        let on_its_way = if chance.one_in(5) { chance.ms(100, 8_000) } else { chance.ms(0, 20) };
        send(self.world, self.process, key, fence, on_its_way);
    }
}
