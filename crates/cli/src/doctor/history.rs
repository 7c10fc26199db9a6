//! Whether a project's store is the one that its daemon knows, and has not gone back.

use std::sync::Arc;

use bell_control::place::Place;
use bell_control::store_history::{StoreHistory, revision};
use bell_store::Store;
use bell_verify::doctor::{Finding, Level};

use super::judge::{finding, with_next};

/// Looks and judges. A store that is not there, or can't be asked, is judged by others, unless a daemon uses it.
pub(super) async fn look(store: Option<&Arc<dyn Store>>, place: &Place, url: &str) -> Option<Finding> {
    let history = StoreHistory::load(place, &bell_locks::open::redacted(url));
    if let Some(trouble) = history.attention(place) {
        let what = format!("the daemon does not use its store: {}", trouble.message);
        return Some(with_next(finding(Level::Broken, "store", what), trouble.hint.unwrap_or_default()));
    }
    let error = history.check(revision(&**store?).await.ok()?).err()?;
    let what = format!("bell up refuses this store: could not {error}");
    Some(with_next(finding(Level::Broken, "store", what), error.advice()))
}

/// What the daemon found about the project's other stores.
pub(super) fn others<'a>(place: &'a Place, url: &str) -> impl Iterator<Item = Finding> + 'a {
    let looked_at = StoreHistory::name_of(&bell_locks::open::redacted(url));
    let others = StoreHistory::all(place).into_iter().filter(move |history| history.store != looked_at);
    others.filter_map(|history| history.attention(place)).map(|trouble| {
        let what = format!("the daemon does not use the store {}: {}", trouble.subject, trouble.message);
        with_next(finding(Level::Broken, "store", what), trouble.hint.unwrap_or_default())
    })
}
