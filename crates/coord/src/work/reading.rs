//! What there is and what happened. Nothing here commits, so all of it works while no daemon runs.

use bell_core::time::Version;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::Fire;
use bell_core::work::job::{Fate, Job, JobId};
use bell_core::work::line::{Line, Pool, Ticket};
use bell_core::work::row::{Event, RowId, Undone};
use bell_core::work::run::{Run, RunId};
use bell_store::info::Limits;
use bell_store::{Name, Revision, Snapshot, Watch};
use serde::de::DeserializeOwned;

use crate::Coord;
use crate::denied::Denied;
use crate::load::decode;
use crate::space::{latest_first, time_of};

/// Dead letters looked at to count some of them: a number for a person, which is not worth reading millions of records.
pub const DEAD_LETTERS_COUNTED: usize = 10_000;
/// Dead letters read at once.
const PAGE: usize = 1_000;

/// One page of things that happened or were left, the latest first.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// When, and what.
    pub rows: Vec<(Wall, T)>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Coord {
    /// A job.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn job(&self, id: &JobId) -> Result<Option<(Job, Version)>, Denied> {
        self.one(&RowId::Job(id.clone())).await
    }

    /// What came with the trigger of a job.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn payload(&self, id: &JobId) -> Result<Option<String>, Denied> {
        let name = self.space().row(&RowId::Payload(id.clone()));
        let found = self.store().read(std::slice::from_ref(&name)).await?;
        Ok(found.records.get(&name).map(|record| String::from_utf8_lossy(&record.value).into_owned()))
    }

    /// A run.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn run(&self, id: &RunId) -> Result<Option<(Run, Version)>, Denied> {
        self.one(&RowId::Run(id.clone())).await
    }

    /// Everything that runs, and what is paused.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn pool(&self) -> Result<Pool, Denied> {
        Ok(self.one(&RowId::Pool).await?.map_or_else(Pool::default, |(pool, _)| pool))
    }

    /// The queue of an agent.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn line(&self, agent: &AgentName) -> Result<Line, Denied> {
        Ok(self.one(&RowId::Line(agent.clone())).await?.map_or_else(Line::default, |(line, _)| line))
    }

    /// Every queue that there has been, by agent.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn lines(&self) -> Result<Vec<(AgentName, Line)>, Denied> {
        let prefix = self.space().kind("work/line/");
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let page = self.store().scan(&prefix, &from, Limits::CONTRACT.page).await?;
            for (name, record) in &page.records {
                let agent = name.as_str().strip_prefix(&prefix).and_then(|agent| agent.parse().ok());
                if let Some(agent) = agent {
                    all.push((agent, decode(name, &record.value)?));
                }
            }
            match page.records.keys().next_back() {
                Some(last) if page.more => from = format!("{last}\u{1}"),
                _ => return Ok(all),
            }
        }
    }

    /// The first jobs in the queue of an agent, in order.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn queued(&self, agent: &AgentName, limit: usize) -> Result<Vec<JobId>, Denied> {
        let page = self.store().scan(&self.space().kind(&format!("ticket/{agent}/")), "", limit).await?;
        let tickets = page.records.iter().map(|(name, record)| decode::<Ticket>(name, &record.value));
        Ok(tickets.map(|ticket| ticket.map(|ticket| ticket.job)).collect::<Result<_, _>>()?)
    }

    /// What happened, the latest first, from where the page before ended.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn history(&self, from: Option<&str>, limit: usize) -> Result<Page<Event>, Denied> {
        let prefix = self.space().kind("history/");
        let page = self.store().scan(&prefix, from.unwrap_or_default(), limit).await?;
        page_of(&page, &prefix, |_, event| event)
    }

    /// Jobs that were not done, the latest first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn undone(&self, from: Option<&str>, limit: usize) -> Result<Page<(JobId, Undone)>, Denied> {
        let prefix = self.space().kind("undone/");
        let page = self.store().scan(&prefix, from.unwrap_or_default(), limit).await?;
        page_of(&page, &prefix, |rest, undone| (JobId::from(rest), undone))
    }

    /// How many jobs are dead letters because they were cleared since then, among the latest [`DEAD_LETTERS_COUNTED`].
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn cleared_since(&self, since: Wall) -> Result<usize, Denied> {
        let (mut cleared, mut looked_at, mut from) = (0, 0, None);
        while looked_at < DEAD_LETTERS_COUNTED {
            let page = self.undone(from.as_deref(), PAGE).await?;
            looked_at += page.rows.len();
            let recent = page.rows.iter().take_while(|(at, _)| *at >= since);
            cleared += recent.filter(|(_, (_, undone))| undone.fate == Fate::Cleared).count();
            let is_older = page.rows.last().is_some_and(|(at, _)| *at < since);
            from = page.next.filter(|_| !is_older);
            if from.is_none() {
                break;
            }
        }
        Ok(cleared)
    }

    /// Ticks of an agent's schedule, the latest first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn fires(
        &self,
        agent: &AgentName,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Page<Fire>, Denied> {
        let prefix = self.space().kind(&format!("fire/{agent}/"));
        let page = self.store().scan(&prefix, from.unwrap_or_default(), limit).await?;
        page_of(&page, &prefix, |_, fire| fire)
    }

    /// Returns when a queue, or what runs, or what is paused, may have changed after `seen`; answers with the
    /// revision to wait for next.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn work_changed(&self, seen: Revision) -> Result<Revision, Denied> {
        let prefix = self.space().kind("work/");
        self.store().changed(&Watch::Prefix(prefix.clone(), seen)).await?;
        Ok(self.store().scan(&prefix, "", 1).await?.revision)
    }

    /// Returns when a job may have changed after this version of it.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn job_changed(&self, id: &JobId, seen: Version) -> Result<(), Denied> {
        let name = self.space().row(&RowId::Job(id.clone()));
        Ok(self.store().changed(&Watch::Names(vec![(name, seen)])).await?)
    }

    pub(super) async fn one<T: DeserializeOwned>(&self, id: &RowId) -> Result<Option<(T, Version)>, Denied> {
        let name = self.space().row(id);
        let found = self.store().read(std::slice::from_ref(&name)).await?;
        self.clock().told(found.now);
        let Some(record) = found.records.get(&name) else { return Ok(None) };
        Ok(Some((decode(&name, &record.value)?, record.version)))
    }
}

/// The rows of a page: `make` gets what stands behind the time in the row's name.
fn page_of<R: DeserializeOwned, T>(
    page: &Snapshot,
    prefix: &str,
    make: impl Fn(&str, R) -> T,
) -> Result<Page<T>, Denied> {
    let mut rows = Vec::new();
    for (name, record) in &page.records {
        let Some(rest) = name.as_str().strip_prefix(prefix) else { continue };
        let Some(at) = time_of(rest) else { continue };
        let about = rest.get(latest_first(at).len() + 1..).unwrap_or_default();
        rows.push((at, make(about, decode(name, &record.value)?)));
    }
    let after = |name: &Name| format!("{name}\u{1}");
    Ok(Page { rows, next: page.records.keys().next_back().filter(|_| page.more).map(after) })
}
