//! L6: first come, first served; and nobody dead in the way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_coord::{Ask, Denied, Lease};
use bell_core::key::Key;
use bell_store::clock::boottime;
use tokio::task::JoinHandle;

use super::ground::{Done, Ground, PATIENCE, Party, Stop, ensure, expects};

const WAITERS: usize = 20;

/// Turns of each of two that pass a key to and fro.
const TURNS: usize = 150;

/// A wait that takes this long was ended by something else than the one wake-up it was for.
const LOST: Duration = Duration::from_secs(3);

/// This machine may be busy enough to make one wait that long.
const TRIES: usize = 3;

/// A party that waits in the background; its answer comes with the party, which keeps its session alive.
type Waiting = JoinHandle<(Party, Result<Lease, Denied>)>;

fn wait_aside(party: Party, ask: Ask) -> Waiting {
    tokio::spawn(async move {
        let answer = party.ask(ask).await;
        (party, answer)
    })
}

fn patient(key: &Key) -> Ask {
    Ask::new(key.clone()).wait(PATIENCE)
}

/// The holder of a key with two waiters behind it, in this order.
struct Line {
    key: Key,
    holder: Party,
    lease: Lease,
    first: Party,
    second: Waiting,
}

impl Line {
    /// Lines up; `first` waits by what `ask` makes, and the caller gets its wait.
    async fn up<W>(ground: &Ground, wait: impl FnOnce(Party, Key) -> W) -> Result<(Self, W), Stop> {
        let key = ground.key("a")?;
        let (holder, first, second) = (ground.party(0)?, ground.party(1)?, ground.party(2)?);
        let lease = holder.take(&key).await?;
        let waiting = wait(first.clone(), key.clone());
        ground.until_waiting(&key, 1).await?;
        let second = wait_aside(second, patient(&key));
        ground.until_waiting(&key, 2).await?;
        Ok((Self { key, holder, lease, first, second }, waiting))
    }

    /// Releases the key; the second waiter must get it.
    async fn second_is_served(self) -> Result<Lease, Stop> {
        self.holder.release(&self.lease).await?;
        let (party, answer) = self.second.await?;
        let lease = answer?;
        ensure!(lease.fence > self.lease.fence, "fence {} after {}", lease.fence, self.lease.fence);
        party.sees_held(&self.key, lease.fence).await?;
        Ok(lease)
    }
}

pub(super) async fn a_waiter_gets_the_key_when_it_is_released(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let first = one.take(&key).await?;
    let waiting = wait_aside(two, patient(&key));
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensure!(!waiting.is_finished(), "the waiter has an answer while the key is held");
    let released = boottime();
    one.release(&first).await?;
    let (_two, answer) = waiting.await?;
    let lease = answer?;
    let took = boottime() - released;
    ensure!(lease.fence > first.fence, "fence {} after {}", lease.fence, first.fence);
    Ok(format!("granted {} ms after the release began", took.as_millis()))
}

pub(super) async fn no_wake_up_is_lost(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let mut slowest = Vec::new();
    for _ in 0..TRIES {
        let (one, two) = (ground.party(0)?, ground.party(1)?);
        let (one, two) = tokio::join!(take_turns(one, &key), take_turns(two, &key));
        let took = one?.max(two?);
        slowest.push(took.as_millis());
        if took < LOST {
            return Ok(format!(
                "passed on {} times, the longest wait took {} ms",
                2 * TURNS,
                took.as_millis()
            ));
        }
    }
    Err(Stop::failed(format!("a waiter slept on while the key was its own: {slowest:?} ms at the longest")))
}

/// Takes turns with somebody else who does the same. The longest wait.
async fn take_turns(party: Party, key: &Key) -> Result<Duration, Stop> {
    let mut longest = Duration::ZERO;
    for _ in 0..TURNS {
        let asked = boottime();
        let lease = party.wait_for(key).await?;
        longest = longest.max(boottime() - asked);
        party.release(&lease).await?;
    }
    Ok(longest)
}

pub(super) async fn waiters_are_served_in_the_order_they_came(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let holder = ground.party(0)?;
    let lease = holder.take(&key).await?;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (place, party) in ground.parties(WAITERS)?.into_iter().enumerate() {
        let (served, ask) = (Arc::clone(&served), patient(&key));
        waiting.push(tokio::spawn(async move {
            let lease = party.ask(ask).await?;
            served.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            party.release(&lease).await
        }));
        ground.until_waiting(&key, place + 1).await?;
    }
    holder.release(&lease).await?;
    for waiter in waiting {
        waiter.await??;
    }
    let served = served.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(served.is_sorted(), "served in the order {served:?}");
    Ok(format!("{WAITERS} waiters, in order"))
}

