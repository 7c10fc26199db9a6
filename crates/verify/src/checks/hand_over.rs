//! Processes that pass one key on to each other, through its queue.

use std::time::Duration;

use crate::figures::{grouped, ms, percentile};
use crate::ground::Ground;
use crate::orders::{Answer, Order, Turn, us};
use crate::process::expect_answer;
use crate::verdict::{Done, ensure};

const PROCESSES: usize = 4;

/// A hand-over that usually takes this long is none: its waiter was not woken.
const WOKEN: Duration = Duration::from_secs(2);

pub(super) async fn run(ground: Ground) -> Done {
    let key = ground.key("passed-on")?;
    let mut runners = ground.workers(ground.many(PROCESSES, PROCESSES * 2)).await?;
    let until_us = us(ground.until(Duration::from_secs(2)));
    for runner in &mut runners {
        runner.order(&Order::Relay { key: key.clone(), until_us }).await?;
    }
    let mut turns: Vec<(usize, Turn)> = Vec::new();
    for (process, runner) in runners.iter_mut().enumerate() {
        let relayed = expect_answer!(runner.answer().await?, Answer::Relayed { turns } => turns);
        turns.extend(relayed.into_iter().map(|turn| (process, turn)));
    }
    turns.sort_by_key(|(_, turn)| turn.fence);
    let passed = |pair: &[(usize, Turn)]| {
        let (from, to) = (&pair[0], &pair[1]);
        let took = to.1.granted_us.saturating_sub(from.1.released_us);
        (from.0 != to.0).then(|| Duration::from_micros(took))
    };
    let mut passed: Vec<Duration> = turns.windows(2).filter_map(passed).collect();
    ensure!(!passed.is_empty(), "the key was passed on by nobody in {} turns", turns.len());
    let (half, most) = (percentile(&mut passed, 50), percentile(&mut passed, 99));
    ensure!(
        half < WOKEN,
        "half of {} hand-overs took {} or more: waiters are not woken",
        passed.len(),
        ms(half)
    );
    Ok(format!(
        "{} hand-overs between {} processes, from before the release to the answer of the next: p50 {}, p99 {}",
        grouped(passed.len() as u64),
        runners.len(),
        ms(half),
        ms(most)
    ))
}
