//! A backend of another make: locks on something shaped like Redis, without any store of Bellwether.
//!
//! Three commands carry it: `SET key value NX PX ttl`, `INCR` of a fence that is never reset, and scripts
//! that compare before they delete or extend. What it can't do (share, queue, list, break …) it does not
//! claim. `tests/conformance_example.rs` tries it with the conformance suite.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bell_locks::{Ask, Busy, Capabilities, Denied, Fence, Key, Lease, LockBackend, Mode};
use bell_locks::{PublicHolder, Session, Ttl};
use bell_store::clock::boottime;

/// The server. In its values `held` and `left` are moments: since when, and until when.
#[derive(Default)]
struct Server {
    values: HashMap<String, PublicHolder>,
    counters: HashMap<String, u64>,
}

impl Server {
    /// `GET`: what has expired is not there.
    fn get(&self, name: &str) -> Option<PublicHolder> {
        let (value, now) = (self.values.get(name)?.clone(), boottime());
        Some(PublicHolder { held: now - value.held, left: value.left.checked_sub(now)?, ..value })
    }

    /// `SET NX PX` with `INCR`, as one script: set if free, extended if the caller's. Its fence and age.
    fn set(&mut self, name: &str, by: &Session, ttl: Ttl) -> Result<(Fence, Duration), Vec<PublicHolder>> {
        let (now, held) = (boottime(), self.get(name));
        if let Some(other) = held.as_ref().filter(|holder| holder.session != *by.id()) {
            return Err(vec![other.clone()]);
        }
        let counter = self.counters.entry(name.to_owned()).or_default();
        *counter += u64::from(held.is_none());
        let (fence, age) = (Some(Fence(*counter)), held.map_or(Duration::ZERO, |holder| holder.held));
        let (session, who, left) = (by.id().clone(), by.who().clone(), now + ttl.length());
        let value = PublicHolder { session, who, mode: Mode::Exclusive, fence, held: now - age, ttl, left };
        self.values.insert(name.to_owned(), value);
        Ok((Fence(*counter), age))
    }

    /// What the other scripts begin with: is it that very lease?
    fn compare(&self, name: &str, by: &Session, fence: Fence) -> Result<(), Denied> {
        let holder = self.get(name).ok_or(Denied::NotHeld)?;
        let is_same = holder.session == *by.id() && holder.fence == Some(fence);
        if is_same { Ok(()) } else { Err(Denied::NotHolder(vec![holder])) }
    }
}

/// Locks on such a server. Cheap to clone: a clone is another connection.
#[derive(Clone, Default)]
pub struct RedisShaped {
    server: Arc<Mutex<Server>>,
    scope: String,
}

impl RedisShaped {
    /// Runs a script: nothing comes in between.
    fn script<T>(&self, key: &Key, run: impl FnOnce(&mut Server, &str) -> T) -> T {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        run(&mut server, &format!("{}{key}", self.scope))
    }
}

#[async_trait]
impl LockBackend for RedisShaped {
    fn capabilities(&self) -> Capabilities {
        Capabilities::least("redis-shaped")
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let ([key], Mode::Exclusive) = (ask.keys.as_slice(), ask.mode) else {
            return Err(Denied::Invalid("it takes one key, exclusively".to_owned()));
        };
        let give_up = boottime() + ask.wait;
        loop {
            let sent = boottime();
            let holders = match self.script(key, |server, name| server.set(name, session, ask.ttl)) {
                Ok((fence, held)) => {
                    let mut lease = Lease::new(key.clone(), ask.mode, fence, ask.ttl, sent);
                    (lease.held, lease.already_held) = (held, !held.is_zero());
                    return Ok(vec![lease]);
                }
                Err(holders) => holders,
            };
            let busy = Box::new(Busy { key: key.clone(), holders, waiting: 0, queue_full: false });
            match ask.wait.is_zero() {
                true => return Err(Denied::Busy(busy)),
                false if boottime() >= give_up => return Err(Denied::TimedOut(busy)),
                false => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        let (sent, Lease { key, mode, fence, ttl, .. }) = (boottime(), lease);
        self.script(key, |server, name| {
            server.compare(name, session, *fence)?;
            server.set(name, session, *ttl).map_err(Denied::NotHolder)
        })?;
        Ok(Lease::new(key.clone(), *mode, *fence, *ttl, sent))
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        let compared = self.script(&lease.key, |server, name| {
            server.compare(name, session, lease.fence).inspect(|()| drop(server.values.remove(name)))
        });
        match compared {
            Err(Denied::NotHolder(by)) if by[0].session != *session.id() => Err(Denied::NotHolder(by)),
            _over_now_or_before => Ok(()),
        }
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        Ok(self.script(key, |server, name| server.get(name)).into_iter().collect())
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::new(Self { scope: format!("{}@{path}/", self.scope), ..self.clone() }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = RedisShaped::default();
    bell_locks::register("redis-shaped", move |_address| Ok(Arc::new(server.clone())));
    let one = bell_locks::Locks::open("redis-shaped:localhost").await?;
    let two = bell_locks::Locks::open("redis-shaped:localhost").await?;
    let ask = || Key::parse("deploy://api-prod").map(Ask::new);
    let held = one.lock(ask()?).await?;
    println!("one holds it with fence {}", held.fence());
    if let Err(denied) = two.lock(ask()?).await {
        println!("two: {denied}");
    }
    held.release().await?;
    println!("two holds it with fence {}", two.lock(ask()?).await?.fence());
    Ok(())
}
