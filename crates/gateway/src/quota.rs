//! How many locks a session, and everything of one caller, may hold, so that one greedy caller does not fill the store.
//!
//! A caller is a run, or an API key with all sessions that were made with it on this node. What a session may be holding is
//! remembered here, and looked up in the store only when that seems too much. Keys that are being asked for count as held
//! until the answer is there, so that requests which are under way together do not go over a limit.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_coord::{Coord, Denied, Session};
use bell_core::key::Key;
use bell_core::session::SessionId;

use crate::limits::HELD_MAX;
use crate::refusal::Refusal;

/// Sessions of one caller that are looked up in the store before it is refused: those that seem to hold most. Leases that
/// ran out are found so, and a caller who is refused again and again costs no more than this each time.
const LOOKED_UP_MAX: usize = 16;

/// After so long somebody may have given something back.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Who a session counts for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Account {
    /// The run that this process supervises.
    Run,
    /// The API key of this name.
    Key(String),
    /// The session alone: this node does not know which key it was made with.
    Session(SessionId),
}

impl Account {
    fn words(&self) -> String {
        match self {
            Self::Run => "this run".to_owned(),
            Self::Key(name) => format!("the key {name}"),
            Self::Session(_) => "this session".to_owned(),
        }
    }
}

/// What each session may be holding: at least what it holds. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quota {
    ledger: Arc<Mutex<Ledger>>,
    /// Locks that one account may hold.
    most: usize,
}

#[derive(Default)]
struct Ledger {
    sessions: HashMap<SessionId, Holding>,
    totals: HashMap<Account, usize>,
}

struct Holding {
    account: Account,
    keys: HashSet<Key>,
    /// Those of them that are being asked for: the store need not have them yet.
    pending: HashSet<Key>,
}

/// Keys that are being asked for. Dropped, those that were not granted are given back.
pub(crate) struct Reserved {
    quota: Quota,
    session: SessionId,
    fresh: Vec<Key>,
}

impl Reserved {
    /// The keys were granted.
    pub(crate) fn granted(mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.quota.lock().settle(&self.session, &fresh);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.fresh.is_empty() {
            let mut ledger = self.quota.lock();
            self.fresh.iter().for_each(|key| ledger.remove(&self.session, key));
        }
    }
}

impl Quota {
    /// Quotas of callers that may hold so many locks each.
    pub(crate) fn new(most: usize) -> Self {
        Self { ledger: Arc::default(), most }
    }

    /// Counts these keys for a session, if it may hold them too.
    pub(crate) async fn reserve(
        &self,
        coord: &Coord,
        session: &Session,
        account: Account,
        keys: &[Key],
    ) -> Result<Reserved, Refusal> {
        let fresh = match self.try_reserve(session.id(), &account, keys) {
            Ok(fresh) => fresh,
            Err(_) => {
                self.look_up(coord, session.id(), &account).await?;
                self.try_reserve(session.id(), &account, keys).map_err(|over| over.refusal(&account))?
            }
        };
        Ok(Reserved { quota: self.clone(), session: session.id().clone(), fresh })
    }

    /// A session gave this back.
    pub(crate) fn released(&self, session: &SessionId, key: &Key) {
        self.lock().remove(session, key);
    }

    /// A session has ended.
    pub(crate) fn ended(&self, session: &SessionId) {
        self.lock().end(session);
    }

    /// The keys that were not counted before.
    fn try_reserve(&self, session: &SessionId, account: &Account, keys: &[Key]) -> Result<Vec<Key>, Over> {
        let mut ledger = self.lock();
        let held = ledger.sessions.get(session).map(|holding| &holding.keys);
        let fresh: Vec<Key> =
            keys.iter().filter(|key| held.is_none_or(|held| !held.contains(*key))).cloned().collect();
        if held.map_or(0, HashSet::len) + fresh.len() > HELD_MAX {
            return Err(Over::Session);
        }
        if ledger.totals.get(account).copied().unwrap_or(0) + fresh.len() > self.most {
            return Err(Over::Account(self.most));
        }
        fresh.iter().for_each(|key| ledger.add(session, account, key.clone()));
        Ok(fresh)
    }

