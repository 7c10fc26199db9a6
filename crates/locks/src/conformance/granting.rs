//! L2 and L4: who may hold a key at the same time, and taking it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::lock::Mode;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ground::{Done, Ground, PATIENCE, Stop, ensure, seconds};

const RACERS: usize = 16;
const ROUNDS: usize = 5;

pub(super) async fn an_exclusive_lease_keeps_everybody_else_out(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let holder = ground.party(0)?;
    let lease = holder.take(&key).await?;
    for number in 0..3 {
        ground.party(number)?.is_refused(&key).await?;
    }
    holder.release(&lease).await?;
    ground.party(1)?.take(&key).await?;
    Ok("refused on every handle, granted after the release".to_owned())
}

pub(super) async fn shared_leases_coexist_with_shared_ones_only(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let shared = || Ask::new(key.clone()).shared();
    let (one, two, three) = (ground.party(0)?, ground.party(1)?, ground.party(2)?);
    let (first, second) = (one.ask(shared()).await?, two.ask(shared()).await?);
    ensure!(first.mode == Mode::Shared && second.mode == Mode::Shared, "a shared request got another mode");
    let busy = three.is_refused(&key).await?;
    ensure!(busy.holders.len() == 2, "two share the key, {} are told of", busy.holders.len());
    one.release(&first).await?;
    three.is_refused(&key).await?;
    two.release(&second).await?;
    three.take(&key).await?;
    match one.ask(shared()).await {
        Err(Denied::Busy(_)) => Ok("shared beside shared, never beside exclusive".to_owned()),
        other => Err(Stop::failed(format!("a shared request beside an exclusive lease: {other:?}"))),
    }
}

pub(super) async fn a_race_has_one_winner(ground: Ground) -> Done {
    for round in 0..ROUNDS {
        let key = ground.key(&format!("round-{round}"))?;
        let start = Arc::new(Barrier::new(RACERS));
        let mut racers = JoinSet::new();
        for party in ground.parties(RACERS)? {
            let (start, ask) = (Arc::clone(&start), Ask::new(key.clone()));
            racers.spawn(async move {
                start.wait().await;
                let answer = party.ask(ask).await;
                (party, answer)
            });
        }
        // Everybody stays until all are answered: an early end would free the key for a late racer.
        let mut answers = Vec::new();
        while let Some(answer) = racers.join_next().await {
            answers.push(answer?);
        }
        let winners = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
        ensure!(winners == 1, "{winners} of {RACERS} won in round {round}");
        let odd = answers.iter().find(|(_, answer)| !matches!(answer, Ok(_) | Err(Denied::Busy(_))));
        ensure!(odd.is_none(), "a loser was not told busy: {:?}", odd.map(|(_, answer)| answer));
    }
    Ok(format!("{ROUNDS} races of {RACERS}"))
}

pub(super) async fn of_many_who_wait_one_at_a_time_is_inside(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for party in ground.parties(RACERS)? {
        let (inside, ask) = (Arc::clone(&inside), Ask::new(key.clone()).wait(PATIENCE));
        tasks.spawn(async move {
            let lease = party.ask(ask).await?;
            let others = inside.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            party.release(&lease).await?;
            ensure!(others == 0, "{others} were inside already");
            Ok(lease.fence)
        });
    }
    let mut fences = std::collections::BTreeSet::new();
    while let Some(fence) = tasks.join_next().await {
        fences.insert(fence??);
    }
    ensure!(fences.len() == RACERS, "{} different fences for {RACERS} grants", fences.len());
    Ok(format!("{RACERS} waited, each was inside alone"))
}

pub(super) async fn taking_a_held_key_again_gives_the_same_lease(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let first = party.take(&key).await?;
    let again = party.take(&key).await?;
    ensure!(again.fence == first.fence, "fence {} became {}", first.fence, again.fence);
    ensure!(again.already_held && !first.already_held, "the second grant is not marked as already held");
    ensure!(again.held >= first.held, "held since later than before");
    party.sees_held(&key, first.fence).await?;
    Ok(format!("fence {} twice", first.fence))
}

pub(super) async fn one_release_frees_a_key_taken_twice(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    one.take(&key).await?;
    let again = one.take(&key).await?;
    one.release(&again).await?;
    two.sees_free(&key).await?;
    two.take(&key).await?;
    Ok("free after one release".to_owned())
}

pub(super) async fn taking_a_held_key_again_refreshes_its_ttl(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let first = party.take_for(&key, seconds(60)?).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = left(&ground, &key).await?;
    let again = party.take_for(&key, seconds(60)?).await?;
    let after = left(&ground, &key).await?;
    ensure!(after > before, "{after:?} are left, {before:?} were before");
    ensure!(again.deadline > first.deadline, "the holder's deadline did not move");
    Ok(format!("{} ms left, then {} ms", before.as_millis(), after.as_millis()))
}

async fn left(ground: &Ground, key: &bell_core::key::Key) -> Result<Duration, Stop> {
    let holders = ground.party(1)?.holders(key).await?;
    holders.first().map(|holder| holder.left).ok_or_else(|| Stop::failed("nobody holds the key"))
}
