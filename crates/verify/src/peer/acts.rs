//! What the two machines do.

use std::time::Duration;

use bell_coord::{Ask, Denied, Lease};
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::store::GuardError;
use bell_locks::locks::this_process;
use bell_store::clock::{boottime, wall};
use bell_store::{Name, Stamp, Txn, Write};
use serde::{Deserialize, Serialize};

use super::meet::Side;
use super::talk::Talk;
use crate::figures::{grouped, ms, percentile};
use crate::ground::{PATIENCE, Party, seconds};
use crate::verdict::{Done, Stop, ensure};

const RACE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(1);
const TTL_S: u64 = 2;
const STALE_WRITES: u32 = 50;
const ECHOES: usize = 20;
/// How much later than its ttl a lease may go over, with all the telling in between.
const LATE: Duration = Duration::from_secs(10);

/// A machine, and by how much its wall clock is ahead of the store's.
#[derive(Serialize, Deserialize)]
struct Clock {
    machine: String,
    ahead_ms: i64,
    unsure_ms: i64,
}

/// Compares the clocks of the two by way of the store's.
pub(super) async fn clocks(talk: &Talk) -> Done {
    let (mine, theirs) = talk.both(clock(talk).await).await?;
    let apart = mine.ahead_ms.abs_diff(theirs.ahead_ms);
    let unsure = mine.unsure_ms.saturating_add(theirs.unsure_ms).unsigned_abs();
    Ok(format!(
        "the wall clocks of {} (here) and {} (there) are {} ms apart, to {} ms; that changes nothing, as the rest shows",
        mine.machine,
        theirs.machine,
        grouped(apart),
        grouped(unsure)
    ))
}

async fn clock(talk: &Talk) -> Result<Clock, Stop> {
    let asked = boottime();
    let shown = talk.handle.store.now().await?;
    let took = boottime().saturating_sub(asked);
    let signed = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let shown_ms = i64::try_from(shown.as_ms()).unwrap_or(i64::MAX);
    let machine = this_process().to_string();
    Ok(Clock { machine, ahead_ms: signed(wall()) - shown_ms, unsure_ms: signed(took) + 1 })
}

/// Both race for a key, and count under it in a record that nothing protects but the lock.
pub(super) async fn race(talk: &Talk) -> Done {
    talk.both(Ok(())).await?;
    let (mine, theirs) = talk.both(turns(talk).await).await?;
    let count = async {
        let (count, _) = counted(talk).await?;
        ensure!(
            count == mine + theirs,
            "{} turns were taken under the lock, {count} were counted",
            mine + theirs
        );
        ensure!(mine > 0 && theirs > 0, "one machine never got the key");
        Ok(())
    };
    talk.both(count.await).await?;
    Ok(format!(
        "the key was had {} times here and {} times there, never by both at once; every fence was greater than the one before",
        grouped(mine),
        grouped(theirs)
    ))
}

async fn turns(talk: &Talk) -> Result<u64, Stop> {
    let (party, key, until) = (talk.handle.party()?, key("raced")?, boottime() + RACE);
    let mut turns = 0_u64;
    while boottime() < until {
        let wait = if turns.is_multiple_of(2) { PATIENCE } else { Duration::ZERO };
        match party.ask(Ask::new(key.clone()).wait(wait)).await {
            Ok(lease) => {
                inside(talk, lease.fence).await?;
                party.release(&lease).await?;
                turns += 1;
            }
            Err(Denied::Busy(_)) => tokio::time::sleep(PAUSE).await,
            Err(other) => return Err(other.into()),
        }
    }
    Ok(turns)
}

/// What only one may do at a time.
async fn inside(talk: &Talk, fence: Fence) -> Result<(), Stop> {
    let (count, before) = counted(talk).await?;
    ensure!(fence > before, "fence {fence} was granted after {before}");
    write(talk, "raced", fence, "the holder itself").await?;
    let text = format!("{} {fence}", count + 1).into_bytes();
    let writes = vec![(count_name(talk), Write::Put(text, Stamp::New))];
    talk.handle.store.commit(Txn { writes, ..Txn::default() }).await?;
    Ok(())
}

async fn counted(talk: &Talk) -> Result<(u64, Fence), Stop> {
    let name = count_name(talk);
    let seen = talk.handle.store.read(std::slice::from_ref(&name)).await?;
    let Some(record) = seen.records.get(&name) else { return Ok((0, Fence(0))) };
    let text = String::from_utf8_lossy(&record.value);
    let numbers =
        text.split_once(' ').and_then(|(count, fence)| Some((count.parse().ok()?, fence.parse().ok()?)));
    let (count, fence) = numbers.ok_or_else(|| Stop::failed(format!("the count reads {text:?}")))?;
    Ok((count, Fence(fence)))
}

fn count_name(talk: &Talk) -> Name {
    talk.handle.name("count")
}

/// Each in turn takes a key and goes silent; the other takes over and writes, and then the first tries to write.
pub(super) async fn expiry(talk: &Talk) -> Done {
    let mut over = Vec::new();
    for holder in [Side::First, Side::Second] {
        let took = silent_holder(talk, holder).await?;
        over.push(format!("{} after {}", if holder == talk.side { "there" } else { "here" }, ms(took)));
    }
    Ok(format!(
        "a lease of {TTL_S} s went over {}, never while its holder relied on it; then the old holder wrote 0 of \
         {STALE_WRITES} times",
        over.join(" and ")
    ))
}

