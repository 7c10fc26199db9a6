//! What a process does over and over: write, commit, wait, pass a key on.

use std::time::Duration;

use bell_coord::Ask;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::store::{GuardError, StoreGuard};
use bell_store::clock::boottime;
use bell_store::{Name, Outcome, Stamp, Store, Txn, Watch, Write};

use crate::ground::Party;
use crate::orders::{Answer, Turn, us};
use crate::verdict::Stop;

/// Longer than any queue of a run is.
const IN_LINE: Duration = Duration::from_secs(60);

/// Writes a guarded value this often; how many of the writes were accepted.
pub(super) async fn write(guard: &StoreGuard, resource: &str, fence: Fence, times: u32) -> Result<u32, Stop> {
    let mut accepted = 0;
    for _ in 0..times {
        match guard.write(resource, fence, format!("fence {fence}").as_bytes()).await {
            Ok(()) => accepted += 1,
            Err(GuardError::Stale(_)) => {}
            Err(GuardError::Store(error)) => return Err(error.into()),
        }
    }
    Ok(accepted)
}

/// Takes a key and gives it back until then, always through the queue.
pub(super) async fn relay(party: &Party, key: &Key, until: Duration) -> Result<Answer, Stop> {
    let mut turns = Vec::new();
    while boottime() < until {
        let lease = party.ask(Ask::new(key.clone()).wait(IN_LINE)).await?;
        let granted_us = us(boottime());
        // The others get into the line meanwhile.
        tokio::time::sleep(Duration::from_millis(2)).await;
        turns.push(Turn { fence: lease.fence, granted_us, released_us: us(boottime()) });
        party.release(&lease).await?;
    }
    Ok(Answer::Relayed { turns })
}

/// Commits one record after the other, and tells each that was acknowledged. Ends only by a failure, or with
/// its process.
pub(super) async fn stream(store: &dyn Store, prefix: &str, tell: impl Fn(&Answer)) -> Result<Answer, Stop> {
    for number in 0_u64.. {
        let name = format!("{prefix}{number}");
        let writes = vec![(name.clone().into(), put(number))];
        match store.commit(Txn { writes, ..Txn::default() }).await? {
            Outcome::Committed(done) => tell(&Answer::Acknowledged { name, version: done.revision }),
            Outcome::Conflict(_) => {
                return Err(Stop::failed("a commit that expected nothing was in conflict"));
            }
        }
    }
    Err(Stop::not_run("there are no more numbers"))
}

/// Commits the same number to all these records until then.
pub(super) async fn fill(store: &dyn Store, names: Vec<String>, until: Duration) -> Result<Answer, Stop> {
    let names: Vec<Name> = names.into_iter().map(Name::from).collect();
    let mut commits = 0;
    while boottime() < until {
        commits += 1;
        let writes = names.iter().map(|name| (name.clone(), put(commits))).collect();
        store.commit(Txn { writes, ..Txn::default() }).await?;
    }
    Ok(Answer::Filled { commits })
}

/// Waits until a record has another version than this.
pub(super) async fn wait(store: &dyn Store, name: Name, version: u64) -> Result<Answer, Stop> {
    let watch = Watch::Names(vec![(name.clone(), version)]);
    loop {
        store.changed(&watch).await?;
        let at_us = us(boottime());
        // It may return for no reason.
        if store.read(std::slice::from_ref(&name)).await?.version(name.as_str()) != version {
            return Ok(Answer::Changed { at_us });
        }
    }
}

fn put(number: u64) -> Write {
    Write::Put(number.to_be_bytes().to_vec(), Stamp::New)
}
