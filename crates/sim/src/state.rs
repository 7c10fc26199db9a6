//! The records of the store as of its last commit, by type; and what a commit changes in them.
//!
//! This is the checker's own copy. It is fed by what the store has applied, and no decision ever reads it.

use std::collections::{BTreeMap, BTreeSet};

use bell_core::key::Key;
use bell_core::lock::Lock;
use bell_core::session::{Session, SessionId};
use bell_core::time::{Revision, Timestamp};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::Fire;
use bell_core::work::job::{Job, JobId};
use bell_core::work::line::{Place, Pool, Ticket};
use bell_core::work::row::Event as Row;
use bell_core::work::run::{Run, RunId};
use bell_store::{Name, Stamp, Write};
use serde::de::DeserializeOwned;

/// What is stored.
#[derive(Default)]
pub struct State {
    /// The store's clock at the last look.
    pub now: Timestamp,
    /// Who holds and waits.
    pub locks: BTreeMap<Key, Lock>,
    /// The sessions.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Everything that runs.
    pub pool: Pool,
    /// Places in queues.
    pub tickets: BTreeMap<(AgentName, Place), JobId>,
    /// The jobs.
    pub jobs: BTreeMap<JobId, Job>,
    /// The runs.
    pub runs: BTreeMap<RunId, Run>,
    /// Ticks of schedules.
    pub fires: BTreeMap<(AgentName, Wall), Fire>,
    /// Jobs that wait for a retry.
    pub delayed: BTreeSet<JobId>,
    stamps: BTreeMap<Key, Revision>,
}

/// What a commit did to one record: from, to.
pub enum Change {
    /// To a lock.
    Lock(Key, Option<Lock>, Option<Lock>),
    /// To everything that runs.
    Pool(Pool, Pool),
    /// To a job.
    Job(JobId, Option<Box<Job>>, Option<Box<Job>>),
    /// To a run.
    Run(RunId, Option<Box<Run>>, Option<Box<Run>>),
    /// To a tick.
    Fire((AgentName, Wall), Option<Fire>, Option<Fire>),
    /// A row of history was written, or forgotten.
    History(Option<Box<Row>>),
    /// A record that is only looked at through the state, or not at all.
    Other,
}

impl State {
    /// Whether a session is stored and has not run out.
    pub fn is_alive(&self, session: &SessionId) -> bool {
        self.sessions.get(session).is_some_and(|session| session.is_live(self.now))
    }

    /// Those of a key's holders whose lease and session are alive.
    pub fn live_holders<'a>(&'a self, key: &Key) -> impl Iterator<Item = &'a bell_core::lock::Holder> {
        let holders = self.locks.get(key).into_iter().flat_map(|lock| &lock.holders);
        holders.filter(|holder| self.now < holder.expires && self.is_alive(&holder.session))
    }

    /// Takes in what a commit wrote. A record that can't be read is the checker's own fault, so it says so.
    ///
    /// # Errors
    /// The name of a record that can't be read.
    pub fn apply(
        &mut self,
        revision: Revision,
        now: Timestamp,
        writes: &[(Name, Write)],
    ) -> Result<Vec<Change>, String> {
        self.now = now;
        writes.iter().map(|(name, write)| self.write(revision, name.as_str(), write)).collect()
    }

    fn write(&mut self, revision: Revision, name: &str, write: &Write) -> Result<Change, String> {
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        let bytes = match write {
            Write::Put(bytes, _) => Some(bytes.as_slice()),
            Write::Delete => None,
        };
        let unreadable = || format!("the record {name} can't be read");
        Ok(match kind {
            "lock" => {
                let key = Key::parse(rest).map_err(|_| unreadable())?;
                let stamp = self.stamp(&key, write, revision);
                let lock = read::<Lock>(name, bytes)?.map(|lock| lock.stamped(stamp));
                let before = put(&mut self.locks, &key, lock.clone());
                Change::Lock(key, before, lock)
            }
            "session" => {
                put(&mut self.sessions, &SessionId::from(rest), read::<Session>(name, bytes)?);
                Change::Other
            }
            "work" if rest == "pool" => {
                let pool = read::<Pool>(name, bytes)?.unwrap_or_default();
                Change::Pool(std::mem::replace(&mut self.pool, pool.clone()), pool)
            }
            "job" => {
                let (id, job) = (JobId::from(rest), read::<Job>(name, bytes)?);
                let before = put(&mut self.jobs, &id, job.clone());
                Change::Job(id, before.map(Box::new), job.map(Box::new))
            }
            "run" => {
                let (id, run) = (RunId::from(rest), read::<Run>(name, bytes)?);
                let before = put(&mut self.runs, &id, run.clone());
                Change::Run(id, before.map(Box::new), run.map(Box::new))
            }
            "fire" => {
                let at = rest.split_once('/').and_then(fire_of).ok_or_else(unreadable)?;
                let fire = read::<Fire>(name, bytes)?;
                let before = put(&mut self.fires, &at, fire.clone());
                Change::Fire(at, before, fire)
            }
            "ticket" => {
                let at = rest.split_once('/').and_then(ticket_of).ok_or_else(unreadable)?;
                let ticket = read::<Ticket>(name, bytes)?.map(|ticket| ticket.job);
                put(&mut self.tickets, &at, ticket);
                Change::Other
            }
            "delay" => {
                let job = rest.split_once('/').map(|(_, job)| JobId::from(job)).ok_or_else(unreadable)?;
                if bytes.is_some() {
                    self.delayed.insert(job)
                } else {
                    self.delayed.remove(&job)
                };
                Change::Other
            }
            "history" => Change::History(read::<Row>(name, bytes)?.map(Box::new)),
            _ => Change::Other,
        })
    }

    /// The stamp of a lock's record, which its new grants have as their fence.
    fn stamp(&mut self, key: &Key, write: &Write, revision: Revision) -> Revision {
        let stamp = match write {
            Write::Put(_, Stamp::Keep) => self.stamps.get(key).copied().unwrap_or(revision),
            Write::Put(_, Stamp::New) | Write::Delete => revision,
        };
        match write {
            Write::Put(..) => self.stamps.insert(key.clone(), stamp),
            Write::Delete => self.stamps.remove(key),
        };
        stamp
    }
}

fn put<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    }
}

fn read<T: DeserializeOwned>(name: &str, bytes: Option<&[u8]>) -> Result<Option<T>, String> {
    let read = bytes.map(serde_json::from_slice).transpose();
    read.map_err(|error| format!("the record {name} can't be read: {error}"))
}

/// Ticks are named so that the latest comes first.
fn fire_of((agent, when): (&str, &str)) -> Option<(AgentName, Wall)> {
    let down = u64::from_str_radix(when, 16).ok()?;
    Some((agent.parse().ok()?, Wall(u64::MAX - down)))
}

fn ticket_of((agent, place): (&str, &str)) -> Option<(AgentName, Place)> {
    Some((agent.parse().ok()?, u64::from_str_radix(place, 16).ok()?))
}