pub(super) async fn nobody_overtakes_a_waiter(ground: Ground) -> Done {
    let (line, first) = Line::up(&ground, |party, key| wait_aside(party, patient(&key))).await?;
    let newcomer = ground.party(0)?;
    let key = line.key.clone();
    // However often it asks, it must not get in between a release and those who wait.
    let pushing = tokio::spawn(async move {
        let give_up = boottime() + Duration::from_secs(2);
        while boottime() < give_up {
            newcomer.is_refused(&key).await?;
            tokio::task::yield_now().await;
        }
        Ok::<_, Stop>(())
    });
    line.holder.release(&line.lease).await?;
    let (first, answer) = first.await?;
    first.release(&answer?).await?;
    let (_second, answer) = line.second.await?;
    answer?;
    pushing.await??;
    Ok("a newcomer asked for 2 s and was refused each time".to_owned())
}

pub(super) async fn a_waiter_that_gives_up_does_not_block_those_behind_it(ground: Ground) -> Done {
    // Long enough for the other to come behind it on a busy machine.
    let give_up = |party: Party, key: Key| wait_aside(party, Ask::new(key).wait(PATIENCE / 4));
    let (line, first) = Line::up(&ground, give_up).await?;
    let (_first, answer) = first.await?;
    expects!(answer, Err(Denied::TimedOut(_)) => (), "timed out");
    ground.until_waiting(&line.key, 1).await?;
    line.second_is_served().await?;
    Ok("timed out, left the queue, and the next was served".to_owned())
}

pub(super) async fn a_dropped_waiter_does_not_block_those_behind_it(ground: Ground) -> Done {
    let (line, first) = Line::up(&ground, |party, key| wait_aside(party, patient(&key))).await?;
    first.abort();
    ground.until_waiting(&line.key, 1).await?;
    line.second_is_served().await?;
    Ok("dropped, left the queue, and the next was served".to_owned())
}

pub(super) async fn a_waiter_whose_session_ended_is_not_granted_and_does_not_block(ground: Ground) -> Done {
    let (line, first) = Line::up(&ground, |party, key| wait_aside(party, patient(&key))).await?;
    ground.handle(2).end_session(&line.first.session).await?;
    line.second_is_served().await?;
    let (_first, answer) = first.await?;
    match answer {
        Err(Denied::Lost(why)) => Ok(format!("told «lost: {why}», and the next was served")),
        other => Err(Stop::failed(format!("the waiter of an ended session got {other:?}"))),
    }
}

pub(super) async fn a_waiter_that_calls_again_keeps_its_place(ground: Ground) -> Done {
    let request = bell_coord::new_request();
    let (line, first) =
        Line::up(&ground, |party, key| wait_aside(party, patient(&key).request(request.clone()))).await?;
    let again = wait_aside(line.first.clone(), patient(&line.key).request(request));
    tokio::time::sleep(Duration::from_millis(300)).await;
    ground.until_waiting(&line.key, 2).await?;
    line.holder.release(&line.lease).await?;
    let ((_, one), (party, other)) = (first.await?, again.await?);
    let (one, other) = (one?, other?);
    ensure!(one.fence == other.fence, "one request got fences {} and {}", one.fence, other.fence);
    ensure!(!line.second.is_finished(), "the one behind was served as well");
    party.release(&one).await?;
    line.second.await?.1?;
    Ok(format!("both calls got fence {}, before the one behind", one.fence))
}

pub(super) async fn a_shared_request_does_not_overtake_an_exclusive_waiter(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (reader, writer, late) = (ground.party(0)?, ground.party(1)?, ground.party(2)?);
    let reading = reader.ask(Ask::new(key.clone()).shared()).await?;
    let writing = wait_aside(writer, patient(&key));
    ground.until_waiting(&key, 1).await?;
    expects!(late.ask(Ask::new(key.clone()).shared()).await, Err(Denied::Busy(_)) => (), "busy");
    let late_reading = wait_aside(late, patient(&key).shared());
    ground.until_waiting(&key, 2).await?;
    reader.release(&reading).await?;
    let (writer, lease) = writing.await?;
    let lease = lease?;
    ensure!(!late_reading.is_finished(), "the late reader was served beside the writer");
    writer.release(&lease).await?;
    late_reading.await?.1?;
    Ok("the writer was not starved".to_owned())
}
