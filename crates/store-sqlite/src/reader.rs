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

/// The reading thread. Dropped, it answers what was asked and ends.
pub(crate) struct Reader(Group<Asked>);

impl Reader {
    pub(crate) fn start(connection: Connection, clock: Arc<StoreClock>, doubt: Arc<Doubt>) -> Result<Self> {
        let engine = move |asked: Vec<Asked>| serve(&connection, &clock, &doubt, asked);
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

fn serve(connection: &Connection, clock: &StoreClock, doubt: &Doubt, mut asked: Vec<Asked>) {
    // Who stopped waiting needs no answer.
    asked.retain(|asked| !asked.answer.is_closed());
    match answers(connection, clock, doubt, &asked) {
        Ok(answers) => {
            let answers = asked.into_iter().zip(answers);
            reply::tell(answers.map(|(asked, answer)| (asked.answer, Ok(answer))));
        }
        Err(fault) => {
            roll_back(connection);
            reply::tell(asked.into_iter().map(|asked| (asked.answer, Err(fault.error("read records")))));
        }
    }
}

fn answers(
    connection: &Connection,
    clock: &StoreClock,
    doubt: &Doubt,
    asked: &[Asked],
) -> Result<Vec<Snapshot>, Fault> {
    doubt.settle(connection)?;
    connection.prepare_cached("BEGIN")?.execute([])?;
    let meta = records::meta(connection)?;
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
