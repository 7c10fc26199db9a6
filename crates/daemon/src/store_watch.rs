//! Whether each store is still the one that it was: checked at the start, then now and then while the daemon runs.
//!
//! A store refuses by itself what its process can know. What an earlier process knew is in [`StoreHistory`].

use std::sync::Arc;
use std::time::Duration;

use bell_control::place::Place;
use bell_control::store_history::{StoreHistory, revision};
use bell_coord::work::wall_now;
use bell_store::info::Durability;
use bell_store::{Error, Store};

use crate::site::Site;

/// How often the store is asked how far it is. After a daemon was killed, an older copy that lacks less than this goes
/// unnoticed.
const EVERY: Duration = Duration::from_secs(2);

/// Refuses a store that is behind what a daemon of this project has seen. Answers what is known of it now.
pub(crate) async fn check(store: &dyn Store, place: &Place, url: &str) -> Result<StoreHistory, Error> {
    let url = bell_locks::open::redacted(url);
    // What ends with its process begins again with each.
    let is_new = store.info().durability == Durability::Volatile;
    let history = if is_new { StoreHistory::new(&url) } else { StoreHistory::load(place, &url) };
    let revision = revision(store).await?;
    history.check(revision)?;
    let history = history.after(Ok(revision), wall_now());
    save(&history, place);
    Ok(history)
}

/// Asks a store until dropped, and writes down what it says.
pub(crate) async fn keep_watch(store: Arc<dyn Store>, place: Place, mut history: StoreHistory) {
    loop {
        tokio::time::sleep(EVERY).await;
        let answer = revision(&*store).await;
        let answer = answer.and_then(|revision| history.check(revision).map(|()| revision));
        let next = history.clone().after(answer.as_ref().copied(), wall_now());
        if next.trouble != history.trouble {
            match &next.trouble {
                Some(trouble) => tracing::error!(hint = trouble.hint, "{}", trouble.message),
                None => tracing::info!(store = next.store, "the store takes commits again"),
            }
        }
        if next != history {
            save(&next, &place);
            history = next;
        }
    }
}

/// Writes down how far each store is at the end.
pub(crate) async fn note_end(site: &Site) {
    for (coord, url) in site.stores() {
        let history = StoreHistory::load(&site.place, &bell_locks::open::redacted(url));
        let answer = revision(&**coord.store()).await;
        save(&history.after(answer.as_ref().copied(), wall_now()), &site.place);
    }
}

fn save(history: &StoreHistory, place: &Place) {
    if let Err(error) = history.save(place) {
        tracing::warn!(%error, "could not write down how far the store is");
    }
}
