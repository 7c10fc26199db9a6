//! The scenes with processes that share locks and nothing else.

use std::path::Path;
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Coord;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_store::clock::boottime;

use super::Story;
use super::cast::Actor;
use super::role::Order;
use crate::span::words;

const AT_ONCE: Duration = Duration::ZERO;
/// Longer than any scene: who waits that long was forgotten.
const PATIENTLY: Duration = Duration::from_secs(20);
const LONG_TTL: Duration = Duration::from_secs(60);
const SHORT_TTL: Duration = Duration::from_secs(2);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) type Played = Result<(), String>;

/// Plays all scenes. Stops at the first in which something else happens than is told.
pub(super) async fn play(story: &mut Story, coord: &Coord, url: &str, folder: &Path) -> Played {
    crash(story, coord, url).await?;
    pause(story, url, folder).await?;
    deadlock(story, coord, url).await
}

/// Two want one lock; the one that has it is killed.
async fn crash(story: &mut Story, coord: &Coord, url: &str) -> Played {
    let key = key("deploy://api-prod")?;
    story.scene("Two processes want deploy://api-prod");
    let (mut first, mut second) = (Actor::enter("first", url)?, Actor::enter("second", url)?);
    let fence = fence(&first.must(&acquire(&key, LONG_TTL, AT_ONCE)?, Outcome::Granted).await?)?;
    story.tell(format!("process {} has it, with fence {fence}", first.pid));
    let busy = second.must(&acquire(&key, LONG_TTL, AT_ONCE)?, Outcome::Busy).await?;
    let holder = busy.holder.and_then(|holder| holder.pid);
    check(holder == Some(first.pid), || format!("the holder should be process {}", first.pid))?;
    story.tell(format!(
        "process {} is refused at once and told who has it: process {}",
        second.pid, first.pid
    ));

    story.scene("The holder crashes");
    second.order(&acquire(&key, LONG_TTL, PATIENTLY)?).await?;
    until_waiting(coord, &key).await?;
    story
        .tell(format!("process {} waits; the lease of process {} has a minute to go", second.pid, first.pid));
    let killed = boottime();
    first.kill()?;
    let later = self::fence(&second.must_answer(Outcome::Granted).await?)?;
    let took = boottime().saturating_sub(killed);
    check(later > fence, || format!("fence {later} should be above {fence}"))?;
    check(took < LONG_TTL, || "the lease ran out before the crash was noticed".to_owned())?;
    story.tell(format!(
        "process {} is killed; {} later process {} has the lock, with fence {later}",
        first.pid,
        words(took),
        second.pid
    ));
    Ok(())
}

/// A holder sleeps through the end of its lease, and wakes up.
async fn pause(story: &mut Story, url: &str, folder: &Path) -> Played {
    let (key, path) = (key("file:///report.txt")?, folder.join("report.txt"));
    story.scene("A holder sleeps through the end of its lease, and writes when it wakes up");
    let (mut first, mut second) = (Actor::enter("sleeper", url)?, Actor::enter("successor", url)?);
    let old = fence(&first.must(&acquire(&key, SHORT_TTL, AT_ONCE)?, Outcome::Granted).await?)?;
    first.must(&write(&key, &path, "first\n"), Outcome::Written).await?;
    story.tell(format!(
        "process {} has the lock for {}, and writes with fence {old}",
        first.pid,
        words(SHORT_TTL)
    ));
    first.pause().await?;
    let new = fence(&second.must(&acquire(&key, LONG_TTL, PATIENTLY)?, Outcome::Granted).await?)?;
    check(new > old, || format!("fence {new} should be above {old}"))?;
    second.must(&write(&key, &path, "second\n"), Outcome::Written).await?;
    story.tell(format!(
        "it is paused for longer than that; process {} takes over, and writes with fence {new}",
        second.pid
    ));
    first.resume()?;
    let stale = first.must(&write(&key, &path, "first again\n"), Outcome::Stale).await?;
    check(stale.seen_fence == Some(new), || format!("the file should have seen fence {new}"))?;
    let content = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    check(content == "second\n", || "the stale write changed the file".to_owned())?;
    story.tell(format!(
        "process {} wakes up and writes with fence {old}: refused, the file has seen {new}",
        first.pid
    ));
    Ok(())
}

/// Each has what the other wants.
async fn deadlock(story: &mut Story, coord: &Coord, url: &str) -> Played {
    let (x, y) = (key("table://orders")?, key("table://stock")?);
    story.scene("Two processes each have what the other wants");
    let (mut first, mut second) = (Actor::enter("orders", url)?, Actor::enter("stock", url)?);
    first.must(&acquire(&x, LONG_TTL, AT_ONCE)?, Outcome::Granted).await?;
    second.must(&acquire(&y, LONG_TTL, AT_ONCE)?, Outcome::Granted).await?;
    first.order(&acquire(&y, LONG_TTL, PATIENTLY)?).await?;
    until_waiting(coord, &y).await?;
    story.tell(format!("process {} has {x} and waits for {y}, which process {} has", first.pid, second.pid));
    let refused = second.must(&acquire(&x, LONG_TTL, PATIENTLY)?, Outcome::Deadlock).await?;
    // Session, key, session, key: the caller first.
    let keys: Vec<&str> = refused.cycle.iter().skip(1).step_by(2).map(String::as_str).collect();
    check(keys == [x.as_str(), y.as_str()], || "the path of the cycle is wrong".to_owned())?;
    story.tell(format!(
        "process {} asks for {x} and is refused: it would wait for {x}, process {}, {y} and so for itself",
        second.pid, first.pid
    ));
    second.must(&Order::Release(y.clone()), Outcome::Released).await?;
    first.must_answer(Outcome::Granted).await?;
    story.tell(format!("it gives {y} back, and process {} goes on", first.pid));
    Ok(())
}

async fn until_waiting(coord: &Coord, key: &Key) -> Played {
    loop {
        let state = coord.show(key).await.map_err(|denied| denied.to_string())?;
        if !state.waiting.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn acquire(key: &Key, ttl: Duration, wait: Duration) -> Result<Order, String> {
    let ttl = Ttl::new(ttl).map_err(|error| error.to_string())?;
    Ok(Order::Acquire { key: key.clone(), ttl, wait })
}

fn write(key: &Key, path: &Path, text: &str) -> Order {
    Order::Write { key: key.clone(), path: path.to_path_buf(), text: text.to_owned() }
}

fn key(text: &str) -> Result<Key, String> {
    Key::parse(text).map_err(|error| format!("could not {error}"))
}

fn fence(answer: &LockAnswer) -> Result<Fence, String> {
    answer.fence.ok_or_else(|| "a grant came without a fence".to_owned())
}

pub(super) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Played {
    if holds { Ok(()) } else { Err(otherwise()) }
}
