//! What happens, in the order of the store's commits, from any position on.
//!
//! Rows of history and accepted jobs are named by the wall clocks of those who wrote them down, which is no order to
//! resume in: a row may come to stand among older ones. Their commits have one order. So a position is a commit's
//! revision, and the wall clock only tells how far back to look: by more than machines of one fleet disagree.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bell_core::work::Wall;
use bell_core::work::job::{Job, JobId};
use bell_core::work::row::Event;
use bell_store::info::Limits;
use bell_store::{Name, Record, Revision, Watch};

use super::wall_now;
use crate::Coord;
use crate::denied::Denied;
use crate::load::decode;
use crate::space::time_of;

/// How far two machines' clocks may be apart, and a commit behind the moment that it notes, both together. What is
/// noted with more than this is in the history, and may be missing here.
const APART_MAX_MS: u64 = 300_000;

/// Things that one look gives at the most: the first of them. Who was away for long reads on in pieces of this size.
const LOOK_MAX: usize = 20_000;

/// A place in the order of what happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The commit.
    revision: Revision,
    /// How many of the things that it noted are behind.
    count: u32,
    /// When it was, on the wall clock of whoever noted it.
    at: Wall,
}

/// A text that is no position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a position is the id of an event, as it was given")]
pub struct BadPosition;

impl Position {
    /// Before everything that happened since then.
    pub fn since(at: Wall) -> Self {
        Self { revision: 0, count: 0, at: Wall(at.0.saturating_add(APART_MAX_MS)) }
    }

    /// Whether this is before `other`.
    pub fn is_before(&self, other: &Self) -> bool {
        (self.revision, self.count) < (other.revision, other.count)
    }

    /// The commit that it stands at.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn looks_back_to(&self) -> Wall {
        Wall(self.at.0.saturating_sub(APART_MAX_MS))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.revision, self.count, self.at.0)
    }
}

impl FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        // A sign would be read as part of a number.
        if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(BadPosition);
        }
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(BadPosition);
        let (revision, count, at) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(BadPosition);
        }
        Ok(Self {
            revision: revision.parse().map_err(|_| BadPosition)?,
            count: count.parse().map_err(|_| BadPosition)?,
            at: Wall(at.parse().map_err(|_| BadPosition)?),
        })
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Happening {
    /// Behind it.
    pub position: Position,
    /// When, on the wall clock of whoever noted it.
    pub at: Wall,
    /// What.
    pub what: Happened,
}

/// What can happen.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A row of history.
    Noted(Event),
    /// A job was accepted; it may have changed since.
    Accepted(JobId, Box<Job>),
}

/// What has happened after a position.
#[derive(Clone, Debug)]
pub struct Happenings {
    /// In the order of their commits.
    pub happenings: Vec<Happening>,
    /// Every commit up to this one is in it.
    pub seen: Revision,
}

impl Coord {
    /// The position behind everything that has happened.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn latest_position(&self) -> Result<Position, Denied> {
        let at = wall_now();
        let revision = self.store().read(&[]).await?.revision;
        Ok(Position { revision, count: u32::MAX, at })
    }

    /// What has happened after `position`: all of it, or the first 20,000 things.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn happened_after(&self, position: &Position) -> Result<Happenings, Denied> {
        let (history, jobs) = (self.space().kind("history/"), self.space().kind("job/"));
        let since = position.looks_back_to();
        let time = |name: &str| name.strip_prefix(&history).and_then(time_of);
        let mut found = Found { from: position.revision, seen: None, records: BTreeMap::new() };
        self.gather(&history, String::new(), |name| time(name).is_some_and(|at| at >= since), &mut found)
            .await?;
        // Names of jobs begin with the time at which they were made.
        self.gather(&jobs, format!("{jobs}{:012x}", since.0), |_| true, &mut found).await?;
        let (mut happenings, mut before) = (Vec::new(), (0, 0));
        for ((revision, name), record) in found.records {
            let (at, what) = match time(name.as_str()) {
                Some(at) => (at, Happened::Noted(decode(&name, &record.value)?)),
                None => {
                    let id = JobId::from(name.as_str().strip_prefix(&jobs).unwrap_or_default());
                    let job: Job = decode(&name, &record.value)?;
                    (job.accepted, Happened::Accepted(id, Box::new(job)))
                }
            };
            // What one commit noted is in the order of its names, and counted, so that a position can stand between.
            let count = if before.0 == revision { before.1 + 1 } else { 1 };
            before = (revision, count);
            let behind = Position { revision, count, at };
            if position.is_before(&behind) {
                happenings.push(Happening { position: behind, at, what });
            }
        }
        Ok(Happenings { happenings, seen: found.seen.unwrap_or(position.revision) })
    }

    /// Returns when something may have happened after this commit.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn may_have_happened(&self, seen: Revision) -> Result<(), Denied> {
        let [history, jobs] = ["history/", "job/"].map(|kind| Watch::Prefix(self.space().kind(kind), seen));
        let changed = tokio::select! {
            changed = self.store().changed(&history) => changed,
            changed = self.store().changed(&jobs) => changed,
        };
        Ok(changed?)
    }

    /// The records under a prefix, until one is not `wanted`.
    async fn gather(
        &self,
        prefix: &str,
        mut from: String,
        wanted: impl Fn(&str) -> bool,
        found: &mut Found,
    ) -> Result<(), Denied> {
        loop {
            let page = self.store().scan(prefix, &from, Limits::CONTRACT.page).await?;
            let last = page.records.keys().next_back().filter(|_| page.more).cloned();
            // Pages are of different revisions: what came after the first one is left for the next look.
            found.seen.get_or_insert(page.revision);
            for (name, record) in page.records {
                if !wanted(name.as_str()) {
                    return Ok(());
                }
                found.take(name, record);
            }
            match last {
                Some(last) => from = format!("{last}\u{1}"),
                None => return Ok(()),
            }
        }
    }
}

/// What a look has found, in order.
struct Found {
    /// The commit of the position: things of it are counted, whether they are before the position or behind it.
    from: Revision,
    seen: Option<Revision>,
    records: BTreeMap<(Revision, Name), Record>,
}

impl Found {
    fn take(&mut self, name: Name, record: Record) {
        // A job changes and keeps the stamp that it was made with. A row of history is written once.
        let revision = record.stamp;
        if revision < self.from || self.seen.is_some_and(|seen| revision > seen) {
            return;
        }
        self.records.insert((revision, name), record);
        if self.records.len() > LOOK_MAX
            && let Some(((cut, _), _)) = self.records.pop_last()
        {
            // A commit that is not whole is left for the next look.
            self.records.split_off(&(cut, Name::from("")));
            self.seen = Some(cut - 1);
        }
    }
}
