//! Looking without touching: show, list, watch. Nothing here commits.

use bell_core::inspect::{LockState, inspect};
use bell_core::key::Key;
use bell_core::time::Revision;
use bell_core::view::{Changes, Missing, Seen, View};
use bell_store::{Name, Snapshot, Watch};

use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;

/// One page of a listing.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Keys that are held or waited for, in order.
    pub locks: Vec<LockState>,
    /// The last key looked at, if there are more.
    pub next: Option<Key>,
    /// What has changed after this revision is not in it.
    pub revision: Revision,
}

impl Coord {
    /// The state of one key.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn show(&self, key: &Key) -> Result<LockState, Denied> {
        let look = |view: &View| inspect(view, key).map(|state| (state, Changes::default()));
        let done = self.transact(Loaded::default(), look).await?;
        if done.loaded.view.sessions.is_empty() {
            return Ok(done.answer);
        }
        // Read one after the other, a lock and its holder's session may show a hand-over as a free key.
        Ok(self.confirm(done.loaded, look).await?.0)
    }

    /// The keys that start with `prefix` (empty: all) and come after `after`, at most `limit` looked at.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Listing, Denied> {
        let locks = self.space().locks();
        // No key has a control character, so this is the first name after that of the key.
        let from = after.map_or_else(String::new, |key| format!("{locks}{key}\u{1}"));
        let page = self.store().scan(&format!("{locks}{prefix}"), &from, limit).await?;
        let key_of = |name: &Name| Key::parse(name.as_str().strip_prefix(&locks)?).ok();
        let keys: Vec<Key> = page.records.keys().filter_map(key_of).collect();
        let next = keys.last().filter(|_| page.more).cloned();
        let mut loaded = self.load_page(&keys, &page).await?;
        let mut found = Vec::new();
        for key in &keys {
            let state = loop {
                match inspect(&loaded.view, key) {
                    Ok(state) => break state,
                    Err(missing) => self.load(&mut loaded, &missing).await?,
                }
            };
            if !state.holders.is_empty() || !state.waiting.is_empty() {
                found.push(state);
            }
        }
        Ok(Listing { locks: found, next, revision: page.revision })
    }

    /// The locks of a page, with every session that appears in them.
    async fn load_page(&self, keys: &[Key], page: &Snapshot) -> Result<Loaded, Denied> {
        let mut loaded = Loaded::default();
        let locks = Missing { locks: keys.iter().cloned().collect(), ..Missing::default() };
        self.take_in(&mut loaded, &locks, page)?;
        let mut sessions = Missing::default();
        for lock in loaded.view.locks.values().filter_map(Seen::get) {
            sessions.sessions.extend(lock.holders.iter().map(|holder| holder.session.clone()));
            sessions.sessions.extend(lock.queue.iter().map(|waiter| waiter.session.clone()));
        }
        self.load(&mut loaded, &sessions).await?;
        Ok(loaded)
    }

    /// Returns when something about the keys that start with `prefix` has changed since `after`. It may
    /// return for no reason. An expiry is no change: nothing is written when a lease runs out.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn changed(&self, prefix: &str, after: Revision) -> Result<(), Denied> {
        let watch = Watch::Prefix(format!("{}{prefix}", self.space().locks()), after);
        Ok(self.store().changed(&watch).await?)
    }

    /// The store's current revision, to watch from.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn revision(&self) -> Result<Revision, Denied> {
        Ok(self.store().read(&[]).await?.revision)
    }
}
