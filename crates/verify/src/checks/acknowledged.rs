//! A process that commits is killed in the middle of it.

use std::time::Duration;

use bell_store::Name;
use bell_store::clock::boottime;
use bell_store::info::Limits;

use crate::figures::grouped;
use crate::ground::Ground;
use crate::orders::{Answer, Order};
use crate::process::expect_answer;
use crate::verdict::{Done, ensure};

/// More than this in a round says nothing new.
const PER_ROUND: usize = 300;
const ROUND: Duration = Duration::from_millis(500);

pub(super) async fn run(ground: Ground) -> Done {
    let rounds = ground.many(2, 40);
    let mut all = 0;
    for round in 0..rounds {
        let mut writer = ground.worker().await?;
        let prefix = ground.name(&format!("{round}/")).to_string();
        writer.order(&Order::Stream { prefix }).await?;
        let mut acknowledged: Vec<(Name, u64)> = Vec::new();
        let until = boottime() + ROUND;
        while acknowledged.is_empty() || (acknowledged.len() < PER_ROUND && boottime() < until) {
            let (name, version) = expect_answer!(
                writer.answer().await?,
                Answer::Acknowledged { name, version } => (name, version)
            );
            acknowledged.push((name.into(), version));
        }
        writer.kill().await?;
        let after = ground.another().await?;
        for some in acknowledged.chunks(Limits::CONTRACT.page) {
            let names: Vec<Name> = some.iter().map(|(name, _)| name.clone()).collect();
            let found = after.store.read(&names).await?;
            let lost = some.iter().filter(|(name, version)| found.version(name.as_str()) != *version).count();
            ensure!(
                lost == 0,
                "{lost} of {} acknowledged commits were gone when their process was killed",
                some.len()
            );
        }
        all += acknowledged.len();
    }
    Ok(format!(
        "{rounds} processes were killed while they committed: all of {} acknowledged commits were there afterwards",
        grouped(all as u64)
    ))
}
