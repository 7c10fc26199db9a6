//! Whom a command about locks asks: the store itself; a gateway; or inside a run the supervisor of that run, which acts
//! for it.
//!
//! A command reads its line, asks here, and shows the answer. Which of them it was makes no difference to it.

use bell_api::ask::{ReleaseRequest, RenewRequest};
use bell_api::lock::{ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_client::Client;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_project::stores::Origin;
use tokio::sync::OnceCell;

use crate::answer::{self, Refusal};
use crate::cli::SessionArgs;
use crate::fleet::Reach;
use crate::open::{Access, Opened, Scene};
use crate::project::Located;
use crate::remote;
use crate::say::Say;
use crate::session;
use crate::span::ms;

/// Whom a command asks, and where its answers go.
pub(crate) struct Desk {
    pub(crate) say: Say,
    whom: Whom,
}

enum Whom {
    Store {
        scene: Scene,
        access: Access,
        opened: OnceCell<Opened>,
    },
    Run(Client),
    /// With an API key: what is held is held in sessions.
    Gateway(Client),
}

impl Desk {
    /// The store or the gateway that the command line names; else the run that this process is a part of; else the gateway
    /// that the environment names; else the usual store.
    pub(crate) fn choose(say: &Say, reach: &Reach, access: Access) -> Result<Self, Refusal> {
        let is_store_named = reach.store.as_ref().is_some_and(|store| store.origin == Origin::Flag);
        if !is_store_named
            && !reach.is_named()
            && let Some(client) = this_run()?
        {
            return Ok(Self { say: say.clone(), whom: Whom::Run(client) });
        }
        if let Some(client) = reach.gateway()? {
            return Ok(Self { say: say.clone(), whom: Whom::Gateway(client) });
        }
        let Located { project, stores } = reach.start.stores(reach.store.as_ref())?;
        let scene = Scene::new(say, stores.locks, project);
        Ok(Self { say: scene.say.clone(), whom: Whom::Store { scene, access, opened: OnceCell::new() } })
    }

    /// The supervisor, if this is a part of a run.
    pub(crate) fn run(&self) -> Option<&Client> {
        match &self.whom {
            Whom::Run(client) => Some(client),
            Whom::Gateway(_) | Whom::Store { .. } => None,
        }
    }

    /// The gateway, if one was named.
    pub(crate) fn gateway(&self) -> Option<&Client> {
        match &self.whom {
            Whom::Gateway(client) => Some(client),
            Whom::Run(_) | Whom::Store { .. } => None,
        }
    }

    /// Whoever is asked over HTTP.
    fn there(&self) -> Option<&Client> {
        self.run().or_else(|| self.gateway())
    }

    /// The store, opened once. An agent has none.
    pub(crate) async fn store(&self) -> Result<&Opened, Refusal> {
        match &self.whom {
            Whom::Store { scene, access, opened } => opened.get_or_try_init(|| scene.open(*access)).await,
            Whom::Gateway(_) => Err(Refusal::invalid(
                "could not do this through a gateway: it needs the store itself",
                "Name the store with --store.",
            )),
            Whom::Run(_) => Err(Refusal::new(
                Outcome::Unauthorized,
                "could not do this from inside a run: it is for operators",
                "An operator names the store with --store.",
            )),
        }
    }

    /// A key, with everybody who waits for it.
    pub(crate) async fn show(&self, key: &Key) -> Result<LockAnswer, Refusal> {
        match self.there() {
            Some(client) => Ok(client.show(key.as_str()).await?),
            None => {
                let state = self.store().await?.coord.show(key).await;
                Ok(answer::shown(&state.map_err(Refusal::about(key))?))
            }
        }
    }

    /// Every key that starts so and is held or waited for.
    pub(crate) async fn list(&self, prefix: &str) -> Result<ListAnswer, Refusal> {
        match self.there() {
            Some(client) => Ok(client.list(prefix).await?),
            None => {
                let locks = self.store().await?.backend.list(prefix).await?;
                let locks = locks.iter().map(answer::state).collect();
                Ok(ListAnswer { outcome: Outcome::Listed, locks, more: false })
            }
        }
    }

    /// What to look for changes after.
    pub(crate) async fn revision(&self) -> Result<u64, Refusal> {
        match self.there() {
            Some(client) => Ok(client.revision().await?),
            None => Ok(self.store().await?.coord.revision().await?),
        }
    }

    /// Returns when keys that start so may have changed after that revision.
    pub(crate) async fn changed(&self, prefix: &str, after: u64) -> Result<(), Refusal> {
        match self.there() {
            Some(client) => Ok(client.changed(prefix, after).await.map(|_| ())?),
            None => Ok(self.store().await?.coord.changed(prefix, after).await?),
        }
    }

    /// Makes a lease last its full ttl again.
    pub(crate) async fn renew(&self, lease: &Named<'_>, ttl: Option<Ttl>) -> Result<LockAnswer, Refusal> {
        let Named { key, fence, session } = lease;
        if let Some(client) = self.run() {
            refuse_file(session)?;
            let ttl_ms = ttl.map(|ttl| ms(ttl.length()));
            let fence = fence.map(|fence| fence.0);
            return Ok(client.renew(&RenewRequest { key: key.to_string(), fence, ttl_ms }).await?);
        }
        if let Some(client) = self.gateway() {
            let holder = remote::renewer(client, session.session_file.as_deref(), key, *fence).await?;
            let ttl_ms = ttl.map(|ttl| ms(ttl.length()));
            let fence = fence.map(|fence| fence.0);
            return Ok(holder.renew(&RenewRequest { key: key.to_string(), fence, ttl_ms }).await?);
        }
        let opened = self.store().await?;
        let owner = session::renewer(opened, session.session_file.as_deref(), key, *fence).await?;
        let renewed = opened.coord.renew_key(&owner, key, *fence, ttl).await.map_err(Refusal::about(key))?;
        Ok(answer::lease(Outcome::Renewed, &owner, &renewed))
    }

    /// Gives a lease back.
    pub(crate) async fn release(&self, lease: &Named<'_>) -> Result<LockAnswer, Refusal> {
        let Named { key, fence, session } = lease;
        if let Some(client) = self.run() {
            refuse_file(session)?;
            let fence = fence.map(|fence| fence.0);
            return Ok(client.release(&ReleaseRequest { key: key.to_string(), fence }).await?);
        }
        if let Some(client) = self.gateway() {
            let holder = remote::holder(client, session.session_file.as_deref(), key, *fence).await?;
            let fence = fence.map(|fence| fence.0);
            return Ok(holder.release(&ReleaseRequest { key: key.to_string(), fence }).await?);
        }
        let opened = self.store().await?;
        let owner = session::holder(opened, session.session_file.as_deref(), key, *fence).await?;
        opened.coord.release_key(&owner, key, *fence).await.map_err(Refusal::about(key))?;
        session::released(opened, &owner, key);
        Ok(answer::ended(Outcome::Released, key, *fence))
    }
}

/// Which lease is meant, and whose.
pub(crate) struct Named<'a> {
    pub(crate) key: Key,
    pub(crate) fence: Option<Fence>,
    pub(crate) session: &'a SessionArgs,
}

/// The run that this process is a part of, as its supervisor has set it. A run without its token is nobody's.
pub(crate) fn this_run() -> Result<Option<Client>, Refusal> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(url) = variable("BELL_URL") else { return Ok(None) };
    let Some(token) = variable("BELL_TOKEN") else {
        return Err(Refusal::new(
            Outcome::Unauthorized,
            "could not tell which run this is: BELL_URL is set and BELL_TOKEN is not",
            "Leave both as the supervisor of the run has set them.",
        ));
    };
    Ok(Some(Client::new(&url, &token.into())?))
}

/// Inside a run the run is the session.
pub(crate) fn refuse_file(session: &SessionArgs) -> Result<(), Refusal> {
    if session.session_file.is_none() {
        return Ok(());
    }
    Err(Refusal::invalid(
        "could not use a session file inside a run: the run is the session",
        "Leave --session-file out, or name a store with --store.",
    ))
}
