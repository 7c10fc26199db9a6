//! What waits and what was not done; having an agent run; taking jobs out of queues and putting them back.

use std::time::Duration;

use bell_api::control::acts::{DoneAnswer, TriggerAnswer, TriggerRequest};
use bell_api::control::jobs::{
    JobAnswer, JobState, Queue, QueuesAnswer, REPLAYS_MAX, ReplayAnswer, ReplayRequest, ReplayResult,
    UndoneAnswer, UndoneLine, UndoneQuery,
};
use bell_api::outcome::Outcome;
use bell_coord::audit::act;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::accept::{Accepted, Offer};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Job, JobId, JobSpec, State, Trigger};
use bell_core::work::shelve::{DeadLetter, Moved, Replayed};
use bell_project::agent::Agent;
use bell_project::load::Loaded;
use bell_project::settings::OnStop;
use bell_why::words::count;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::control::{Control, record_name};
use crate::limits::{caps, room, rules};
use crate::nodes;
use crate::refused::Refused;
use crate::runs::no_such;
use crate::status::find;
use crate::who::Who;

/// Rows shown of a queue, or of what was not done.
const ROWS: usize = 1_000;
/// Characters in the id of a request: a UUID has 36.
const REQUEST_CHARS_MAX: usize = 64;

impl Control {
    /// What waits, agent by agent.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn jobs(&self) -> Result<QueuesAnswer, Refused> {
        let pool = self.coord.pool().await?;
        let mut queues = Vec::new();
        for (agent, line) in self.coord.lines().await? {
            let jobs = self.coord.queued(&agent, ROWS).await?;
            let paused = pool.pause_of(&agent).map(|pause| pause.reason.clone());
            queues.push(Queue { agent, waiting: line.waiting, jobs, paused });
        }
        Ok(QueuesAnswer { outcome: Outcome::Listed, queues })
    }

    /// Jobs that were not done, the latest first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn undone(&self, query: &UndoneQuery) -> Result<UndoneAnswer, Refused> {
        let limit = query.limit.unwrap_or(ROWS).clamp(1, ROWS);
        let page = self.coord.undone(query.after.as_deref(), limit).await?;
        let undone = page.rows.into_iter().map(|(at, (job, undone))| UndoneLine {
            job,
            agent: undone.agent,
            at_ms: at.0,
            fate: undone.fate,
        });
        Ok(UndoneAnswer { outcome: Outcome::Listed, undone: undone.collect(), next: page.next })
    }

    /// Where a job stands: at once, or when it is over or `wait` is.
    ///
    /// # Errors
    /// If there is no such job, or the store can't be read.
    pub async fn job(&self, name: &str, wait: Duration) -> Result<JobAnswer, Refused> {
        let id = JobId::from(record_name(name)?);
        if wait.is_zero() {
            return Ok(job_answer(id.clone(), self.job_of(&id).await?.0, Outcome::Listed));
        }
        match timeout(wait, self.over(&id)).await {
            Ok(job) => Ok(job_answer(id, job?, Outcome::Listed)),
            Err(_) => Ok(job_answer(id.clone(), self.job_of(&id).await?.0, Outcome::Waiting)),
        }
    }

    async fn over(&self, id: &JobId) -> Result<Job, Refused> {
        loop {
            let (job, version) = self.job_of(id).await?;
            if let State::Over { .. } = job.state {
                return Ok(job);
            }
            self.coord.job_changed(id, version).await?;
        }
    }

    async fn job_of(&self, id: &JobId) -> Result<(Job, u64), Refused> {
        self.coord.job(id).await?.ok_or_else(|| no_such(format!("could not find a job called {id}")))
    }

    /// Has an agent run. Accepted means stored: it will run, also if no daemon runs now.
    ///
    /// # Errors
    /// If there is no such agent, it is disabled, its queue is full, or the store can't be reached.
    pub async fn trigger(
        &self,
        agent: &str,
        request: &TriggerRequest,
        who: &Who,
    ) -> Result<TriggerAnswer, Refused> {
        let loaded = self.loaded();
        let agent = find(&loaded, agent)?;
        self.must_be_enabled(&loaded, agent).await?;
        let name = &agent.name;
        let by = who.words(request.by.as_deref());
        let once = request.request_id.as_deref().map(request_id).transpose()?;
        let spec =
            JobSpec { agent: name.clone(), trigger: Trigger::Manual { by: by.clone() }, rules: rules(agent) };
        let offer = Offer {
            id: new_job(),
            spec,
            payload: payload(request).into(),
            once: once.map(|id| format!("manual/{name}/{id}")),
            at: wall_now(),
        };
        let accepted = self.coord.accept(std::slice::from_ref(&offer), room(agent)).await?;
        let (job, ahead) = match accepted.first() {
            Some(Accepted::Queued { ahead, .. }) => (offer.id, Some(*ahead)),
            Some(Accepted::Duplicate(job)) => (job.clone(), None),
            None => (offer.id, None),
            Some(Accepted::Full) => {
                return Err(Refused::new(
                    Outcome::Busy,
                    format!("could not queue {name}: its queue is full"),
                    "Wait until it has worked some off, or raise work_queue_size.",
                ));
            }
        };
        tracing::info!(agent = %name, %job, by, "asked to run");
        if ahead.is_some() {
            // Jobs that are offered together share a commit, so the record of who asked follows it.
            let act = act(&who.recorded(request.by.as_deref()), "run", name).because(format!("job {job}"));
            self.record(act).await;
        }
        Ok(TriggerAnswer { outcome: Outcome::Written, job, ahead, fate: None, returned: None })
    }

    async fn must_be_enabled(&self, loaded: &Loaded, agent: &Agent) -> Result<(), Refused> {
        let pool = self.coord.pool().await?;
        if caps(loaded, agent).as_scaled(&pool, &agent.name).agent > 0 {
            return Ok(());
        }
        let name = &agent.name;
        Err(match pool.scales.get(name) {
            Some(said) => Refused::invalid(
                format!("could not run {name}: an operator has scaled it to 0: {}", said.reason),
                format!("Have it run as its settings say: bell scale {name} default."),
            ),
            None => Refused::invalid(
                format!("could not run {name}: it is disabled, its scale is 0"),
                "Set its scale to 1 or more.",
            ),
        })
    }

    /// Takes a job out of the queue, or keeps it from being tried again.
    ///
    /// # Errors
    /// If there is no such job, it does not wait, or the store can't be reached.
    pub async fn cancel(&self, job: &str, who: &Who) -> Result<DoneAnswer, Refused> {
        let id = JobId::from(record_name(job)?);
        let coord = self.coord.acting(act(&who.recorded(None), "cancel", &id));
        let done = moved(&id, "cancelled", coord.cancel(&id).await?)?;
        tracing::info!(job = %id, by = who.words(None), "cancelled");
        Ok(done)
    }

    /// Queues a job again that is over.
    ///
    /// # Errors
    /// If there is no such job, it is not over, its queue is full, or the store can't be reached.
    pub async fn replay(&self, job: &str, who: &Who) -> Result<DoneAnswer, Refused> {
        let id = JobId::from(record_name(job)?);
        let agent = self.coord.job(&id).await?.and_then(|(job, _)| self.agent_of(&job.spec.agent));
        // An agent that is gone has the room of one job.
        let size = agent.map_or(1, |agent| room(&agent).size);
        let coord = self.coord.acting(act(&who.recorded(None), "replay", &id));
        let done = moved(&id, "queued again", coord.replay(&id, size).await?)?;
        tracing::info!(job = %id, by = who.words(None), "queued again");
        Ok(done)
    }

    /// Replays dead letters.
    ///
    /// # Errors
    /// If there are too many, a name is none, or the store can't be reached.
    pub async fn replay_all(&self, request: &ReplayRequest, who: &Who) -> Result<ReplayAnswer, Refused> {
        let count = request.letters.len();
        if count > REPLAYS_MAX {
            return Err(Refused::invalid(
                format!("could not replay {count} dead letters at once: {REPLAYS_MAX} is the most"),
                "Send them in several requests.",
            ));
        }
        let letter = |job: &str, at_ms| Ok(DeadLetter { job: record_name(job)?.into(), since: Wall(at_ms) });
        let letters = request.letters.iter().map(|given| letter(&given.job, given.at_ms));
        let letters = letters.collect::<Result<Vec<_>, Refused>>()?;
        let loaded = self.loaded();
        let size = |agent: &AgentName| loaded.agents.get(agent).map(|agent| room(agent).size);
        let act = act(&who.recorded(request.by.as_deref()), "replay", format!("{count} dead letters"));
        let replayed = self.coord.acting(act).replay_all(&letters, size).await?;
        let results: Vec<_> = replayed.into_iter().map(replay_result).collect();
        let queued = results.iter().filter(|result| **result == ReplayResult::Queued).count();
        tracing::info!(count, queued, by = who.words(request.by.as_deref()), "dead letters replayed");
        Ok(ReplayAnswer { outcome: Outcome::Written, results })
    }

    /// How many waiting jobs a stop of the only daemon takes out of the queues now, by `on_stop`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn cleared_by_a_stop(&self) -> Result<u32, Refused> {
        if nodes::count(&self.coord).await? > 1 {
            return Ok(0);
        }
        let loaded = self.loaded();
        let clears = |agent: &AgentName| {
            loaded.agents.get(agent).is_some_and(|agent| agent.settings.on_stop == OnStop::Clear)
        };
        let lines = self.coord.lines().await?;
        Ok(lines.iter().filter(|(agent, _)| clears(agent)).map(|(_, line)| line.waiting).sum())
    }

    /// Takes every job of an agent out of its queue; each can be replayed.
    ///
    /// # Errors
    /// If the name is none, or the store can't be reached.
    pub async fn clear(&self, agent: &str, who: &Who) -> Result<DoneAnswer, Refused> {
        let name = self.known_agent(agent).await?;
        let coord = self.coord.acting(act(&who.recorded(None), "clear", &name));
        let cleared = coord.clear(&name).await?.len();
        tracing::info!(agent = %name, cleared, by = who.words(None), "queue cleared");
        Ok(DoneAnswer::new(format!(
            "cleared {} of {name}; bell jobs undone lists them",
            count(cleared, "job")
        )))
    }
}

