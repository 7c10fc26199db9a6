//! No more runs of an agent, and of all agents, than their caps allow, in the whole fleet; and each of them counts.

use std::collections::BTreeMap;

use bell_core::work::agent::AgentName;
use bell_core::work::line::Slot;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::setting::Setting;
use crate::state::{Change, State};

pub(super) struct CapsHold {
    agents: BTreeMap<AgentName, usize>,
    fleet: usize,
}

impl CapsHold {
    pub(super) fn new(setting: &Setting) -> Self {
        Self { agents: setting.agent_caps(), fleet: setting.fleet_cap() }
    }
}

impl Invariant for CapsHold {
    fn name(&self) -> &'static str {
        "caps_hold"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        if !changes.iter().any(|change| matches!(change, Change::Pool(..) | Change::Run(..))) {
            return Ok(());
        }
        let slots = &state.pool.slots;
        holds(slots.len() <= self.fleet, || format!("{} of {} run: {slots:?}", slots.len(), self.fleet))?;
        for (agent, cap) in &self.agents {
            let mine: Vec<&Slot> = slots.iter().filter(|slot| slot.agent == *agent).collect();
            holds(mine.len() <= *cap, || format!("{} of {cap} of {agent} run: {mine:?}", mine.len()))?;
        }
        for (id, run) in state.runs.iter().filter(|(_, run)| run.ended.is_none()) {
            let counted = slots.iter().any(|slot| slot.run == *id && slot.session == run.session);
            holds(counted, || format!("run {id} goes on and counts nowhere"))?;
        }
        Ok(())
    }
}
