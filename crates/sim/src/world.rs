//! Everything in a story: machines, processes, the store, and what lies between them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_coord::Coord;

use crate::chance::Chance;
use crate::checker::Checker;
use crate::flaws::Flaw;
use crate::link::{Link, Weather};
use crate::process::{Machine, Process};
use crate::server::Server;
use crate::setting::Setting;
use crate::sink::Sink;

/// How far a good clock runs from the true time, in millionths.
const DRIFT_PPM: u64 = 300;

/// Schedules fire when the minute turns.
const MINUTE_MS: u64 = 60_000;

/// Everything in a story.
pub struct World {
    /// What it is set in.
    pub setting: Setting,
    /// The store.
    pub server: Arc<Server>,
    /// The way there.
    pub weather: Arc<Weather>,
    /// What guarded writes go to.
    pub sink: Sink,
    /// What is wrong on purpose.
    pub flaw: Option<Flaw>,
    /// The machines that run a daemon.
    pub machines: Vec<Arc<Machine>>,
    /// A machine beside them, whose clock is right: from there triggers come, and what operators do.
    pub outside: Arc<Machine>,
    chance: Chance,
    processes: Mutex<Vec<Arc<Process>>>,
}

impl World {
    /// A world with nobody in it yet.
    pub fn new(setting: Setting, checker: Checker, chance: Chance, flaw: Option<Flaw>) -> Arc<Self> {
        let true_clock = |name: &str| Machine::new(name, &chance, 0, 0);
        let store = Process::new(&true_clock("store"), "store", chance.fork());
        let outside = true_clock("outside");
        // The minute turns at another moment of the storm in each story.
        let storm_ms = u64::try_from(setting.storm.as_millis()).unwrap_or(0).min(MINUTE_MS);
        let minute_ms = (MINUTE_MS - chance.between(1_000, storm_ms)).cast_signed();
        outside.jump(minute_ms);
        let skewed = |n| {
            let skew_ms = minute_ms + chance.around_zero(setting.skew_ms);
            Machine::new(&format!("node{n}"), &chance, skew_ms, chance.around_zero(DRIFT_PPM))
        };
        let machines = (1..=setting.nodes).map(skewed).collect();
        let weather = Arc::new(Weather::new(&setting, chance.fork()));
        let server = Server::start(store, checker, flaw);
        let sink = Sink::new(flaw);
        let processes = Mutex::default();
        Arc::new(Self { setting, server, weather, sink, flaw, machines, outside, chance, processes })
    }

    /// A new process on a machine.
    pub fn process(&self, machine: &Arc<Machine>, name: &str) -> Arc<Process> {
        let process = Process::new(machine, &format!("{}/{name}", machine.name), self.chance.fork());
        let mut processes = self.lock();
        processes.retain(|process| !process.is_dead());
        processes.push(Arc::clone(&process));
        process
    }

    /// The way of a process to the store.
    pub fn coord(&self, process: &Arc<Process>) -> Coord {
        Coord::new(Link::open(&self.server, process, &self.weather, &self.setting))
    }

    /// Those who live, by the beginning of their names.
    pub fn living(&self, what: &str) -> Vec<Arc<Process>> {
        let living = |process: &&Arc<Process>| !process.is_dead() && process.name.contains(what);
        self.lock().iter().filter(living).cloned().collect()
    }

    /// Starts a process now, and again a while after it has died, for as long as the story lasts.
    pub fn keep_up(
        self: &Arc<Self>,
        machine: &Arc<Machine>,
        name: &'static str,
        start: impl Fn(Arc<World>, &Arc<Process>) + Send + 'static,
    ) {
        let (world, machine) = (Arc::clone(self), Arc::clone(machine));
        tokio::spawn(async move {
            loop {
                let process = world.process(&machine, name);
                start(Arc::clone(&world), &process);
                process.died().await;
                tokio::time::sleep(world.chance.ms(200, 8_000)).await;
            }
        });
    }

    /// Faults stop: everybody goes on, everything arrives.
    pub fn calm(&self) {
        self.weather.calm();
        for machine in self.machines.iter().chain([&self.outside]) {
            machine.cut_off(Duration::ZERO);
        }
        for process in self.lock().iter() {
            process.stop_for(Duration::ZERO);
        }
    }

    /// The end of the world.
    pub fn end(&self) {
        let all: Vec<Arc<Process>> = self.lock().drain(..).collect();
        for process in all {
            process.kill();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
