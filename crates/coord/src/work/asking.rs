//! Single facts, for whoever asks why: which run lives, what a tick came to. Nothing here commits.

use std::collections::BTreeSet;

use bell_core::key::Key;
use bell_core::session::SessionId;
use bell_core::time::Timestamp;
use bell_core::view::Missing;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::Fire;
use bell_core::work::job::{Job, JobId, State};
use bell_core::work::line::Slot;
use bell_core::work::row::{Event, RowId, What};
use bell_core::work::run::{Run, RunId};
use bell_store::Name;

use crate::Coord;
use crate::denied::Denied;
use crate::load::{Loaded, decode};
use crate::space::latest_first;

/// How far the wall clocks of two nodes may be apart for each to find what the other wrote down.
const CLOCKS_APART_MS: u64 = 5 * 60 * 1_000;
/// Rows of history read at once.
const HISTORY_PAGE: usize = 1_000;
/// Rows of history looked through for the runs of a job: bounded work for the store.
const HISTORY_LOOKED_AT: usize = 200_000;

/// Jobs of one page of [`Coord::jobs_since`].
#[derive(Clone, Debug)]
pub struct Jobs {
    /// The jobs, the oldest first.
    pub jobs: Vec<(JobId, Job)>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Coord {
    /// The store's time, which leases and retries are measured on.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn store_now(&self) -> Result<Timestamp, Denied> {
        Ok(self.store().now().await?)
    }

    /// Everything that runs, and whether it lives: a run that does not is ended as lost by the next daemon that looks.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn slots(&self) -> Result<Vec<(Slot, bool)>, Denied> {
        let slots = self.pool().await?.slots;
        let mut loaded = Loaded::default();
        let sessions = slots.iter().map(|slot| slot.session.clone()).collect();
        self.load(&mut loaded, &Missing { sessions, ..Missing::default() }).await?;
        let lives = |slot: Slot| {
            let alive = loaded.view.is_alive(&slot.session);
            (slot, alive)
        };
        Ok(slots.into_iter().map(lives).collect())
    }

    /// The keys that a session holds, at most `limit`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn keys_of(&self, session: &SessionId, limit: usize) -> Result<Vec<Key>, Denied> {
        self.held_keys(session, limit).await
    }

    /// What a tick of a schedule came to.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn fire_at(&self, agent: &AgentName, nominal: Wall) -> Result<Option<Fire>, Denied> {
        Ok(self.one(&RowId::Fire(agent.clone(), nominal)).await?.map(|(fire, _)| fire))
    }

    /// What history says of the end of a run.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn end_of(&self, run: &RunId, at: Wall) -> Result<Option<Event>, Denied> {
        Ok(self.one(&RowId::History(at, run.to_string())).await?.map(|(event, _)| event))
    }

    /// What happened from one moment to another, the latest first, at most `limit` rows.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn happened(&self, from: Wall, to: Wall, limit: usize) -> Result<Vec<(Wall, Event)>, Denied> {
        let start = format!("{}{}", self.space().kind("history/"), latest_first(to));
        let page = self.history(Some(&start), limit).await?;
        Ok(page.rows.into_iter().take_while(|(at, _)| *at >= from).collect())
    }

    /// The runs of a job that are on record, the first attempt first, at most `limit` of the last ones.
    ///
    /// Rows of history name the runs that ended, and the job its last one. History is read from the job's end back to its
    /// acceptance, until every attempt is found.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn runs_of(&self, id: &JobId, job: &Job, limit: usize) -> Result<Vec<(RunId, Run)>, Denied> {
        let wanted = usize::try_from(job.runs).unwrap_or(usize::MAX).min(limit);
        let mut names: BTreeSet<RunId> = job.last_run.iter().cloned().collect();
        let start = match &job.state {
            State::Over { at, .. } => latest_first(Wall(at.0.saturating_add(CLOCKS_APART_MS))),
            State::Queued { .. } | State::Delayed { .. } | State::Running { .. } => String::new(),
        };
        let since = Wall(job.accepted.0.saturating_sub(CLOCKS_APART_MS));
        let mut from = Some(format!("{}{start}", self.space().kind("history/")));
        let mut looked_at = 0;
        while names.len() < wanted
            && looked_at < HISTORY_LOOKED_AT
            && let Some(start) = from.take()
        {
            let page = self.history(Some(&start), HISTORY_PAGE).await?;
            looked_at += page.rows.len();
            let is_older = page.rows.last().is_some_and(|(at, _)| *at < since);
            let of_job = page.rows.into_iter().filter(|(_, event)| event.job.as_ref() == Some(id));
            names.extend(of_job.filter_map(|(_, event)| match event.what {
                What::RunEnded { run, .. } => Some(run),
                _ => None,
            }));
            from = page.next.filter(|_| !is_older);
        }
        let mut runs = Vec::with_capacity(names.len());
        for name in names {
            if let Some((run, _)) = self.run(&name).await? {
                runs.push((name, run));
            }
        }
        runs.sort_by_key(|(_, run)| (run.attempt, run.claimed));
        Ok(runs.split_off(runs.len().saturating_sub(limit)))
    }

    /// Jobs whose name begins so, at most `limit`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn jobs_like(&self, start: &str, limit: usize) -> Result<Vec<JobId>, Denied> {
        Ok(self.named("job/", start, limit).await?.iter().map(|name| JobId::from(name.as_str())).collect())
    }

    /// Runs whose name begins so, at most `limit`.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn runs_like(&self, start: &str, limit: usize) -> Result<Vec<RunId>, Denied> {
        Ok(self.named("run/", start, limit).await?.iter().map(|name| RunId::from(name.as_str())).collect())
    }

    /// Jobs that were accepted at `since` or later, the oldest first, from where the page before ended.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn jobs_since(&self, since: Wall, from: Option<&str>, limit: usize) -> Result<Jobs, Denied> {
        let prefix = self.space().kind("job/");
        // The name of a job begins with the time at which it was made, which is a moment before it was accepted.
        let first = || format!("{prefix}{:012x}", since.0.saturating_sub(MADE_BEFORE_MS));
        let page = self.store().scan(&prefix, &from.map_or_else(first, str::to_owned), limit).await?;
        let mut jobs = Vec::new();
        for (name, record) in &page.records {
            let job: Job = decode(name, &record.value)?;
            if let Some(id) = name.as_str().strip_prefix(&prefix).filter(|_| job.accepted >= since) {
                jobs.push((JobId::from(id), job));
            }
        }
        let after = |name: &Name| format!("{name}\u{1}");
        Ok(Jobs { jobs, next: page.records.keys().next_back().filter(|_| page.more).map(after) })
    }

    async fn named(&self, kind: &str, start: &str, limit: usize) -> Result<Vec<String>, Denied> {
        let prefix = self.space().kind(kind);
        let page = self.store().scan(&format!("{prefix}{start}"), "", limit).await?;
        let names = page.records.keys().filter_map(|name| name.as_str().strip_prefix(&prefix));
        Ok(names.map(str::to_owned).collect())
    }
}

/// A job is named before it is offered: by as much as an offer may take, and what a clock may be set back by.
const MADE_BEFORE_MS: u64 = 60_000;
