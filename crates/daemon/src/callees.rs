//! Whom a run may call, as its project says at that moment: a file that was changed counts for the next call.

use std::path::PathBuf;

use async_trait::async_trait;
use bell_api::outcome::Outcome;
use bell_control::known;
use bell_control::limits::{room, rules};
use bell_core::work::agent::AgentName;
use bell_gateway::{Callee, Callees, Refusal};
use bell_project::folder::Folder;
use bell_project::load::Loaded;

/// The agents of the project in this folder.
pub(crate) struct ProjectCallees(pub(crate) PathBuf);

#[async_trait]
impl Callees for ProjectCallees {
    async fn find(&self, caller: &AgentName, wanted: &AgentName) -> Result<Callee, Refusal> {
        let path = self.0.clone();
        // Disks may take their time, and the process beside a run has other things to do.
        let loaded =
            tokio::task::spawn_blocking(move || Folder::open(&path).map(|folder| known::load(&folder)));
        match loaded.await {
            Ok(Ok(loaded)) => choose(&loaded, caller, wanted),
            Ok(Err(error)) => Err(unreadable(&error.to_string())),
            Err(error) => Err(unreadable(&error.to_string())),
        }
    }
}

fn choose(loaded: &Loaded, caller: &AgentName, wanted: &AgentName) -> Result<Callee, Refusal> {
    let refuse =
        |why: String, next: &str| Err(Refusal::invalid(format!("could not call {wanted}: {why}"), next));
    let may_call = loaded.agents.get(caller).and_then(|agent| agent.settings.may_call.as_ref());
    if may_call.is_some_and(|may_call| !may_call.contains(wanted)) {
        return refuse(format!("{caller} may not"), "Add it to may_call of the caller.");
    }
    let Some(agent) = loaded.agents.get(wanted) else {
        return Err(Refusal::new(
            Outcome::NotFound,
            format!("could not call {wanted}: there is no such agent that can be run"),
            "bell check lists the agents.",
        ));
    };
    if !agent.is_enabled() {
        return refuse("it is disabled, its scale is 0".to_owned(), "Set its scale to 1 or more.");
    }
    Ok(Callee { rules: rules(agent), room: room(agent), depth_max: loaded.settings.max_call_depth })
}

fn unreadable(why: &str) -> Refusal {
    Refusal::new(
        Outcome::Unavailable,
        format!("could not read the project: {why}"),
        "Look at the project's folder (bell check), then call again.",
    )
}
