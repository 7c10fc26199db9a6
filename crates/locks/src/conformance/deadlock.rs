//! L8: a wait that would never end is refused, and no other.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::deadlock::Cycle;
use bell_core::key::Key;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ground::{Done, Ground, PATIENCE, Party, Stop, ensure, expects};

pub(super) async fn a_cycle_of_two_is_refused_with_its_path(ground: Ground) -> Done {
    cycle_is_refused(&ground, 2).await
}

pub(super) async fn a_cycle_of_three_is_refused_with_its_path(ground: Ground) -> Done {
    cycle_is_refused(&ground, 3).await
}

pub(super) async fn a_cycle_of_ten_is_refused_with_its_path(ground: Ground) -> Done {
    cycle_is_refused(&ground, 10).await
}

/// Parties that each hold a key; each is going to want the next one's.
async fn ring(ground: &Ground, name: &str, size: usize) -> Result<(Vec<Party>, Vec<Key>), Stop> {
    let parties = ground.parties(size)?;
    let mut keys = Vec::new();
    for (number, party) in parties.iter().enumerate() {
        let key = ground.key(&format!("{name}/{number}"))?;
        party.take(&key).await?;
        keys.push(key);
    }
    Ok((parties, keys))
}

async fn cycle_is_refused(ground: &Ground, size: usize) -> Done {
    let (parties, keys) = ring(ground, "ring", size).await?;
    let mut waiting = JoinSet::new();
    for number in 0..size - 1 {
        let (party, wanted) = (parties[number].clone(), keys[number + 1].clone());
        let own = keys[number].clone();
        waiting.spawn(want(party, own, wanted.clone()));
        ground.until_waiting(&wanted, 1).await?;
    }
    let last = &parties[size - 1];
    let answer = last.ask(Ask::new(keys[0].clone()).wait(PATIENCE)).await;
    let cycle = expects!(answer, Err(Denied::Deadlock(cycle)) => cycle, "a deadlock");
    // The refused one first, then whoever holds what it wants, and so on round the ring.
    let mut expected = vec![last.session.id().to_string(), keys[0].to_string()];
    for number in 0..size - 1 {
        expected.extend([parties[number].session.id().to_string(), keys[number + 1].to_string()]);
    }
    ensure!(cycle.path() == expected, "the path is {:?}, not {expected:?}", cycle.path());
    last.release(&last.take(&keys[size - 1]).await?).await?;
    while let Some(done) = waiting.join_next().await {
        ensure!(done??.is_none(), "a second member of the cycle was refused");
    }
    Ok(format!("a path of {size} sessions; the others were served"))
}

/// Waits for a key while holding another, and lets go of both: `None`. Refused, it lets go of its own and
/// answers with the cycle.
async fn want(party: Party, own: Key, wanted: Key) -> Result<Option<Cycle>, Stop> {
    let answer = party.ask(Ask::new(wanted).wait(PATIENCE)).await;
    let held = party.take(&own).await?;
    party.release(&held).await?;
    match answer {
        Ok(lease) => {
            party.release(&lease).await?;
            Ok(None)
        }
        Err(Denied::Deadlock(cycle)) => Ok(Some(cycle)),
        Err(other) => Err(other.into()),
    }
}

pub(super) async fn of_those_who_close_a_cycle_at_once_exactly_one_is_refused(ground: Ground) -> Done {
    let sizes = [2, 2, 2, 3, 3, 10];
    for (round, size) in sizes.into_iter().enumerate() {
        let (parties, keys) = ring(&ground, &format!("round-{round}"), size).await?;
        let start = Arc::new(Barrier::new(size));
        let mut wanting = JoinSet::new();
        for (number, party) in parties.into_iter().enumerate() {
            let (own, wanted) = (keys[number].clone(), keys[(number + 1) % size].clone());
            let start = Arc::clone(&start);
            wanting.spawn(async move {
                start.wait().await;
                want(party, own, wanted).await
            });
        }
        let mut refused = Vec::new();
        while let Some(done) = wanting.join_next().await {
            refused.extend(done??);
        }
        ensure!(refused.len() == 1, "{} of a ring of {size} were refused", refused.len());
        let path = refused[0].steps().len();
        ensure!(path == size, "a path of {path} sessions in a ring of {size}");
    }
    Ok(format!("rings of {sizes:?}, one refused in each"))
}

pub(super) async fn who_no_longer_waits_is_in_no_cycle(ground: Ground) -> Done {
    let (parties, keys) = ring(&ground, "ring", 2).await?;
    let briefly = |key: &Key| Ask::new(key.clone()).wait(Duration::from_millis(300));
    // One gives up, one is dropped; then the other waits for it.
    expects!(parties[0].ask(briefly(&keys[1])).await, Err(Denied::TimedOut(_)) => (), "timed out");
    expects!(parties[1].ask(briefly(&keys[0])).await, Err(Denied::TimedOut(_)) => (), "timed out");
    let waiting = tokio::time::timeout(
        Duration::from_millis(300),
        parties[0].ask(Ask::new(keys[1].clone()).wait(PATIENCE)),
    );
    ensure!(waiting.await.is_err(), "a held key was granted");
    let give_up = bell_store::clock::boottime() + PATIENCE;
    loop {
        // What was dropped leaves in the background; until then it still waits.
        match parties[1].ask(briefly(&keys[0])).await {
            Err(Denied::TimedOut(_)) => {
                return Ok("no false deadlock after giving up or being dropped".to_owned());
            }
            Err(Denied::Deadlock(_)) if bell_store::clock::boottime() < give_up => {}
            other => return Err(Stop::failed(format!("expected timed out, got {other:?}"))),
        }
    }
}
