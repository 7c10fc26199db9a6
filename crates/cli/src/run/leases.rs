//! Leases that somebody else keeps, for a command inside a run its supervisor, for others a gateway: the library renews
//! them through it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_api::ask::{AcquireRequest, ReleaseRequest, RenewRequest};
use bell_api::lock::{HolderAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_client::{Client, Failure};
use bell_core::session::SessionId;
use bell_gateway::limits::WAIT_MAX;
use bell_locks::{
    Ask, Busy, Capabilities, Cycle, Denied, Fence, Key, Lease, LockBackend, PublicHolder, Session, Ttl,
};
use bell_store::clock::boottime;
use bell_store::{Error, Kind};

use crate::span::ms;

/// Between two tries to renew a lease through a gateway that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Locks in a session of its own, which this client acts in.
pub(super) struct Leases {
    client: Client,
    kept: Kept,
}

/// Who keeps the session alive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The supervisor of the run.
    BySupervisor,
    /// This process. The session outlives a heartbeat by longer than its leases last, so renewing the leases keeps the session alive too.
    ByHeartbeats,
}

impl Leases {
    /// In a session that the run of this client has made for itself.
    pub(super) fn of_run(client: Client) -> Self {
        Self { client, kept: Kept::BySupervisor }
    }

    /// In a session at a gateway.
    pub(super) fn of_gateway(client: Client) -> Self {
        Self { client, kept: Kept::ByHeartbeats }
    }

    async fn try_renew(&self, lease: &Lease) -> Result<Lease, Denied> {
        let ttl_ms = Some(ms(lease.ttl.length()));
        let request = RenewRequest { key: lease.key.to_string(), fence: Some(lease.fence.0), ttl_ms };
        let sent = boottime();
        if self.kept == Kept::ByHeartbeats {
            // A lease ends with its session, so the session is to last at least as long: it is heard of first.
            self.client.heartbeat().await.map_err(denied)?;
        }
        self.client.renew(&request).await.map_err(denied)?;
        Ok(Lease::new(lease.key.clone(), lease.mode, lease.fence, lease.ttl, sent))
    }
}

#[async_trait]
impl LockBackend for Leases {
    fn capabilities(&self) -> Capabilities {
        let scheme = if self.kept == Kept::BySupervisor { "run" } else { "gateway" };
        Capabilities { shared: true, several_keys: true, sessions: true, ..Capabilities::least(scheme) }
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let request = AcquireRequest {
            keys: ask.keys.iter().map(ToString::to_string).collect(),
            mode: ask.mode.into(),
            ttl_ms: Some(ms(ask.ttl.length())),
            wait_ms: ms(ask.wait.min(WAIT_MAX)),
            request_id: ask.request.to_string(),
        };
        let sent = boottime();
        let answer = self.client.acquire(&request).await.map_err(denied)?;
        let named = answer.key.clone().zip(answer.fence);
        let each = answer.keys.iter().map(|one| (one.key.clone(), one.fence));
        let granted = each.chain(named.filter(|_| answer.keys.is_empty()));
        let leases = granted.map(|(key, fence)| Lease::new(key, ask.mode, fence, ask.ttl, sent));
        if ask.wait.is_zero() && self.kept == Kept::BySupervisor {
            return Ok(leases.collect());
        }
        // Nobody knows when in the wait it was granted, nor how long ago the session was made, so its time is counted from
        // a renewal.
        let mut counted = Vec::new();
        for lease in leases {
            counted.push(self.renew(session, &lease).await?);
        }
        Ok(counted)
    }

    async fn renew(&self, _session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        loop {
            match self.try_renew(lease).await {
                // The leases are short, and a gateway that starts again is back before they end.
                Err(Denied::Unavailable(error)) if self.kept == Kept::ByHeartbeats => {
                    if boottime() + RETRY_AFTER >= lease.deadline {
                        return Err(Denied::Unavailable(error));
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                answered => return answered,
            }
        }
    }

    async fn release(&self, _session: &Session, lease: &Lease) -> Result<(), Denied> {
        let request = ReleaseRequest { key: lease.key.to_string(), fence: Some(lease.fence.0) };
        self.client.release(&request).await.map(|_| ()).map_err(denied)
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        Ok(holders(&self.client.show(key.as_str()).await.map_err(denied)?))
    }

    fn scope(&self, _path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        Err(Denied::Invalid("there are no scopes here".to_owned()))
    }

    async fn end_session(&self, _session: &Session) -> Result<(), Denied> {
        self.client.end_session().await.map(|_| ()).map_err(denied)
    }
}

/// A refusal in the words of the library, which the command turns back into an answer.
fn denied(failure: Failure) -> Denied {
    let answer = failure.answer();
    let message = answer.message.clone().unwrap_or_default();
    let busy = |answer: &LockAnswer| {
        let key = answer.key.clone()?;
        let waiting = answer.waiting.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Some(Box::new(Busy { key, holders: holders(answer), waiting, queue_full: false }))
    };
    match (answer.outcome, busy(&answer)) {
        (Outcome::Busy, Some(busy)) => Denied::Busy(busy),
        (Outcome::TimedOut, Some(busy)) => Denied::TimedOut(busy),
        (Outcome::Deadlock, _) => Denied::Deadlock(cycle(&answer.cycle)),
        (Outcome::NotHolder, _) => Denied::NotHolder(holders(&answer)),
        (Outcome::NotHeld, _) => Denied::NotHeld,
        (Outcome::Lost, _) => Denied::Lost(message),
        (Outcome::Limit, _) => Denied::Limit(message),
        (Outcome::Unauthorized, _) => Denied::Unauthorized,
        (Outcome::Unavailable | Outcome::Unreachable, _) => {
            let what = message.strip_prefix("could not ").unwrap_or(&message).to_owned();
            Denied::Unavailable(Error::new(Kind::Unavailable, what))
        }
        _ => Denied::Invalid(message),
    }
}

fn cycle(path: &[String]) -> Cycle {
    let step = |step: &[String]| match step {
        [session, key] => Some((SessionId::from(session.as_str()), Key::parse(key).ok()?)),
        _ => None,
    };
    Cycle::told(path.chunks(2).filter_map(step).collect())
}

fn holders(answer: &LockAnswer) -> Vec<PublicHolder> {
    let ttl = answer.ttl_ms.and_then(|ms| Ttl::new(Duration::from_millis(ms)).ok()).unwrap_or(Ttl::DEFAULT);
    let public = |(holder, fence): (&HolderAnswer, Option<Fence>)| PublicHolder {
        session: holder.session.clone(),
        who: holder.who(),
        mode: holder.mode,
        fence,
        held: Duration::from_millis(holder.held_ms),
        left: Duration::from_millis(holder.left_ms),
        ttl,
    };
    answer.holders().map(public).collect()
}
