//! What runs and what ran.

use bell_api::control::runs::{RunLine, RunShown, RunsAnswer, RunsQuery};
use bell_api::outcome::Outcome;
use bell_coord::Coord;
use bell_core::work::row::What;
use bell_core::work::run::RunId;

use crate::control::{Control, agent_name, record_name};
use crate::refused::Refused;

/// Runs that are told if nobody says how many, and at the most: an answer must be held in memory.
const RUNS: usize = 20;
const RUNS_MAX: usize = 10_000;
/// Rows of history read at once, and looked at for one answer.
const PAGE: usize = 1_000;
const LOOK_MAX: usize = 200_000;
/// Keys of a run that are told.
const KEYS: usize = 20;

impl Control {
    /// Runs, the latest first.
    ///
    /// # Errors
    /// If the agent's name is none, or the store can't be read.
    pub async fn runs(&self, query: &RunsQuery) -> Result<RunsAnswer, Refused> {
        let limit = query.limit.unwrap_or(RUNS).min(RUNS_MAX);
        let agent = query.agent.as_deref().map(agent_name).transpose()?;
        let is_wanted = |line: &RunLine| agent.as_ref().is_none_or(|agent| *agent == line.agent);
        let live = self.coord.pool().await?.slots.into_iter();
        let live = live.map(|slot| RunLine {
            run: slot.run,
            agent: slot.agent,
            job: None,
            end: None,
            ended_ms: None,
        });
        let mut runs: Vec<RunLine> = live.filter(is_wanted).collect();
        let (mut from, mut seen) = (None, 0);
        while runs.len() < limit && seen < LOOK_MAX {
            let page = self.coord.history(from.as_deref(), PAGE).await?;
            seen += page.rows.len();
            let ended = page.rows.into_iter().filter_map(|(at, event)| match (event.what, event.agent) {
                (What::RunEnded { run, end, .. }, Some(agent)) => {
                    Some(RunLine { run, agent, job: event.job, end: Some(end), ended_ms: Some(at.0) })
                }
                _ => None,
            });
            runs.extend(ended.filter(is_wanted));
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        runs.truncate(limit);
        Ok(RunsAnswer { outcome: Outcome::Listed, runs })
    }

    /// Everything that is on record of a run.
    ///
    /// # Errors
    /// If there is no such run, or the store can't be read.
    pub async fn run(&self, name: &str) -> Result<RunShown, Refused> {
        shown(&self.coord, &self.locks, RunId::from(record_name(name)?)).await
    }
}

/// Everything that is on record of a run, with the locks that it has in the store of locks.
///
/// # Errors
/// If there is no such run, or the store can't be read.
pub async fn shown(work: &Coord, locks: &Coord, id: RunId) -> Result<RunShown, Refused> {
    let Some((run, _)) = work.run(&id).await? else { return Err(no_such_run(&id)) };
    let job = work.job(&run.job).await?.map(|(job, _)| job);
    let slots = if run.ended.is_none() { work.slots().await? } else { Vec::new() };
    let alive = slots.iter().any(|(slot, alive)| slot.run == id && *alive);
    let locks = if alive { locks.keys_of(&run.session, KEYS).await? } else { Vec::new() };
    Ok(RunShown {
        outcome: Outcome::Listed,
        run: id,
        agent: run.agent,
        job: run.job,
        trigger: job.map(|job| job.spec.trigger),
        attempt: run.attempt,
        node: run.node,
        alive,
        claimed_ms: run.claimed.0,
        begun_ms: run.begun.map(|at| at.0),
        isolation: run.isolation,
        ended_ms: run.ended.as_ref().map(|ended| ended.at.0),
        end: run.ended.map(|ended| ended.end),
        status: run.status,
        returned: run.returned,
        kill: run.kill,
        locks: locks.iter().map(ToString::to_string).collect(),
    })
}

/// That there is no run of this name.
pub(crate) fn no_such_run(run: &RunId) -> Refused {
    no_such(format!("could not find a run called {run}"))
}

/// That there is nothing of this name.
pub(crate) fn no_such(message: String) -> Refused {
    Refused::new(Outcome::NotFound, message, "bell runs and bell jobs list show what there is.")
}
