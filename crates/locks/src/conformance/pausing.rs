//! L20 with a real process: paused for longer than its lease, it never writes again.

use super::ground::{Done, Ground, Stop, ensure};
use super::writing::{Guarded, TRIES};

pub(super) async fn a_paused_process_never_writes_again(ground: Ground) -> Done {
    let (key, folder) = (ground.key("a")?, ground.folder()?);
    let place = folder.path().display();
    let mut worker = ground.worker().await?;
    let held: u64 = worker
        .answers(&format!("hold {key} 2000"), "held")
        .await?
        .parse()
        .map_err(|_| Stop::failed("the worker told no fence"))?;
    let before = worker.answers(&format!("write {place}"), "wrote").await?;
    ensure!(before == "2", "{before} of 2 writes were accepted while it held the lock");
    worker.pause()?;
    let successor = ground.party(1)?.wait_for(&key).await?;
    ensure!(successor.fence.0 > held, "fence {} after {held}", successor.fence);
    let mut guarded = Guarded::open(folder.path())?;
    let written = guarded.write(successor.fence, "successor")?;
    ensure!(written == (true, true), "the successor's writes: {written:?}");
    // The orders are there when it wakes up: it writes first and looks at its lease only then.
    worker.order(&format!("write-often {place}"))?;
    worker.order("check")?;
    worker.resume()?;
    let accepted = worker.must_say("wrote").await?;
    ensure!(accepted == "0", "{accepted} stale writes of {TRIES} to each guard were accepted");
    let loss = worker.must_say("lost").await?;
    guarded.shows("successor", 2)?;
    Ok(format!("0 of {TRIES} to a file, 0 of {TRIES} to a database; its own check says «{loss}»"))
}
