//! Locks on Redis, PostgreSQL and etcd beside what people would use there otherwise: each engine's own
//! recipes, on the same server, in the same run, in turns.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `contender` | who is compared with whom; the servers |
//! | `hand` | what all of them can do: take a key, give it back |
//! | `ours`, `redis`, `postgres`, `etcd` | how each does it |
//! | `trips`, `wire` | round trips and bytes, counted by somebody in between |
//! | `race`, `cost` | pairs per second; the CPU that they take |
//! | `passing` | hand-over |
//! | `goals` | what should come out |

mod contender;
mod cost;
mod etcd;
mod goals;
mod hand;
mod ours;
mod passing;
mod postgres;
mod race;
mod redis;
mod trips;
mod wire;

use anyhow::Result;
use serde::Serialize;

use crate::bench::Bench;
use crate::table::Table;

pub(crate) use contender::Engine;
use contender::Servers;
pub(crate) use goals::judge;

/// Everything that was measured beside the engines' recipes.
#[derive(Default, Serialize)]
pub(crate) struct Recipes {
    trips: Vec<trips::Trips>,
    pairs: Vec<race::Race>,
    handover: Vec<passing::Passing>,
}

/// Measures on one of these engines, or on all of them.
pub(crate) fn measure(bench: &Bench, only: Option<Engine>) -> Result<Recipes> {
    let engines = only.map_or_else(|| Engine::ALL.to_vec(), |engine| vec![engine]);
    bench.tell("recipes: starting servers");
    let servers = Servers::start(&engines);
    let doors = servers.doors()?;
    let mut recipes = Recipes::default();
    for engine in engines {
        recipes.trips.extend(trips::measure(bench, doors, engine)?);
        recipes.pairs.extend(race::measure(bench, doors, engine)?);
        recipes.handover.extend(passing::measure(bench, doors, engine)?);
    }
    Ok(recipes)
}

pub(crate) fn tables(recipes: &Recipes) -> [Table; 3] {
    [trips::table(&recipes.trips), race::table(&recipes.pairs), passing::table(&recipes.handover)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Pace;
    use contender::How;

    /// Speed is nobody's business here; round trips are nearly the same on every machine.
    #[test]
    fn everybody_takes_part_and_ours_takes_no_more_round_trips_than_it_may() {
        let bench = Bench::new(&std::env::temp_dir(), Pace::Smoke).unwrap();
        let recipes = measure(&bench, None).unwrap();
        for engine in Engine::ALL {
            for contender in engine.contenders() {
                let counted = recipes.trips.iter().find(|one| one.contender == contender).unwrap();
                let (acquire, release) = (counted.acquire, counted.release);
                // A heartbeat, or a try again on a machine that stood still, may come in between.
                assert!(
                    (1.0..3.0).contains(&acquire) && (1.0..3.0).contains(&release),
                    "{contender:?}: {counted:?}"
                );
                assert!(recipes.pairs.iter().any(|race| race.contender == contender), "{contender:?}");
            }
            let ours = contender::Contender { engine, how: How::Ours };
            assert!(recipes.handover.iter().any(|one| one.contender == ours));
        }
        assert!(!judge(&recipes).is_empty());
        assert!(tables(&recipes).iter().all(|table| table.to_string().contains("Bellwether")));
    }
}