/// What comes with the trigger: the words, and what else was told.
fn payload(request: &TriggerRequest) -> String {
    let mut fields: Map<String, Value> = request.context.clone().unwrap_or_default();
    if request.prompt.is_some() || fields.is_empty() {
        fields.insert("prompt".to_owned(), request.prompt.clone().into());
    }
    Value::Object(fields).to_string()
}

fn request_id(given: &str) -> Result<&str, Refused> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=REQUEST_CHARS_MAX).contains(&given.len()) && given.bytes().all(is_plain) {
        return Ok(given);
    }
    Err(Refused::invalid(
        format!("could not use the request id: it must have 1 to {REQUEST_CHARS_MAX} plain characters"),
        "Use letters, digits, -, _, . and : only; a UUID is good.",
    ))
}

fn job_answer(id: JobId, job: Job, outcome: Outcome) -> JobAnswer {
    let (state, fate) = match job.state {
        State::Queued { .. } => (JobState::Queued, None),
        State::Delayed { .. } => (JobState::Delayed, None),
        State::Running { .. } => (JobState::Running, None),
        State::Over { fate, .. } => (JobState::Over, Some(fate)),
    };
    let waits_for = job.lock_wait.map_or_else(Vec::new, |wait| wait.keys);
    JobAnswer {
        waits_for: waits_for.iter().map(ToString::to_string).collect(),
        outcome,
        job: id,
        agent: job.spec.agent,
        trigger: job.spec.trigger,
        accepted_ms: job.accepted.0,
        state,
        run: job.last_run,
        runs: job.runs,
        fate,
        returned: job.returned,
    }
}

