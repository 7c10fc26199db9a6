//! A process takes leases and leaves them to their ttl; this one watches when they are free.

use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::MIN_MARGIN;
use bell_store::clock::boottime;
use bell_store::txn::MAX_LAG;

use crate::figures::ms;
use crate::ground::{Ground, LOOK_EVERY, seconds};
use crate::orders::{Answer, Order};
use crate::process::expect_answer;
use crate::verdict::{Done, Stop, ensure};

/// How much earlier than its ttl, counted from before its request left, a lease may be seen as free: it counts from
/// the moment on the store's clock that it was decided for. Its holder keeps more than that in reserve.
const EARLY: Duration = MAX_LAG;
const _: () = assert!(EARLY.as_millis() < MIN_MARGIN.as_millis());

/// How much later than its ttl a lease may be seen as free. The clock of a busy server may be read late, and
/// this machine may be busy too.
const LATE: Duration = Duration::from_secs(5);

/// A lease that was left to its ttl.
struct Left {
    key: Key,
    ttl: Duration,
    sent: Duration,
    answered: Duration,
}

pub(super) async fn run(ground: Ground) -> Done {
    let mut holder = ground.worker().await?;
    let mut left = Vec::new();
    for number in 0..ground.many(3, 30) {
        // Of different lengths, so that not all end at the same time.
        let ttl = seconds(1 + number as u64 % 3)?;
        let key = ground.key(&format!("left-{number}"))?;
        let take = Order::Take { key: key.clone(), ttl, wait: Duration::ZERO };
        let (sent_us, answered_us) = expect_answer!(
            holder.ask(&take).await?,
            Answer::Taken { sent_us, answered_us, .. } => (sent_us, answered_us)
        );
        let moment = Duration::from_micros;
        left.push(Left { key, ttl: ttl.length(), sent: moment(sent_us), answered: moment(answered_us) });
    }
    let mut over: Vec<f64> = Vec::new();
    while !left.is_empty() {
        let mut still = Vec::new();
        for lease in left {
            match seen(&ground, &lease).await? {
                Some(after) => over.push(after),
                None => still.push(lease),
            }
        }
        left = still;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let least = over.iter().copied().fold(f64::INFINITY, f64::min);
    let most = over.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(format!(
        "{} leases of 1 to 3 s were seen as free {least:+.1} to {most:+.1} ms from the end of their ttl, none while its \
         holder could rely on it",
        over.len(),
    ))
}

/// Looks at a lease. How many milliseconds after its ttl it was seen as free, counted from before its request left;
/// `None`: it is still held.
async fn seen(ground: &Ground, lease: &Left) -> Result<Option<f64>, Stop> {
    let asked = boottime();
    let is_free = ground.handle().locks.is_held(&lease.key).await?.is_empty();
    let now = boottime();
    let end = lease.sent + lease.ttl;
    if is_free {
        let early = end.saturating_sub(now);
        ensure!(early <= EARLY, "a lease of {} was free {} early", ms(lease.ttl), ms(early));
        return Ok(Some((now.as_secs_f64() - end.as_secs_f64()) * 1_000.0));
    }
    let late = asked.saturating_sub(lease.answered + lease.ttl);
    ensure!(late <= LATE, "a lease of {} was still held {} after its end", ms(lease.ttl), ms(late));
    Ok(None)
}
