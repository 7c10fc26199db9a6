//! Reading what an explanation needs, each thing as it is now.

use bell_coord::Denied;
use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{FIRST_SEEN, Fire, Verdict};
use bell_core::work::job::{Job, JobId};
use bell_core::work::line::{Caps, Pool};
use bell_core::work::row::What;
use bell_core::work::run::{Run, RunId};
use bell_project::agent::Agent;
use bell_project::discover::discover;
use bell_project::load::Loaded;
use bell_project::problem::Problem;
use jiff::Timestamp;

use crate::answer::Answer;
use crate::ask::Asker;
use crate::explain::agent::{AgentSeen, HeldJob, Known, Settings};
use crate::explain::fire::FireSeen;
use crate::explain::job::JobSeen;
use crate::explain::lock::LockSeen;
use crate::explain::run::RunSeen;
use crate::explain::{agent, fire, job, lock, run};
use crate::words::{timestamp, wall};

/// The next fires that are told.
const NEXT: usize = 5;
/// The last skips and the last jobs that were not done.
const LAST: usize = 3;
/// Ticks, and jobs that were not done, that are looked through for them.
const LOOK: usize = 200;
/// Jobs of a queue that are looked through for one.
const QUEUE: usize = 1_000;
/// Rows of history that are looked through for the reason of a wait.
const ROWS: usize = 500;
/// Runs of a job that are shown: the last ones. Retries are fewer; a job may be replayed for ever.
const RUNS: usize = 100;
/// Locks of a run that are told.
const KEYS: usize = 20;

const DAY_MS: u64 = 24 * 3_600 * 1_000;

