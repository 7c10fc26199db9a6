//! A process that wants a key which others want too, and does under it what only one may do at a time.
//!
//! The witness is on this machine's disk, where nothing protects it but the lock: a file that says that
//! somebody is inside, and a count with the fence of whoever counted last. A guarded value in the store itself
//! is written too.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use bell_coord::{Ask, Denied, Lease};
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::store::{GuardError, StoreGuard};
use bell_store::clock::boottime;

use crate::ground::Party;
use crate::orders::Answer;
use crate::verdict::{Stop, ensure};

/// Longer than any queue of a run is.
const IN_LINE: Duration = Duration::from_secs(60);
/// Between two tries of one who does not queue.
const PAUSE: Duration = Duration::from_millis(1);
/// What is guarded.
const RESOURCE: &str = "raced";
/// The count with the fence before it.
pub(crate) const COUNT: &str = "count";
const INSIDE: &str = "inside";

/// Takes its turns until then.
pub(super) async fn run(
    party: &Party,
    guard: &StoreGuard,
    key: &Key,
    until: Duration,
    folder: &Path,
) -> Result<Answer, Stop> {
    let mut turns = 0;
    while boottime() < until {
        let Some(lease) = take(party, key, turns, until).await? else { break };
        inside(guard, lease.fence, turns, folder).await?;
        party.release(&lease).await.map_err(|stop| Stop {
            why: format!("the holder could not give the key back: {}", stop.why),
            ..stop
        })?;
        turns += 1;
    }
    Ok(Answer::Raced { turns })
}

/// In the queue, or by asking again and again: both ways are taken, since they meet in all combinations then.
async fn take(party: &Party, key: &Key, turn: u64, until: Duration) -> Result<Option<Lease>, Stop> {
    let wait = if turn.is_multiple_of(4) { IN_LINE } else { Duration::ZERO };
    loop {
        match party.ask(Ask::new(key.clone()).wait(wait)).await {
            Ok(lease) => return Ok(Some(lease)),
            Err(Denied::Busy(_)) if boottime() < until => tokio::time::sleep(PAUSE).await,
            Err(Denied::Busy(_)) => return Ok(None),
            Err(other) => return Err(other.into()),
        }
    }
}

async fn inside(guard: &StoreGuard, fence: Fence, turn: u64, folder: &Path) -> Result<(), Stop> {
    let mark = folder.join(INSIDE);
    match fs::File::create_new(&mark) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Stop::failed(format!(
                "two processes had the key at once, this one with fence {fence}"
            )));
        }
        Err(error) => return Err(error.into()),
    }
    let (count, before) = read_count(folder)?;
    ensure!(fence > before, "a process got fence {fence} after another had got {before}");
    if turn.is_multiple_of(5) {
        // Long enough for whoever should not be here to come in.
        tokio::time::sleep(PAUSE).await;
    }
    match guard.write(RESOURCE, fence, b"inside").await {
        Ok(()) => {}
        Err(GuardError::Stale(stale)) => return Err(Stop::failed(format!("the holder itself was {stale}"))),
        Err(GuardError::Store(error)) => return Err(error.into()),
    }
    fs::write(folder.join(COUNT), format!("{} {fence}", count + 1))?;
    Ok(fs::remove_file(mark)?)
}

/// How many have counted, and the fence of the last.
pub(crate) fn read_count(folder: &Path) -> Result<(u64, Fence), Stop> {
    let text = match fs::read_to_string(folder.join(COUNT)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, Fence(0))),
        Err(error) => return Err(error.into()),
    };
    let numbers =
        text.split_once(' ').and_then(|(count, fence)| Some((count.parse().ok()?, fence.parse().ok()?)));
    // Two that write at once leave a mixture.
    let (count, fence) = numbers.ok_or_else(|| Stop::failed("two processes counted at once"))?;
    Ok((count, Fence(fence)))
}
