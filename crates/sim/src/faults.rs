//! What is done to the fleet, beside what happens to messages: death, standing still, partitions, clocks that jump.

use std::sync::Arc;
use std::time::Duration;

use crate::chance::Chance;
use crate::outside::operate;
use crate::process::Process;
use crate::world::World;

/// When something happens to the fleet, after the beginning, in order.
pub(crate) fn moments(world: &World, chance: &Chance) -> Vec<Duration> {
    let storm_ms = u64::try_from(world.setting.storm.as_millis()).unwrap_or(u64::MAX);
    let mut moments: Vec<Duration> = (0..world.setting.faults).map(|_| chance.ms(500, storm_ms)).collect();
    moments.sort();
    moments
}

/// Does something to the fleet.
pub(crate) fn strike(world: &Arc<World>, chance: &Chance) {
    let machine = chance.pick(&world.machines);
    match chance.between(0, 13) {
        0 => kill_one(world, chance, "daemon"),
        1 | 2 => kill_one(world, chance, "run-"),
        3 => kill_one(world, chance, "locker"),
        4 => {
            world.server.note("power cut", || format!("the power of {} fails", machine.name));
            for process in world.living(&format!("{}/", machine.name)) {
                process.kill();
            }
        }
        5 => stop_one(world, chance, "daemon"),
        6 => stop_one(world, chance, "run-"),
        7 => stop_one(world, chance, "locker"),
        8 => {
            let length = chance.ms(1_000, 25_000);
            world.server.note("machine stopped", || format!("{} stands still for {length:?}", machine.name));
            for process in world.living(&format!("{}/", machine.name)) {
                process.stop_for(length);
            }
        }
        9 => {
            let length = chance.ms(500, 20_000);
            world.server.note("partition", || format!("{} is cut off for {length:?}", machine.name));
            machine.cut_off(length);
        }
        10 => {
            let by_ms = chance.around_zero(30_000);
            world.server.note("clock set", || format!("the clock of {} jumps by {by_ms} ms", machine.name));
            machine.jump(by_ms);
        }
        _ => operate(world),
    }
}

fn kill_one(world: &World, chance: &Chance, what: &str) {
    if let Some(process) = one(world, chance, what) {
        world.server.note("process killed", || format!("{} is killed", process.name));
        process.kill();
    }
}

fn stop_one(world: &World, chance: &Chance, what: &str) {
    if let Some(process) = one(world, chance, what) {
        let length = chance.ms(500, 25_000);
        world.server.note("process stopped", || format!("{} is stopped for {length:?}", process.name));
        process.stop_for(length);
    }
}

fn one(world: &World, chance: &Chance, what: &str) -> Option<Arc<Process>> {
    let living = world.living(what);
    if living.is_empty() { None } else { Some(Arc::clone(chance.pick(&living))) }
}
