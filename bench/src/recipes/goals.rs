//! What locks should cost beside the engines' own recipes.

use crate::table::number;
use crate::targets::Target;

use super::contender::{Contender, Engine, How};
use super::{Recipes, passing, race};

/// Round trips more than the cheapest correct recipe with a fence.
const MORE_TRIPS: f64 = 1.0;
/// Of the throughput of that recipe.
const FENCED_SHARE: f64 = 0.8;
/// Of the throughput of the engine's own lock.
const OWN_SHARE: f64 = 1.0;
/// How much longer a hand-over by polling takes.
const POLLING_TIMES: f64 = 10.0;

pub(crate) fn judge(recipes: &Recipes) -> Vec<Target> {
    let mut targets = Vec::new();
    for engine in Engine::ALL {
        targets.extend(trips(recipes, engine));
        for sessions in race::sessions_of(&recipes.pairs) {
            targets.extend(throughput(recipes, engine, sessions, engine.cheapest_fenced(), FENCED_SHARE));
            if let Some(own) = engine.own_lock() {
                targets.extend(throughput(recipes, engine, sessions, own, OWN_SHARE));
            }
        }
        for polling in recipes.handover.iter().filter(|one| one.contender.how.polls()) {
            if polling.contender.engine == engine {
                let both = [How::Ours, How::OursApart];
                targets.extend(both.into_iter().filter_map(|how| handover(recipes, polling, how)));
            }
        }
    }
    targets
}

fn trips(recipes: &Recipes, engine: Engine) -> Option<Target> {
    let pair = |how| {
        let of = |one: &&super::trips::Trips| one.contender == Contender { engine, how };
        Some(recipes.trips.iter().find(of)?.pair())
    };
    let (ours, cheapest) = (pair(How::Ours)?, pair(engine.cheapest_fenced())?);
    Some(Target {
        goal: format!(
            "{}: at most {MORE_TRIPS} round trip per pair more than the cheapest recipe with a fence",
            engine.as_str()
        ),
        seen: format!("{} beside {}", number(ours), number(cheapest)),
        // A heartbeat that falls into the count is no round trip of the pair.
        met: ours.round() <= cheapest.round() + MORE_TRIPS,
    })
}

fn throughput(recipes: &Recipes, engine: Engine, sessions: usize, of: How, goal: f64) -> Option<Target> {
    let share = race::share(&recipes.pairs, engine, sessions, of)?;
    Some(Target {
        goal: format!(
            "{}, {sessions} {}: at least {goal} of the pairs/s of: {}",
            engine.as_str(),
            if sessions == 1 { "session" } else { "sessions" },
            of.as_str()
        ),
        seen: share.to_string(),
        met: share.median >= goal,
    })
}

fn handover(recipes: &Recipes, polling: &passing::Passing, how: How) -> Option<Target> {
    let Contender { engine, how: polls } = polling.contender;
    let ours = passing::find(&recipes.handover, Contender { engine, how }, polling.waiters)?;
    let times = polling.latency.p99_us / ours.latency.p99_us;
    Some(Target {
        goal: format!(
            "{}, {}, {} waiters: p99 of hand-overs {POLLING_TIMES} times below that of: {}",
            engine.as_str(),
            how.as_str(),
            polling.waiters,
            polls.as_str()
        ),
        seen: format!("{} times", number(times)),
        met: times >= POLLING_TIMES,
    })
}
