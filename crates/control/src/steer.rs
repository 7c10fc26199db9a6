//! Holding a fleet, ending runs, and saying how many may run. All of it goes through the store, so it works for every
//! node, and while no daemon runs.

use bell_api::control::acts::{DoneAnswer, KillRequest, PauseRequest, ResumeRequest, ScaleRequest};
use bell_api::outcome::Outcome;
use bell_coord::audit::act;
use bell_core::work::agent::AgentName;
use bell_core::work::line::MAX_SLOTS;
use bell_core::work::pause::Extent;
use bell_core::work::run::RunId;
use bell_core::work::speak::Asked;

use crate::control::{Control, agent_name, record_name};
use crate::refused::Refused;
use crate::runs::no_such_run;
use crate::status::find;
use crate::who::Who;

/// What stands on record if nobody says why.
const BY_HAND: &str = "by hand";
/// Bytes in a reason: it is kept in the record that everything which runs is counted on.
const REASON_BYTES_MAX: usize = 500;

impl Control {
    /// Lets nothing new start, in the whole fleet or of one agent.
    ///
    /// # Errors
    /// If there is no such agent, the reason is none, or the store can't be reached.
    pub async fn pause(&self, request: &PauseRequest, who: &Who) -> Result<DoneAnswer, Refused> {
        let extent = self.extent(request.agent.as_deref()).await?;
        let (what, why) = (words(&extent), reason(request.reason.as_deref())?);
        let reason = who.signed(why, request.by.as_deref());
        let act = act(&who.recorded(request.by.as_deref()), "pause", &what).because(why);
        let changed = self.coord.acting(act).pause(&extent, &reason).await?;
        tracing::info!(what, reason, changed, "paused");
        Ok(DoneAnswer::new(if changed {
            format!("paused {what}")
        } else {
            format!("{what} was paused already")
        }))
    }

    /// Lets a paused fleet or agent go on.
    ///
    /// # Errors
    /// If there is no such agent, or the store can't be reached.
    pub async fn resume(&self, request: &ResumeRequest, who: &Who) -> Result<DoneAnswer, Refused> {
        let extent = self.extent(request.agent.as_deref()).await?;
        let what = words(&extent);
        let act = act(&who.recorded(request.by.as_deref()), "resume", &what);
        let changed = self.coord.acting(act).resume_work(&extent).await?;
        tracing::info!(what, by = who.words(request.by.as_deref()), changed, "resumed");
        Ok(DoneAnswer::new(if changed {
            format!("resumed {what}")
        } else {
            format!("{what} was not paused")
        }))
    }

    /// Ends a run, wherever it is: its supervisor is asked to.
    ///
    /// # Errors
    /// If there is no such run, it has ended, the reason is none, or the store can't be reached.
    pub async fn kill(&self, run: &str, request: &KillRequest, who: &Who) -> Result<DoneAnswer, Refused> {
        let run = RunId::from(record_name(run)?);
        let why = reason(request.reason.as_deref())?;
        let reason = who.signed(why, request.by.as_deref());
        let act = act(&who.recorded(request.by.as_deref()), "kill", &run).because(why);
        let asked = self.coord.acting(act).kill(&run, &reason).await?;
        tracing::info!(%run, reason, "asked to end");
        match asked {
            Asked::Noted => Ok(DoneAnswer::new(format!("asked the supervisor of {run} to end it"))),
            Asked::Ended(end) => Err(Refused::new(
                Outcome::NotHeld,
                format!("could not end {run}: it has ended, {end}"),
                "bell runs shows what runs.",
            )),
            Asked::Unknown => Err(no_such_run(&run)),
        }
    }

    /// Says how many of an agent may run, whatever its settings say, until it is said otherwise.
    ///
    /// # Errors
    /// If there is no such agent, it can't be so many, the reason is none, or the store can't be reached.
    pub async fn scale(&self, agent: &str, request: &ScaleRequest, who: &Who) -> Result<DoneAnswer, Refused> {
        let name = &agent_name(agent)?;
        let written = match find(&self.loaded(), agent) {
            Ok(agent) => Some(agent.settings.scale),
            // What was said of an agent that is gone can be taken back.
            Err(_) if request.scale.is_none() && self.coord.pool().await?.scales.contains_key(name) => None,
            Err(refused) => return Err(refused),
        };
        let default = written.map_or_else(|| "nothing".to_owned(), |scale| scale.to_string());
        let most = u32::try_from(MAX_SLOTS).unwrap_or(u32::MAX);
        if let Some(scale) = request.scale.filter(|scale| *scale > most) {
            return Err(Refused::invalid(
                format!("could not scale {name} to {scale}: {most} is the most"),
                format!("Give a number from 0 to {most}."),
            ));
        }
        let why = reason(request.reason.as_deref())?;
        let reason = who.signed(why, request.by.as_deref());
        let to = request.scale.map_or_else(|| "default".to_owned(), |scale| scale.to_string());
        let act = act(&who.recorded(request.by.as_deref()), "scale", name).because(format!("to {to}: {why}"));
        let changed = self.coord.acting(act).scale(name, request.scale, &reason).await?;
        tracing::info!(agent = %name, scale = request.scale, reason, changed, "scaled");
        Ok(DoneAnswer::new(match (request.scale, changed) {
            (Some(scale), true) => format!("scaled {name} to {scale}; its settings say {default}"),
            (Some(scale), false) => format!("{name} was scaled to {scale} already"),
            (None, true) => format!("scaled {name} to {default}, as its settings say"),
            (None, false) => format!("{name} is scaled as its settings say already: {default}"),
        }))
    }

    /// What is meant. A name that is nobody's is refused: whoever mistyped it would believe that the agent is held.
    async fn extent(&self, agent: Option<&str>) -> Result<Extent, Refused> {
        match agent {
            None => Ok(Extent::Fleet),
            Some(given) => self.known_agent(given).await.map(Extent::Agent),
        }
    }

    /// An agent that is here, or of which something is left.
    pub(crate) async fn known_agent(&self, given: &str) -> Result<AgentName, Refused> {
        let name = agent_name(given)?;
        match find(&self.loaded(), given) {
            Err(refused) if !self.has_traces_of(&name).await? => Err(refused),
            Ok(_) | Err(_) => Ok(name),
        }
    }

    /// Whether an agent that can't be run is here all the same: its files are broken, or it is gone and has a queue, or
    /// is paused.
    async fn has_traces_of(&self, name: &AgentName) -> Result<bool, Refused> {
        let folders = [format!("agents/{name}"), name.to_string()];
        if folders.iter().any(|folder| self.folder.exists(folder).is_ok()) {
            return Ok(true);
        }
        let is_paused = self.coord.pool().await?.paused_agents.contains_key(name);
        Ok(is_paused || self.coord.lines().await?.iter().any(|(agent, _)| agent == name))
    }
}

fn words(extent: &Extent) -> String {
    match extent {
        Extent::Fleet => "the fleet".to_owned(),
        Extent::Agent(name) => format!("the agent {name}"),
    }
}

fn reason(given: Option<&str>) -> Result<&str, Refused> {
    let given = given.unwrap_or(BY_HAND);
    if given.trim().is_empty() || given.len() > REASON_BYTES_MAX {
        return Err(Refused::invalid(
            format!("could not use the reason: it must have 1 to {REASON_BYTES_MAX} bytes"),
            "Say why in a few words, for whoever wonders later.",
        ));
    }
    Ok(given)
}