fn replay_result(replayed: Replayed) -> ReplayResult {
    match replayed {
        Replayed::Queued => ReplayResult::Queued,
        Replayed::Full => ReplayResult::QueueFull,
        Replayed::NoAgent => ReplayResult::NoAgent,
        Replayed::Gone => ReplayResult::Gone,
    }
}

fn moved(id: &JobId, verb: &str, moved: Moved) -> Result<DoneAnswer, Refused> {
    match moved {
        Moved::Done => Ok(DoneAnswer::new(format!("{verb}: {id}"))),
        Moved::Not(state) => Err(Refused::new(
            Outcome::Busy,
            format!("could not do this to {id}: it is {}", state_word(&state)),
            "A job that waits can be cancelled, one that is over can be replayed, one that runs can be killed.",
        )),
        Moved::Full => Err(Refused::new(
            Outcome::Busy,
            format!("could not queue {id} again: the queue of its agent is full"),
            "Wait until it has worked some off, or raise work_queue_size.",
        )),
        Moved::Unknown => Err(no_such(format!("could not find a job called {id}"))),
    }
}

fn state_word(state: &State) -> String {
    match state {
        State::Queued { .. } => "waiting".to_owned(),
        State::Delayed { .. } => "waiting to be tried again".to_owned(),
        State::Running { run } => format!("being done by {run}"),
        State::Over { .. } => "over".to_owned(),
    }
}