    /// Asks the store what this session holds, and those of the account that seem to hold most.
    async fn look_up(&self, coord: &Coord, session: &SessionId, account: &Account) -> Result<(), Denied> {
        let largest = self.lock().largest(account);
        for id in std::iter::once(session.clone()).chain(largest.into_iter().filter(|id| id != session)) {
            let held = coord.keys_of(&id, HELD_MAX).await?;
            self.lock().replace(&id, held);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn add(&mut self, session: &SessionId, account: &Account, key: Key) {
        let holding = self.sessions.entry(session.clone());
        let new = || Holding { account: account.clone(), keys: HashSet::new(), pending: HashSet::new() };
        let holding = holding.or_insert_with(new);
        holding.pending.insert(key.clone());
        if holding.keys.insert(key) {
            *self.totals.entry(holding.account.clone()).or_default() += 1;
        }
    }

    fn settle(&mut self, session: &SessionId, granted: &[Key]) {
        if let Some(holding) = self.sessions.get_mut(session) {
            holding.pending.retain(|key| !granted.contains(key));
        }
    }

    fn remove(&mut self, session: &SessionId, key: &Key) {
        let Some(holding) = self.sessions.get_mut(session) else { return };
        holding.pending.remove(key);
        if holding.keys.remove(key) {
            let account = holding.account.clone();
            self.subtract(&account, 1);
        }
    }

    fn end(&mut self, session: &SessionId) {
        if let Some(holding) = self.sessions.remove(session) {
            self.subtract(&holding.account, holding.keys.len());
        }
    }

    fn replace(&mut self, session: &SessionId, held: Vec<Key>) {
        let Some(holding) = self.sessions.get_mut(session) else { return };
        let all = held.into_iter().chain(holding.pending.iter().cloned()).collect();
        let before = std::mem::replace(&mut holding.keys, all).len();
        let (account, now) = (holding.account.clone(), holding.keys.len());
        *self.totals.entry(account.clone()).or_default() += now;
        self.subtract(&account, before);
    }

    fn subtract(&mut self, account: &Account, count: usize) {
        if let Some(total) = self.totals.get_mut(account) {
            *total = total.saturating_sub(count);
            if *total == 0 {
                self.totals.remove(account);
            }
        }
    }

    fn largest(&self, account: &Account) -> Vec<SessionId> {
        let of_account = self.sessions.iter().filter(|(_, holding)| holding.account == *account);
        let mut all: Vec<_> = of_account.map(|(id, holding)| (holding.keys.len(), id)).collect();
        let count = LOOKED_UP_MAX.min(all.len());
        if count < all.len() {
            all.select_nth_unstable_by_key(count, |(held, _)| Reverse(*held));
        }
        all.into_iter().take(count).map(|(_, id)| id.clone()).collect()
    }
}

/// Which limit is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    Session,
    Account(usize),
}

impl Over {
    fn refusal(self, account: &Account) -> Refusal {
        let (who, most) = match self {
            Self::Session => ("this session".to_owned(), HELD_MAX),
            Self::Account(most) => (account.words(), most),
        };
        Refusal::limit(
            format!("could not take another lock: {who} holds {most}, and that is the most"),
            "Release some, or lock something coarser.",
        )
        .after(AGAIN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bell_coord::{Ask, Keep};
    use bell_core::session::Identity;
    use bell_store::memory::Memory;

    use super::*;

    fn coord() -> Coord {
        Coord::new(Arc::new(Memory::new()))
    }

    fn session() -> Session {
        Session::new(Identity::default(), Keep::Elsewhere).unwrap()
    }

    fn keys(range: std::ops::Range<usize>) -> Vec<Key> {
        range.map(|number| Key::parse(&format!("job:{number}")).unwrap()).collect()
    }

    fn ci() -> Account {
        Account::Key("ci".to_owned())
    }

    #[tokio::test]
    async fn all_sessions_of_one_key_share_its_limit_and_those_of_another_are_unharmed() {
        let (coord, quota) = (coord(), Quota::new(4));
        let (one, two) = (session(), session());
        quota.reserve(&coord, &one, ci(), &keys(0..2)).await.unwrap().granted();
        let waiting = quota.reserve(&coord, &two, ci(), &keys(2..3)).await.unwrap();
        // What was granted is in the store.
        for key in keys(0..2) {
            coord.acquire(&one, &Ask::new(key)).await.unwrap();
        }
        let refused = quota.reserve(&coord, &two, ci(), &keys(4..6)).await.map(drop).unwrap_err();
        assert_eq!(refused.status.as_u16(), 429);
        let words = refused.answer.message.unwrap();
        assert_eq!(words, "could not take another lock: the key ci holds 4, and that is the most");
        let other = Account::Key("other".to_owned());
        quota.reserve(&coord, &session(), other, &keys(4..8)).await.unwrap().granted();
        drop(waiting);
        quota.reserve(&coord, &two, ci(), &keys(4..6)).await.unwrap().granted();
        quota.ended(one.id());
        quota.reserve(&coord, &two, ci(), &keys(6..8)).await.unwrap();
    }

    #[tokio::test]
    async fn leases_that_are_over_make_room_without_being_given_back() {
        let (coord, quota) = (coord(), Quota::new(3));
        let (one, two) = (session(), session());
        quota.reserve(&coord, &one, Account::Run, &keys(0..3)).await.unwrap().granted();
        // The store knows of none of them.
        quota.reserve(&coord, &two, Account::Run, &keys(3..6)).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_session_holds_already_counts_once() {
        let (coord, quota) = (coord(), Quota::new(2));
        let one = session();
        quota.reserve(&coord, &one, Account::Run, &keys(0..2)).await.unwrap().granted();
        drop(quota.reserve(&coord, &one, Account::Run, &keys(0..2)).await.unwrap());
        quota.released(one.id(), &keys(0..1)[0]);
        quota.released(one.id(), &keys(0..1)[0]);
        quota.reserve(&coord, &one, Account::Run, &keys(5..6)).await.unwrap();
    }
}
