//! What a story is set in: the project, how many nodes, and what the weather is like. All of it from the seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::work::agent::AgentName;
use bell_project::folder::Folder;
use bell_project::load::Loaded;

use crate::chance::Chance;

/// The project that every node runs.
pub(crate) const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fleet");

static LOADED: LazyLock<Loaded> = LazyLock::new(|| match Folder::open(Path::new(PROJECT)) {
    Ok(folder) => Loaded::load(&folder),
    Err(error) => panic!("the simulator's own project in {PROJECT} can't be opened: {error}"),
});

/// What a story is set in.
pub struct Setting {
    /// The project as every node sees it.
    pub loaded: Arc<Loaded>,
    /// How many machines run a daemon.
    pub nodes: u64,
    /// How far a wall clock may be off.
    pub skew_ms: u64,
    /// How long faults last.
    pub storm: Duration,
    /// How many faults there are beside those on the way to the store.
    pub faults: u64,
    /// How many triggers come from outside.
    pub triggers: u64,
    /// How many programs beside the runs use locks.
    pub lockers: u64,
    /// Whether the death of a process is noticed at once, as on a store of one machine.
    pub notices_death: bool,
    /// How bad the way to the store is: messages of a thousand that go wrong in each way.
    pub loss: u64,
}

impl Setting {
    /// What this chance makes of it.
    pub fn draw(chance: &Chance) -> Self {
        let mut loaded = LOADED.clone();
        loaded.settings.scale = Some(u32::try_from(chance.between(2, 3)).unwrap_or(2));
        for agent in loaded.agents.values_mut() {
            let agent = Arc::make_mut(agent);
            if agent.name.as_str() == "desk" {
                agent.settings.scale = u32::try_from(chance.between(1, 2)).unwrap_or(1);
                agent.settings.work_queue_size = u32::try_from(chance.between(2, 5)).unwrap_or(2);
            }
        }
        Self {
            loaded: Arc::new(loaded),
            nodes: if chance.one_in(6) { 3 } else { 2 },
            skew_ms: *chance.pick(&[0, 200, 5_000, 20_000]),
            storm: chance.ms(4_000, 13_000),
            faults: chance.between(2, 7),
            triggers: chance.between(2, 4),
            lockers: 1,
            notices_death: chance.one_in(3),
            loss: *chance.pick(&[0, 5, 20]),
        }
    }

    /// How many runs of each agent there may be.
    pub fn agent_caps(&self) -> BTreeMap<AgentName, usize> {
        let cap = |scale: u32| usize::try_from(scale).unwrap_or(usize::MAX);
        self.loaded.agents.iter().map(|(name, agent)| (name.clone(), cap(agent.settings.scale))).collect()
    }

    /// How many runs there may be in all.
    pub fn fleet_cap(&self) -> usize {
        self.loaded.settings.scale.and_then(|scale| usize::try_from(scale).ok()).unwrap_or(usize::MAX)
    }
}

/// What everybody wants: few, so that they meet.
pub(crate) fn keys() -> Vec<Key> {
    ["deploy://api", "file:///srv/index", "issue://7"].iter().filter_map(|key| Key::parse(key).ok()).collect()
}