impl Asker<'_> {
    pub(crate) async fn about_agent(&self, name: &AgentName) -> Result<Answer, Denied> {
        Ok(agent::explain(&self.agent(name).await?))
    }

    pub(crate) async fn about_run(&self, id: &RunId, run: Run) -> Result<Answer, Denied> {
        let job = self.coord.job(&run.job).await?.map(|(job, _)| job);
        let end = match &run.ended {
            Some(ended) => self.coord.end_of(id, ended.at).await?,
            None => None,
        };
        let then = end.and_then(|event| match event.what {
            What::RunEnded { then, .. } => Some(then),
            _ => None,
        });
        let slots = if run.ended.is_none() { self.coord.slots().await? } else { Vec::new() };
        let alive = slots.iter().any(|(slot, alive)| slot.run == *id && *alive);
        let keys = if alive { self.coord.keys_of(&run.session, KEYS).await? } else { Vec::new() };
        let meanwhile = match &job {
            Some(job) => self.coord.happened(job.accepted, run.claimed, ROWS).await?,
            None => Vec::new(),
        };
        let mine = |event: &bell_core::work::row::Event| {
            event.agent.as_ref().is_none_or(|agent| *agent == run.agent)
        };
        let meanwhile = meanwhile.into_iter().filter(|(_, event)| mine(event)).collect();
        Ok(run::explain(&RunSeen { id: id.clone(), job, alive, keys, then, meanwhile, now: self.now, run }))
    }

    pub(crate) async fn about_job(&self, id: &JobId, job: Job) -> Result<Answer, Denied> {
        let agent = self.agent(&job.spec.agent).await?;
        let queued = self.coord.queued(&job.spec.agent, QUEUE).await?;
        let ahead = queued.into_iter().take_while(|other| other != id).collect();
        let store_now = self.coord.store_now().await?;
        let runs = self.coord.runs_of(id, &job, RUNS).await?;
        Ok(job::explain(&JobSeen { id: id.clone(), job, runs, ahead, agent, store_now, now: self.now }))
    }

    pub(crate) async fn about_lock(&self, key: &Key) -> Result<Answer, Denied> {
        let state = self.locks.show(key).await?;
        let breakings = self.locks.breakings(key).await?;
        Ok(lock::explain(&LockSeen { state, breakings, now: self.now }))
    }

    pub(crate) async fn about_fire(&self, name: &AgentName, at: Timestamp) -> Result<Answer, Denied> {
        let nominal = wall(at);
        let decided = self.coord.fire_at(name, nominal).await?;
        let job = match &decided {
            Some(Fire { verdict: Verdict::Job { job }, .. }) => self.coord.job(job).await?,
            _ => None,
        };
        let last = self.coord.fires(name, None, 1).await?.rows.first().map(|(at, _)| *at);
        let loaded = self.project.map(|(_, loaded)| loaded);
        let days = loaded.map(|loaded| u64::from(loaded.settings.history_retention_days));
        Ok(fire::explain(&FireSeen {
            agent: name.clone(),
            nominal,
            fire: decided,
            job: job.map(|(job, _)| job),
            schedule: loaded.and_then(|loaded| loaded.agents.get(name)?.schedule()),
            last,
            kept_since: days.map(|days| Wall(self.now.0.saturating_sub(days * DAY_MS))),
            daemons: self.daemons,
            now: self.now,
        }))
    }

    async fn agent(&self, name: &AgentName) -> Result<AgentSeen, Denied> {
        let pool = self.coord.pool().await?;
        let slots = self.coord.slots().await?;
        let ticks = self.coord.fires(name, None, LOOK).await?.rows.into_iter();
        let skipped = ticks.filter_map(|(nominal, fire)| match fire.verdict {
            // No tick: it says from when on the schedule counts.
            Verdict::Skipped { reason } if reason == FIRST_SEEN => None,
            Verdict::Skipped { reason } => Some((nominal, reason)),
            Verdict::Job { .. } => None,
        });
        let undone = self.coord.undone(None, LOOK).await?.rows.into_iter();
        let undone = undone.filter(|(_, (_, undone))| undone.agent == *name);
        let first = self.coord.queued(name, NEXT).await?;
        let held = self.held(&first).await?;
        Ok(AgentSeen {
            name: name.clone(),
            known: self.known(name, &pool),
            pool,
            dead: slots.into_iter().filter(|(_, alive)| !alive).map(|(slot, _)| slot).collect(),
            line: self.coord.line(name).await?,
            first,
            held,
            skips: skipped.take(LAST).collect(),
            undone: undone.take(LAST).map(|(at, (job, undone))| (at, job, undone.fate)).collect(),
            daemons: self.daemons,
            now: self.now,
        })
    }

    /// Which of these jobs are held back, and by what.
    async fn held(&self, jobs: &[JobId]) -> Result<Vec<HeldJob>, Denied> {
        let mut held = Vec::new();
        if jobs.is_empty() {
            return Ok(held);
        }
        let store_now = self.coord.store_now().await?;
        for id in jobs {
            let Some((job, _)) = self.coord.job(id).await? else { continue };
            let locks = job.lock_wait.as_ref().map(|wait| HeldJob::Locks(wait.keys.clone()));
            held.extend(locks.or_else(|| job.start_wait(store_now).map(HeldJob::Retry)));
        }
        Ok(held)
    }

    fn known(&self, name: &AgentName, pool: &Pool) -> Known {
        let Some((folder, loaded)) = self.project else { return Known::NoProject };
        if let Some(agent) = loaded.agents.get(name) {
            return Known::Yes(self.settings(loaded, agent, pool));
        }
        let found = discover(folder, &mut Vec::new()).into_iter().find(|found| found.name == *name);
        let Some(found) = found else { return Known::Gone };
        let is_its = |problem: &&Problem| problem.is_error() && problem.place.file.starts_with(&found.folder);
        Known::Broken(loaded.problems.iter().filter(is_its).map(ToString::to_string).collect())
    }

    fn settings(&self, loaded: &Loaded, agent: &Agent, pool: &Pool) -> Settings {
        let count = |scale: u32| usize::try_from(scale).unwrap_or(usize::MAX);
        let caps = Caps { agent: count(agent.settings.scale), fleet: loaded.settings.scale.map(count) };
        let caps = caps.as_scaled(pool, &agent.name);
        let schedule = agent.schedule().filter(|_| caps.agent > 0);
        let now = timestamp(self.now);
        Settings {
            caps,
            written: agent.settings.scale,
            queue_size: agent.settings.work_queue_size,
            schedule: schedule
                .as_ref()
                .map(|schedule| format!("{} ({})", schedule.expression().as_str(), schedule.zone().name())),
            next: schedule.zip(now).map(|(schedule, now)| schedule.next(now, NEXT)).unwrap_or_default(),
        }
    }
}
