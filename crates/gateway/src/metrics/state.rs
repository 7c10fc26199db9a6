//! What stands: locks, queues, runs and nodes, read from the store.

use bell_control::{Control, nodes};
use bell_coord::{Coord, Denied};
use bell_store::info::Limits;

/// Keys that are looked at. Who has more sees this number, and a warning in the log.
const KEYS_MAX: usize = 100_000;

/// What stands at one moment, or near it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) held: usize,
    pub(crate) waiters: usize,
    /// Jobs that wait, for every agent of the project.
    pub(crate) queues: Vec<(String, u32)>,
    /// Runs that are dead and not ended yet.
    pub(crate) dead_runs: usize,
    /// Jobs that wait for an agent that the project does not have.
    pub(crate) without_agent: u32,
    /// The machines whose daemons are there.
    pub(crate) nodes: Vec<String>,
}

impl State {
    /// Reads the queues, what runs, the nodes, and every lock in pages.
    pub(crate) async fn read(control: &Control) -> Result<Self, Denied> {
        let mut state = Self::default();
        state.read_queues(control).await?;
        let slots = control.coord.slots().await?;
        state.dead_runs = slots.iter().filter(|(_, lives)| !lives).count();
        let holders = control.coord.show(&nodes::key()?).await?.holders;
        state.nodes = holders.into_iter().filter_map(|holder| holder.who.node).collect();
        state.read_locks(&control.locks).await?;
        Ok(state)
    }

    async fn read_queues(&mut self, control: &Control) -> Result<(), Denied> {
        let (loaded, lines) = (control.loaded(), control.coord.lines().await?);
        let waiting =
            |agent| lines.iter().find(|(name, _)| name == agent).map_or(0, |(_, line)| line.waiting);
        self.queues = loaded.agents.keys().map(|agent| (agent.to_string(), waiting(agent))).collect();
        let foreign = lines.iter().filter(|(name, _)| !loaded.agents.contains_key(name));
        self.without_agent = foreign.map(|(_, line)| line.waiting).sum();
        Ok(())
    }

    /// Reserved keys are not counted: they say nothing about the agents.
    async fn read_locks(&mut self, locks: &Coord) -> Result<(), Denied> {
        let (mut after, mut looked) = (None, 0);
        loop {
            let page = locks.list("", after.as_ref(), Limits::CONTRACT.page).await?;
            for lock in page.locks.iter().filter(|lock| !lock.key.is_reserved()) {
                self.held += lock.holders.len();
                self.waiters += lock.waiting.len();
            }
            looked += Limits::CONTRACT.page;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
            if looked >= KEYS_MAX {
                tracing::warn!(most = KEYS_MAX, "there are more locks than are counted");
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bell_coord::work::intake::new_job;
    use bell_coord::work::running::Work;
    use bell_coord::work::wall_now;
    use bell_coord::{Ask, Keep, Session};
    use bell_core::key::Key;
    use bell_core::session::Identity;
    use bell_core::work::accept::{Offer, Overflow, Room};
    use bell_core::work::agent::AgentName;
    use bell_core::work::job::{JobSpec, Rules, Trigger};
    use bell_core::work::line::Caps;
    use bell_project::folder::Folder;
    use bell_project::load::Loaded;
    use bell_store::memory::Memory;

    use super::*;

    fn project(root: &std::path::Path) -> Control {
        let agent = root.join("agents/worker");
        std::fs::create_dir_all(&agent).unwrap();
        let skill = "---\nname: worker\ndescription: Works.\nrun: [\"true\"]\n---\nWork.\n";
        std::fs::write(agent.join("SKILL.md"), skill).unwrap();
        let folder = Folder::open(root).unwrap();
        let loaded = Arc::new(Loaded::load(&folder));
        let coord = Coord::new(Arc::new(Memory::new()));
        Control::once(coord.clone(), coord, Arc::new(folder), loaded)
    }

    async fn ask(coord: &Coord, agent: &AgentName) {
        let spec =
            JobSpec { agent: agent.clone(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
        let offer = Offer { id: new_job(), spec, payload: "".into(), once: None, at: wall_now() };
        coord.accept(&[offer], Room { size: 9, overflow: Overflow::Reject }).await.unwrap();
    }

    #[tokio::test]
    async fn a_run_that_is_dead_and_a_job_without_an_agent_are_stale() {
        let root = tempfile::tempdir().unwrap();
        let control = project(root.path());
        let (worker, gone): (AgentName, AgentName) = ("worker".parse().unwrap(), "gone".parse().unwrap());
        for agent in [&worker, &worker, &gone] {
            ask(&control.coord, agent).await;
        }
        let caps = Caps { agent: 1, fleet: None };
        let Work::Job(claim) = control.coord.claim(&worker, caps, "node").await.unwrap() else {
            panic!("a job waits")
        };
        let state = State::read(&control).await.unwrap();
        assert_eq!((state.dead_runs, state.without_agent), (0, 1));
        assert_eq!(state.queues, [("worker".to_owned(), 1)]);
        let session = control.coord.resume(&claim.session.token()).await.unwrap();
        control.coord.end(&session).await.unwrap();
        assert_eq!(State::read(&control).await.unwrap().dead_runs, 1);
    }

    #[tokio::test]
    async fn locks_are_counted_without_our_own() {
        let root = tempfile::tempdir().unwrap();
        let control = project(root.path());
        let session = Session::new(Identity::default(), Keep::Detached).unwrap();
        for key in ["job:a", "job:b", "bell://fleet/nodes"] {
            control.locks.acquire(&session, &Ask::new(Key::parse(key).unwrap())).await.unwrap();
        }
        let state = State::read(&control).await.unwrap();
        assert_eq!((state.held, state.waiters), (2, 0));
    }
}
