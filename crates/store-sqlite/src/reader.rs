//! One thread that answers reads on a connection of its own, so that none waits for a disk.
//!
//! Reads that wait together are answered from one snapshot, begun after all of them were asked: each sees
//! whatever was committed before it.

use std::sync::Arc;

use bell_store::group::Group;
use bell_store::reply::{self, Reply};
use bell_store::{Error, Kind, Name, Result, Snapshot};
use rusqlite::Connection;

use crate::clock::StoreClock;
use crate::doubt::{Doubt, roll_back};
use crate::fault::Fault;
use crate::floor::Floor;
use crate::identity::OpenFiles;
use crate::records;

/// What is asked.
pub(crate) enum Question {
    /// For these records.
    Names(Vec<Name>),
    /// For a page of a scan.
    Range { prefix: String, from: String, limit: usize },
}

struct Asked {
    question: Question,
    answer: Reply<Result<Snapshot>>,
}

/// What answers are made from.
pub(crate) struct Source {
    pub(crate) connection: Connection,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) doubt: Arc<Doubt>,
    pub(crate) floor: Arc<Floor>,
}

/// The reading thread. Dropped, it answers what was asked and ends.
pub(crate) struct Reader(Group<Asked>);

impl Reader {
    pub(crate) fn start(source: Source) -> Result<Self> {
        let engine = move |asked: Vec<Asked>| source.serve(asked);
        Group::start("bell-sqlite-read", engine).map(Self).map_err(crate::no_thread)
    }

    pub(crate) async fn ask(&self, question: Question) -> Result<Snapshot> {
        let (answer, answered) = Reply::new();
        let submitted = self.0.submit(Asked { question, answer });
        match (submitted, answered.await) {
            (Ok(()), Ok(answer)) => answer,
            _ => Err(Error::new(Kind::Unavailable, "read records: the reading thread has ended")
                .hint("Start the process again, and report what it logged.")),
        }
    }
}

impl Source {
    fn serve(&self, mut asked: Vec<Asked>) {
        // Who stopped waiting needs no answer.
        asked.retain(|asked| !asked.answer.is_closed());
        match self.answers(&asked) {
            Ok(answers) => {
                let answers = asked.into_iter().zip(answers);
                reply::tell(answers.map(|(asked, answer)| (asked.answer, Ok(answer))));
            }
            Err(fault) => {
                roll_back(&self.connection);
                let refuse = |asked: Asked| (asked.answer, Err(fault.error("read records")));
                reply::tell(asked.into_iter().map(refuse));
            }
        }
    }

    fn answers(&self, asked: &[Asked]) -> Result<Vec<Snapshot>, Fault> {
        let Self { connection, clock, .. } = self;
        self.files.check()?;
        self.doubt.settle(connection)?;
        let floor = self.floor.now();
        connection.prepare_cached("BEGIN")?.execute([])?;
        let meta = records::meta(connection)?;
        Floor::check(floor, meta.revision)?;
        self.floor.raise(meta.revision);
        clock.follow(meta.base_ms, meta.last);
        let mut answers = Vec::with_capacity(asked.len());
        for Asked { question, .. } in asked {
            let found = match question {
                Question::Names(names) => {
                    Snapshot { records: records::read(connection, names)?, ..Snapshot::default() }
                }
                Question::Range { prefix, from, limit } => records::scan(connection, prefix, from, *limit)?,
            };
            answers.push(Snapshot { revision: meta.revision, now: clock.now(), ..found });
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(answers)
    }
}