/// One round. How long after the holder had told of its lease the other had the key.
async fn silent_holder(talk: &Talk, holder: Side) -> Result<Duration, Stop> {
    let (party, name) = (talk.handle.party()?, format!("{holder:?}").to_lowercase());
    let key = key(&name)?;
    let held = if talk.side == holder { Some(take(talk, &party, &key, &name).await) } else { None };
    let fence = held.as_ref().and_then(|held| held.as_ref().ok()).map(|lease| lease.fence);
    let lease = held.transpose();
    let (mine, theirs) = talk.both(lease.as_ref().map(|_| fence).map_err(again)).await?;
    let lease = lease?;
    let old = mine.or(theirs).ok_or_else(|| Stop::not_run("nobody told a fence"))?;
    let told = match &lease {
        Some(lease) => relied_on(&party, lease).await.map(|()| None),
        None => take_over(talk, &party, &key, &name, old).await.map(Some),
    };
    let successor = told.as_ref().ok().and_then(Option::as_ref).map(|(lease, _)| lease.clone());
    let told = told.map(|told| told.map(|(_, took)| took));
    let (mine, theirs) = talk.both(told).await?;
    let took = mine.or(theirs).unwrap_or_default();
    let last = match (&lease, &successor) {
        (Some(lease), _) => is_stale(talk, &party, lease, &name).await,
        (None, _) => Ok(()),
    };
    talk.both(last).await?;
    let last = match successor {
        Some(lease) => {
            async {
                party.sees_held(&key, lease.fence).await?;
                party.release(&lease).await
            }
            .await
        }
        None => Ok(()),
    };
    talk.both(last).await?;
    Ok(took)
}

async fn take(talk: &Talk, party: &Party, key: &Key, name: &str) -> Result<Lease, Stop> {
    let lease = party.take_for(key, seconds(TTL_S)?).await?;
    write(talk, name, lease.fence, "the holder").await?;
    Ok(lease)
}

/// As long as the holder may rely on its lease, nobody else has the key.
async fn relied_on(party: &Party, lease: &Lease) -> Result<(), Stop> {
    loop {
        let holders = party.holders(&lease.key).await?;
        if boottime() >= lease.deadline {
            return Ok(());
        }
        let is_own = holders.iter().any(|holder| holder.fence == Some(lease.fence));
        ensure!(is_own, "the lease was over {} before its holder's own deadline", ms(lease.trusted_for()));
        tokio::time::sleep(PAUSE * 10).await;
    }
}

async fn take_over(
    talk: &Talk,
    party: &Party,
    key: &Key,
    name: &str,
    old: Fence,
) -> Result<(Lease, Duration), Stop> {
    let began = boottime();
    let lease = party.wait_for(key).await?;
    let took = boottime().saturating_sub(began);
    ensure!(lease.fence > old, "fence {} was granted after {old}", lease.fence);
    ensure!(took < Duration::from_secs(TTL_S) + LATE, "the key was free only after {}", ms(took));
    write(talk, name, lease.fence, "the successor").await?;
    Ok((lease, took))
}

/// What the old holder does now comes too late.
async fn is_stale(talk: &Talk, party: &Party, lease: &Lease, name: &str) -> Result<(), Stop> {
    for _ in 0..STALE_WRITES {
        match talk.handle.guard().write(name, lease.fence, b"stale").await {
            Err(GuardError::Stale(_)) => {}
            Ok(()) => return Err(Stop::failed("a stale write was accepted")),
            Err(GuardError::Store(error)) => return Err(error.into()),
        }
    }
    ensure!(party.renew(lease).await.is_err(), "a lease that had gone over was renewed");
    // Told or not, it must change nothing: the successor looks next.
    let _ = party.locks.release(&party.session, lease).await;
    Ok(())
}

async fn write(talk: &Talk, resource: &str, fence: Fence, who: &str) -> Result<(), Stop> {
    match talk.handle.guard().write(resource, fence, who.as_bytes()).await {
        Ok(()) => Ok(()),
        Err(GuardError::Stale(stale)) => Err(Stop::failed(format!("{who} was {stale}"))),
        Err(GuardError::Store(error)) => Err(error.into()),
    }
}

/// How long it takes until both know what both have told.
pub(super) async fn echo(talk: &Talk) -> Done {
    let mut took = Vec::new();
    for _ in 0..ECHOES {
        let began = boottime();
        talk.both(Ok(())).await?;
        took.push(boottime().saturating_sub(began));
    }
    let (half, most) = (percentile(&mut took, 50), percentile(&mut took, 99));
    Ok(format!("{ECHOES} times both told and were told: p50 {}, p99 {}", ms(half), ms(most)))
}

fn key(name: &str) -> Result<Key, Stop> {
    Key::parse(&format!("verify://peer/{name}")).map_err(|error| Stop::not_run(error.to_string()))
}

fn again(stop: &Stop) -> Stop {
    Stop { verdict: stop.verdict, why: stop.why.clone() }
}
