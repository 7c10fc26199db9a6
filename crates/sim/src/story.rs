//! One story, from a seed: a storm, then calm, and what is left.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Keep as Kept, Session};
use bell_core::session::Identity;
use tokio::time::{Instant, sleep, sleep_until};

use crate::chance::Chance;
use crate::checker::{Broken, Checker};
use crate::flaws::Flaw;
use crate::journal::{Journal, Keep};
use crate::setting::{Setting, keys};
use crate::tally::Tally;
use crate::world::World;
use crate::{daemon, faults, invariants, locker, outside};

/// How long a fleet may take to come to rest when faults are over: a session that lapses (15 s), a few retries and what
/// waits behind them, and a schedule that fires in between.
const REST_WITHIN: Duration = Duration::from_secs(240);
/// How often it is asked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// Where everything random comes from.
    pub seed: u64,
    /// What is wrong on purpose.
    pub flaw: Option<Flaw>,
    /// How much of it is kept for people.
    pub keep: Keep,
}

/// How a story went.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub broken: Option<Broken>,
    /// Tells two histories apart.
    pub digest: u64,
    /// Commits in it.
    pub commits: u64,
    /// Requests to the store in it.
    pub requests: u64,
    /// How long it lasted, for those in it.
    pub lasted: Duration,
    /// How often what happened in it.
    pub tally: Tally,
    /// What happened last.
    pub end: Vec<String>,
}

impl Told {
    /// What went wrong, what happened last, and how to see it again.
    pub fn explain(&self, flaw: Option<Flaw>) -> String {
        let Some(broken) = &self.broken else { return format!("seed {}: every invariant held", self.seed) };
        let flaw = flaw.and_then(|flaw| clap::ValueEnum::to_possible_value(&flaw));
        let flaw = flaw.map_or_else(String::new, |flaw| format!(" --flaw {}", flaw.get_name()));
        format!(
            "{}\n\nseed {}: {} did not hold: {}\nto see it again: cargo run --release -p bell-sim -- --seed {}{flaw} --trace",
            self.end.join("\n"),
            self.seed,
            broken.invariant,
            broken.message,
            self.seed
        )
    }
}

/// Plays the story of this seed: the same every time.
///
/// # Errors
/// If there can be no runtime.
pub fn play(play: Play) -> std::io::Result<Told> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(tell(play)))
}

/// Plays it, and once more with everything noted if something was wrong.
///
/// # Errors
/// As for [`play`].
pub fn play_and_explain(first: Play) -> std::io::Result<Told> {
    let told = play(first)?;
    if told.broken.is_none() || first.keep != Keep::Nothing {
        return Ok(told);
    }
    play(Play { keep: Keep::End, ..first })
}

async fn tell(Play { seed, flaw, keep }: Play) -> Told {
    let started = Instant::now();
    let chance = Chance::new(seed);
    let setting = Setting::draw(&chance);
    let checker = Checker::new(invariants::all(&setting), Journal::keeping(keep));
    let world = World::new(setting, checker, chance.fork(), flaw);
    let broken = storm_and_calm(&world, &chance).await.err();
    world.end();
    let checker = world.server.checker();
    let journal = checker.journal();
    Told {
        seed,
        broken: checker.broken().cloned().or(broken),
        digest: journal.digest(),
        commits: journal.commits(),
        requests: world.server.requests(),
        lasted: started.elapsed(),
        tally: checker.tally().clone(),
        end: journal.end(),
    }
}

async fn storm_and_calm(world: &Arc<World>, chance: &Chance) -> Result<(), Broken> {
    let started = Instant::now();
    populate(world);
    for moment in faults::moments(world, chance) {
        sleep_until(started + moment).await;
        unbroken(world)?;
        faults::strike(world, chance);
    }
    sleep_until(started + world.setting.storm).await;
    world.server.note("calm", || "faults are over".to_owned());
    world.calm();
    outside::resume_everything(world).await;
    rest(world).await?;
    free_for_all(world).await
}

fn populate(world: &Arc<World>) {
    for machine in &world.machines {
        world.keep_up(machine, "daemon", daemon::start);
    }
    for machine in world.machines.iter().cycle().take(usize::try_from(world.setting.lockers).unwrap_or(1)) {
        world.keep_up(machine, "locker", locker::start);
    }
    outside::send_triggers(world);
}

fn unbroken(world: &World) -> Result<(), Broken> {
    world.server.checker().broken().cloned().map_or(Ok(()), Err)
}

/// Waits until nothing is left to do.
async fn rest(world: &World) -> Result<(), Broken> {
    let limit = Instant::now() + REST_WITHIN;
    loop {
        sleep(LOOK_EVERY).await;
        unbroken(world)?;
        let now = world.server.now();
        let Some(unrest) = world.server.checker().unrest(now) else { return Ok(()) };
        if Instant::now() >= limit {
            return Err(unrest);
        }
    }
}

/// Whoever comes now finds every lock free.
async fn free_for_all(world: &Arc<World>) -> Result<(), Broken> {
    let process = world.process(&world.outside, "probe");
    let (told, answer) = tokio::sync::oneshot::channel();
    let coord = world.coord(&process);
    process.spawn(async move {
        let taken = async {
            let session = Session::new(Identity::default(), Kept::Attended)?;
            coord.acquire(&session, &Ask::all(keys())).await?;
            coord.end(&session).await
        };
        // It is waited for.
        let _ = told.send(taken.await.map_err(|denied| denied.to_string()));
    });
    let message = match answer.await {
        Ok(Ok(())) => return unbroken(world),
        Ok(Err(denied)) => format!("at rest, a fresh client asks for every lock: {denied}"),
        Err(_) => "at rest, a fresh client gets no answer".to_owned(),
    };
    Err(Broken { invariant: "it_heals", message })
}
