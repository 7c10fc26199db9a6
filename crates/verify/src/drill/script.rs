//! What happens in a round: first a pause, then a crash.

use std::sync::Arc;
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_locks::LockBackend;
use bell_locks::guard::store::GuardError;
use bell_locks::locks::StoreLocks;
use bell_store::clock::boottime;

use super::actor::Actor;
use super::orders::{Answer, Heed, Order};
use super::timeline::{By, LetThrough, Report, Step, Timeline, Who};
use super::{Drill, Halt};

/// How long an answer may take that should come soon. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The one that takes over keeps its lease over any pause of a busy machine.
const LONG_TTL: Duration = Duration::from_secs(120);

const AT_ONCE: Duration = Duration::ZERO;

/// Plays all rounds.
pub(super) async fn play(drill: &Drill, tell: impl FnMut(&Step)) -> Result<Report, Halt> {
    let locks = StoreLocks::new(Arc::clone(&drill.store)).scope(&drill.scope)?;
    let mut stage = Stage { drill, locks, timeline: Timeline::new(tell) };
    for round in 1..=drill.rounds {
        stage.timeline.next_round();
        stage.pause(&format!("paused-{round}")).await?;
        stage.crash(&format!("crashed-{round}")).await?;
    }
    Ok(stage.timeline.report())
}

struct Stage<'a, T> {
    drill: &'a Drill,
    locks: Arc<dyn LockBackend>,
    timeline: Timeline<T>,
}

