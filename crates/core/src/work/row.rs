//! Which records of the work there are, and how a decision gets at them by type.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Wall;
use super::agent::AgentName;
use super::delivery::{Delivery, DeliveryKey};
use super::fire::Fire;
use super::job::{Fate, Job, JobId};
use super::line::{Line, Place, Pool, Ticket};
use super::receive::Seen;
use super::run::{End, Run, RunId};
use crate::time::Timestamp;
use crate::view::{Decided, Draft};

/// Names a record of the work.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowId {
    /// Everything that runs.
    Pool,
    /// The queue of an agent.
    Line(AgentName),
    /// A place in it.
    Ticket(AgentName, Place),
    /// A job.
    Job(JobId),
    /// What came with its trigger.
    Payload(JobId),
    /// A run.
    Run(RunId),
    /// A time that a schedule named.
    Fire(AgentName, Wall),
    /// That something must happen only once: the job that came of it.
    Once(String),
    /// A job that is to be queued again, by when.
    Delay(Timestamp, JobId),
    /// A job that was not done, the latest first.
    Undone(Wall, JobId),
    /// Something that happened, the latest first.
    History(Wall, String),
    /// A delivery from outside, the latest first.
    Delivery(Wall, DeliveryKey),
    /// That a delivery has come before.
    Seen(DeliveryKey),
}

/// A record of the work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    /// See [`RowId::Pool`].
    Pool(Pool),
    /// See [`RowId::Line`].
    Line(Line),
    /// See [`RowId::Ticket`].
    Ticket(Ticket),
    /// See [`RowId::Job`].
    Job(Job),
    /// See [`RowId::Payload`].
    Payload(Arc<str>),
    /// See [`RowId::Run`].
    Run(Run),
    /// See [`RowId::Fire`].
    Fire(Fire),
    /// See [`RowId::Once`].
    Once(JobId),
    /// See [`RowId::Delay`].
    Delay(AgentName),
    /// See [`RowId::Undone`].
    Undone(Undone),
    /// See [`RowId::History`].
    History(Event),
    /// See [`RowId::Delivery`].
    Delivery(Arc<Delivery>),
    /// See [`RowId::Seen`].
    Seen(Seen),
}

/// That a job was not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Undone {
    /// Whose job.
    pub agent: AgentName,
    /// What became of it.
    pub fate: Fate,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// To which agent; `None`: to the whole fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// To which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// Something that happened to a job.
    pub fn of_job(agent: &AgentName, job: &JobId, what: What) -> Self {
        Self { agent: Some(agent.clone()), job: Some(job.clone()), what }
    }
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A run ended.
    RunEnded {
        /// Which.
        run: RunId,
        /// When it had begun; `None`: it never did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begun: Option<Wall>,
        /// How.
        end: End,
        /// What follows: done, tried again, run again.
        then: Then,
    },
    /// A tick of a schedule did not become a job.
    Skipped {
        /// When it was due.
        nominal: Wall,
        /// Why it did not.
        reason: String,
    },
    /// A job left the queue without being run.
    Shelved {
        /// What became of it.
        fate: Fate,
    },
    /// A job that was over was queued again.
    Replayed,
    /// Everything, or this agent, was paused or resumed.
    Paused {
        /// In whose words; `None`: resumed.
        reason: Option<String>,
    },
    /// An operator said how many of this agent may run.
    Scaled {
        /// So many; `None`: as many as its settings say.
        scale: Option<u32>,
        /// In whose words.
        reason: String,
    },
}

/// What follows from the end of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The job is over.
    Over,
    /// It had not begun: it is the first in the queue again.
    Requeued,
    /// It is run again at once, as the run asked.
    Rerun,
    /// It is tried again after a while.
    Retry {
        /// How long, in milliseconds.
        after_ms: u64,
    },
}

/// A record that decisions read by its type.
pub(crate) trait Typed: Sized {
    type Id;
    fn row_id(id: &Self::Id) -> RowId;
    fn of(row: &Row) -> Option<&Self>;
    fn into_row(self) -> Row;
}

macro_rules! typed {
    ($type:ident, $id:ty, |$name:ident| $row_id:expr) => {
        impl Typed for $type {
            type Id = $id;
            fn row_id($name: &$id) -> RowId {
                $row_id
            }
            fn of(row: &Row) -> Option<&Self> {
                if let Row::$type(record) = row { Some(record) } else { None }
            }
            fn into_row(self) -> Row {
                Row::$type(self)
            }
        }
    };
}

typed!(Pool, (), |_id| RowId::Pool);
typed!(Line, AgentName, |agent| RowId::Line(agent.clone()));
typed!(Ticket, (AgentName, Place), |at| RowId::Ticket(at.0.clone(), at.1));
typed!(Job, JobId, |id| RowId::Job(id.clone()));
typed!(Run, RunId, |id| RowId::Run(id.clone()));
typed!(Fire, (AgentName, Wall), |at| RowId::Fire(at.0.clone(), at.1));
typed!(Seen, DeliveryKey, |key| RowId::Seen(key.clone()));

/// As those above, shared: it is much larger than the others, and stays as it was told.
impl Typed for Arc<Delivery> {
    type Id = (Wall, DeliveryKey);
    fn row_id(id: &Self::Id) -> RowId {
        RowId::Delivery(id.0, id.1.clone())
    }
    fn of(row: &Row) -> Option<&Self> {
        if let Row::Delivery(record) = row { Some(record) } else { None }
    }
    fn into_row(self) -> Row {
        Row::Delivery(self)
    }
}

impl Draft<'_> {
    /// A record as this decision has left it.
    pub(crate) fn get<T: Typed>(&self, id: &T::Id) -> Decided<Option<&T>> {
        Ok(self.row(&T::row_id(id))?.and_then(T::of))
    }

    /// Puts a record.
    pub(crate) fn put<T: Typed>(&mut self, id: &T::Id, record: T) {
        self.set_row(T::row_id(id), Some(record.into_row()));
    }

    /// Deletes a record.
    pub(crate) fn delete<T: Typed>(&mut self, id: &T::Id) {
        self.set_row(T::row_id(id), None);
    }

    /// Everything that runs.
    pub(crate) fn pool(&self) -> Decided<Pool> {
        Ok(self.get::<Pool>(&())?.cloned().unwrap_or_default())
    }

    /// The queue of an agent.
    pub(crate) fn line(&self, agent: &AgentName) -> Decided<Line> {
        Ok(self.get::<Line>(agent)?.cloned().unwrap_or_default())
    }

    /// Notes what happened. `about` makes the row's name distinct: nothing happens twice to one thing in one
    /// millisecond.
    pub(crate) fn note(&mut self, at: Wall, about: impl Into<String>, event: Event) {
        self.set_row(RowId::History(at, about.into()), Some(Row::History(event)));
    }
}
