//! Many processes race for one key, and count under it in a plain file.

use std::time::Duration;

use crate::figures::grouped;
use crate::ground::Ground;
use crate::orders::{Answer, Order, us};
use crate::process::expect_answer;
use crate::verdict::{Done, ensure};
use crate::worker::race::read_count;

pub(super) async fn run(ground: Ground) -> Done {
    let (key, folder) = (ground.key("raced")?, ground.folder()?);
    let mut racers = ground.workers(ground.many(6, 16)).await?;
    let until_us = us(ground.until(Duration::from_secs(6)));
    let path = folder.path().to_path_buf();
    for racer in &mut racers {
        racer.order(&Order::Race { key: key.clone(), until_us, folder: path.clone() }).await?;
    }
    let mut turns = 0;
    for racer in &mut racers {
        turns += expect_answer!(racer.answer().await?, Answer::Raced { turns } => turns);
    }
    let (count, last) = read_count(folder.path())?;
    ensure!(count == turns, "{turns} turns were taken under the lock, and {count} were counted");
    ensure!(turns > 0, "nobody got the key");
    let next = ground.party()?.take(&key).await?.fence;
    ensure!(next > last, "fence {next} after {last}");
    Ok(format!(
        "{} processes had the key {} times in all, never two at once; every fence was greater than the one before, \
         every guarded write of a holder was accepted",
        racers.len(),
        grouped(turns)
    ))
}
