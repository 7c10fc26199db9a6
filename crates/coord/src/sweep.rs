//! Ending sessions by name, and clearing away what dead ones left.
//!
//! Nothing waits for this: what has run out is free at read time. It keeps the store from filling with
//! records of processes that crashed.

use bell_core::end::{Faded, end_session, fade};
use bell_core::key::Key;
use bell_core::session::{Session as Record, SessionId};
use bell_core::time::Timestamp;
use bell_core::view::View;
use bell_store::info::Limits;

use crate::Coord;
use crate::denied::Denied;
use crate::load::{Loaded, decode};

/// Keys of an ending session that are released in one commit: two writes each, and room for grants.
const KEYS_PER_COMMIT: usize = 24;

impl Coord {
    /// Ends every session that has run out or whose process is dead, and those that nobody keeps alive and
    /// that have had nothing for a while. Answers how many.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn sweep(&self) -> Result<usize, Denied> {
        let prefix = self.space().sessions();
        let mut from = String::new();
        let mut ended = 0;
        loop {
            let page = self.store().scan(&prefix, &from, Limits::CONTRACT.page).await?;
            for (name, record) in &page.records {
                let session: Record = decode(name, &record.value)?;
                let id = SessionId::from(name.as_str().trim_start_matches(prefix.as_str()));
                if self.is_dead(&id, &session, page.now) {
                    self.end_by_id(&id).await?;
                } else if session.expires.is_some() || !self.fade(&id).await? {
                    continue;
                }
                self.store().presence().forget(id.as_str());
                ended += 1;
            }
            match page.records.keys().next_back() {
                Some(last) if page.more => from = format!("{last}\u{1}"),
                _ => return Ok(ended),
            }
        }
    }

    fn is_dead(&self, id: &SessionId, session: &Record, now: Timestamp) -> bool {
        !session.is_live(now) || self.store().presence().is_gone(id.as_str())
    }

    /// Whether a session that nobody keeps alive has ended, having had nothing for a while.
    async fn fade(&self, id: &SessionId) -> Result<bool, Denied> {
        let held = self.held_keys(id, KEYS_PER_COMMIT).await?;
        let faded = self.transact(Loaded::default(), |view| fade(view, id, &held)).await?.answer;
        if faded == Faded::Ended {
            self.end_by_id(id).await?;
        }
        Ok(faded == Faded::Ended)
    }

    /// Ends a session by its name. The first commit ends the session itself, and with it every lease; the
    /// rest is cleaning.
    pub(crate) async fn end_by_id(&self, id: &SessionId) -> Result<(), Denied> {
        loop {
            let held = self.held_keys(id, KEYS_PER_COMMIT).await?;
            let end = |view: &View| end_session(view, id, &held);
            let done = self.transact(Loaded::default(), end).await?;
            if held.is_empty() || done.committed.is_none() {
                return Ok(());
            }
        }
    }

    pub(crate) async fn held_keys(&self, id: &SessionId, limit: usize) -> Result<Vec<Key>, Denied> {
        let prefix = self.space().held_of(id);
        let page = self.store().scan(&prefix, "", limit).await?;
        let names = page.records.keys().filter_map(|name| name.as_str().strip_prefix(&prefix));
        Ok(names.filter_map(|text| Key::parse(text).ok()).collect())
    }
}