impl<T: FnMut(&Step)> Stage<'_, T> {
    /// A is paused past its lease; B takes over; A wakes up.
    async fn pause(&mut self, resource: &str) -> Result<(), Halt> {
        let key = key(resource)?;
        let (mut a, mut b) = (self.enter(Who::A)?, self.enter(Who::B)?);
        let old = self.take(&mut a, &key).await?;
        self.write(&mut a, old, resource, "A").await?;
        a.actor.pause().await?;
        self.timeline.right(By::DRILL, "pauses A (SIGSTOP)");
        let new = self.take_over(&mut b, &key, old).await?;
        self.write(&mut b, new, resource, "B").await?;

        a.actor.resume()?;
        self.timeline.right(By::DRILL, "lets A go on (SIGCONT)");
        self.must_know(&mut a, old, resource).await?;
        self.write_stale(&mut a, old, resource).await?;
        self.release_late(&mut a, old, &key, new).await?;
        self.write(&mut b, new, resource, "B again").await?;
        self.release(&mut b, new).await?;
        self.write_stale(&mut a, old, resource).await?;
        self.must_read(resource, new, "B again").await?;
        a.actor.leave().await;
        b.actor.leave().await;
        Ok(())
    }

    /// A is killed; B, which waits, takes over; what A had sent arrives late.
    async fn crash(&mut self, resource: &str) -> Result<(), Halt> {
        let key = key(resource)?;
        let (mut a, mut b) = (self.enter(Who::A)?, self.enter(Who::B)?);
        let old = self.take(&mut a, &key).await?;
        self.write(&mut a, old, resource, "A").await?;
        b.order(&self.hold(&key)?).await?;
        match self.until_in_line(&key, old).await? {
            Place::InLine => self.timeline.right(b.by(), "waits for the lock"),
            Place::PastIt => self.timeline.right(a.by(), "lost the lock to a pause of this machine"),
        }
        a.actor.kill()?;
        self.timeline.right(By::DRILL, "kills A (SIGKILL)");
        let new = self.taken_over(&mut b, old).await?;
        self.write(&mut b, new, resource, "B").await?;
        self.arrive_late(resource, old).await?;
        self.must_read(resource, new, "B").await?;
        self.release(&mut b, new).await?;
        b.actor.leave().await;
        Ok(())
    }

    fn enter(&self, who: Who) -> Result<Player, Halt> {
        let actor = Actor::enter((self.drill.program)(&self.drill.scope))?;
        Ok(Player { who, patience: PATIENCE + self.drill.ttl.length(), actor })
    }

    async fn take(&mut self, a: &mut Player, key: &Key) -> Result<Fence, Halt> {
        let ttl = self.drill.ttl;
        let fence = match a.ask(&Order::Hold { key: key.clone(), ttl, wait: AT_ONCE }).await? {
            Answer::Held(fence) => fence,
            other => return Err(unforeseen(&other)),
        };
        let words = format!("takes the lock for {} ms", ttl.length().as_millis());
        self.timeline.right(a.by().with(fence), words);
        Ok(fence)
    }

    async fn take_over(&mut self, b: &mut Player, key: &Key, old: Fence) -> Result<Fence, Halt> {
        b.order(&self.hold(key)?).await?;
        self.taken_over(b, old).await
    }

    async fn taken_over(&mut self, b: &mut Player, old: Fence) -> Result<Fence, Halt> {
        let began = boottime();
        let fence = match b.answer().await? {
            Answer::Held(fence) => fence,
            other => return Err(unforeseen(&other)),
        };
        let by = b.by().with(fence);
        let waited = boottime().saturating_sub(began).as_millis();
        if fence > old {
            self.timeline.right(by, format!("takes over, {waited} ms later"));
        } else {
            self.timeline.wrong(by, format!("takes over with a fence that is not above {old}"));
        }
        Ok(fence)
    }

    /// A holder writes; nobody later has written yet.
    async fn write(&mut self, player: &mut Player, fence: Fence, to: &str, text: &str) -> Result<(), Halt> {
        let by = player.by().with(fence);
        match player.ask(&write(to, text, Heed::Nothing)).await? {
            Answer::Wrote(_) => self.timeline.right(by, "writes: accepted"),
            Answer::Stale { seen, .. } => {
                self.timeline
                    .wrong(by, format!("writes as the holder, and is refused: {seen} has been seen"));
            }
            other => return Err(unforeseen(&other)),
        }
        Ok(())
    }

    /// Who wakes up must know, and not write.
    async fn must_know(&mut self, a: &mut Player, old: Fence, to: &str) -> Result<(), Halt> {
        let by = a.by().with(old);
        match a.ask(&Order::Check).await? {
            Answer::Lost(why) => self.timeline.right(by, format!("checks its lease: lost, {why}")),
            Answer::Sure => self.timeline.wrong(by, "checks its lease: it still believes in it"),
            other => return Err(unforeseen(&other)),
        }
        match a.ask(&write(to, "heeded", Heed::Lease)).await? {
            Answer::Lost(_) => self.timeline.right(by, "wants to write, checks first, and gives up"),
            Answer::Wrote(_) | Answer::Stale { .. } => {
                self.timeline.wrong(by, "checks first, and writes all the same");
            }
            other => return Err(unforeseen(&other)),
        }
        Ok(())
    }

    /// A writes with its old fence without looking at its lease: only the guard is in the way.
    async fn write_stale(&mut self, a: &mut Player, old: Fence, to: &str) -> Result<(), Halt> {
        let by = a.by().with(old);
        match a.ask(&write(to, "stale", Heed::Nothing)).await? {
            Answer::Stale { seen, .. } => {
                let words = format!("writes without checking: refused, {seen} has been seen");
                self.timeline.stale_write(by, words, LetThrough::No);
            }
            Answer::Wrote(_) => {
                self.timeline.stale_write(by, "writes without checking: let through", LetThrough::Yes);
            }
            other => return Err(unforeseen(&other)),
        }
        Ok(())
    }

    /// What the dead process had sent arrives when its successor has written.
    async fn arrive_late(&mut self, to: &str, old: Fence) -> Result<(), Halt> {
        let by = By::DRILL.with(old);
        match self.drill.guard.write(to, old, b"stale").await {
            Err(GuardError::Stale(stale)) => {
                let words = format!("delivers a late write of A: refused, {} has been seen", stale.seen);
                self.timeline.stale_write(by, words, LetThrough::No);
            }
            Ok(()) => {
                self.timeline.stale_write(by, "delivers a late write of A: let through", LetThrough::Yes);
            }
            Err(GuardError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Whoever gives back a lease that is over must not end the lease of a successor.
    async fn release_late(&mut self, a: &mut Player, old: Fence, key: &Key, new: Fence) -> Result<(), Halt> {
        let answer = a.ask(&Order::Release).await?;
        let holders = self.locks.is_held(key).await?;
        let is_unharmed = holders.iter().any(|holder| holder.fence == Some(new));
        let by = a.by().with(old);
        match (answer, is_unharmed) {
            (Answer::Lost(_), true) => self.timeline.right(by, "gives the lock back, too late: B keeps it"),
            (Answer::Released, true) => {
                self.timeline.wrong(by, "gives the lock back, and is not told that it had lost it");
            }
            (Answer::Lost(_) | Answer::Released, false) => {
                self.timeline.wrong(by, "gives the lock back, too late, and B has lost it");
            }
            (other, _) => return Err(unforeseen(&other)),
        }
        Ok(())
    }

    async fn release(&mut self, b: &mut Player, fence: Fence) -> Result<(), Halt> {
        match b.ask(&Order::Release).await? {
            Answer::Released => self.timeline.right(b.by().with(fence), "gives the lock back"),
            Answer::Lost(why) => {
                self.timeline
                    .wrong(b.by().with(fence), format!("gives the lock back, but had lost it: {why}"));
            }
            other => return Err(unforeseen(&other)),
        }
        Ok(())
    }

    async fn must_read(&mut self, resource: &str, fence: Fence, text: &str) -> Result<(), Halt> {
        let kept = super::guard(&self.drill.store, &self.drill.scope).read(resource).await?;
        let is_there = kept.is_some_and(|kept| kept.fence == fence && kept.value == text.as_bytes());
        if is_there {
            self.timeline.right(By::DRILL.with(fence), "reads what B wrote");
        } else {
            self.timeline.wrong(By::DRILL.with(fence), "reads something else than B wrote");
        }
        Ok(())
    }

    /// Returns when B waits for the key. A machine that stands still for longer than the ttl may have given it to
    /// B before A could be killed; what comes after holds all the same.
    async fn until_in_line(&self, key: &Key, old: Fence) -> Result<Place, Halt> {
        let give_up = boottime() + PATIENCE;
        while boottime() < give_up {
            let state = self.locks.show(key).await?;
            if !state.waiting.is_empty() {
                return Ok(Place::InLine);
            }
            if state.holders.iter().any(|holder| holder.fence.is_some_and(|fence| fence != old)) {
                return Ok(Place::PastIt);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(Halt::new("go on with the drill: B does not get into the queue", super::TRY_AGAIN))
    }

    fn hold(&self, key: &Key) -> Result<Order, Halt> {
        let ttl = Ttl::new(LONG_TTL).map_err(|error| Halt::new(error.to_string(), ""))?;
        Ok(Order::Hold { key: key.clone(), ttl, wait: PATIENCE + self.drill.ttl.length() })
    }
}

/// Where B is.
enum Place {
    InLine,
    PastIt,
}

/// One of the two processes.
struct Player {
    who: Who,
    actor: Actor,
    patience: Duration,
}

impl Player {
    fn by(&self) -> By {
        By { who: self.who, pid: Some(self.actor.pid()), fence: None }
    }

    async fn order(&mut self, order: &Order) -> Result<(), Halt> {
        Ok(self.actor.order(order).await?)
    }

    async fn answer(&mut self) -> Result<Answer, Halt> {
        match tokio::time::timeout(self.patience + PATIENCE, self.actor.answer()).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Halt::new(
                format!("go on with the drill: process {} does not answer", self.actor.pid()),
                super::TRY_AGAIN,
            )),
        }
    }

    async fn ask(&mut self, order: &Order) -> Result<Answer, Halt> {
        self.order(order).await?;
        self.answer().await
    }
}

fn write(to: &str, text: &str, heed: Heed) -> Order {
    Order::Write { resource: to.to_owned(), text: text.to_owned(), heed }
}

fn key(name: &str) -> Result<Key, Halt> {
    Key::parse(&format!("drill://bell/{name}")).map_err(|error| Halt::new(error.to_string(), ""))
}

fn unforeseen(answer: &Answer) -> Halt {
    let why = match answer {
        Answer::Failed(why) => why.clone(),
        other => format!("a process answered {other:?}"),
    };
    Halt::new(format!("go on with the drill: {why}"), super::TRY_AGAIN)
}
