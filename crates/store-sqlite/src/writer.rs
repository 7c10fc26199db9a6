//! One thread that takes every waiting transaction into one commit of the engine.
//!
//! Each transaction is judged in its turn, after those before it: it succeeds or conflicts on its own and
//! has a revision of its own. All of them are answered when the one commit is on the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bell_store::doorbell::Doorbell;
use bell_store::group::Group;
use bell_store::hub::Hub;
use bell_store::reply::{self, Reply};
use bell_store::{Committed, Error, Kind, Outcome, Result, Revision, Snapshot, Timestamp, Txn};
use rusqlite::{Connection, ErrorCode};

use crate::clock::StoreClock;
use crate::doubt::{Doubt, roll_back};
use crate::fault::Fault;
use crate::floor::Floor;
use crate::identity::OpenFiles;
use crate::log::Log;
use crate::place::Place;
use crate::records::{self, Statements};

struct Job {
    txn: Txn,
    called: Timestamp,
    answer: Reply<Answer>,
}

/// What came of a transaction, and the transaction itself: whoever made it takes it apart. Here that would be memory of another
/// thread, which both would then wait for each other to use.
type Answer = (Result<Outcome>, Txn);

/// What the writing thread works with, beside its connection.
pub(crate) struct Shared {
    pub(crate) place: Place,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) doorbell: Doorbell,
    pub(crate) doubt: Arc<Doubt>,
    pub(crate) floor: Arc<Floor>,
}

/// The writing thread. Dropped, it commits what was handed in, closes the file and ends.
pub(crate) struct Writer {
    group: Group<Job>,
    batches: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn start(mut connection: Connection, shared: Shared) -> Result<Self> {
        let Shared { place, files, clock, hub, doorbell, doubt, floor } = shared;
        let log = Log::watch(&mut connection, place).map_err(|fault| fault.error("watch the log"))?;
        let batches = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&batches);
        let mut engine =
            Engine { log, connection, files, clock, hub, doorbell, doubt, floor, batches: counted };
        let group =
            Group::start("bell-sqlite-write", move |jobs| engine.run(jobs)).map_err(crate::no_thread)?;
        Ok(Self { group, batches })
    }

    /// Commits of the engine so far.
    pub(crate) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Dropped half-way, the transaction is committed or not.
    pub(crate) async fn commit(&self, txn: Txn, called: Timestamp) -> Result<Outcome> {
        let (answer, answered) = Reply::new();
        let ended = |kind| {
            Error::new(kind, "commit: the writing thread has ended")
                .hint("Start the process again, and report what it logged.")
        };
        self.group.submit(Job { txn, called, answer }).map_err(|_| ended(Kind::Unavailable))?;
        answered.await.map_or_else(|_| Err(ended(Kind::Unknown)), |(outcome, _)| outcome)
    }
}

struct Engine {
    /// Before the connection, so that it ends first: who closes the file last moves what is left of the log.
    log: Log,
    connection: Connection,
    files: Arc<OpenFiles>,
    clock: Arc<StoreClock>,
    hub: Arc<Hub>,
    doorbell: Doorbell,
    doubt: Arc<Doubt>,
    floor: Arc<Floor>,
    batches: Arc<AtomicU64>,
}

impl Engine {
    fn run(&mut self, jobs: Vec<Job>) {
        match self.commit(&jobs) {
            Ok(outcomes) => {
                self.announce(&jobs, &outcomes);
                let answers = jobs.into_iter().zip(outcomes);
                reply::tell(answers.map(|(job, outcome)| (job.answer, (Ok(outcome), job.txn))));
                self.log.move_if_due(&self.connection);
            }
            // A release must not fail because a neighbour's record is too large for what space is left.
            Err(fault) if fault.kind == Kind::Full && jobs.len() > 1 => {
                jobs.into_iter().for_each(|job| self.run(vec![job]));
            }
            Err(fault) => {
                let answers = jobs.into_iter().map(|job| (job.answer, (Err(fault.error("commit")), job.txn)));
                reply::tell(answers);
            }
        }
    }

    /// What came of each job. An error: of all of them, together.
    fn commit(&mut self, jobs: &[Job]) -> Result<Vec<Outcome>, Fault> {
        self.files.check()?;
        self.doubt.settle(&self.connection)?;
        let floor = self.floor.now();
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let judged = Batch::judge(&self.connection, &self.clock, floor, jobs);
        let (outcomes, revision) = judged.inspect_err(|_| roll_back(&self.connection))?;
        if let Err(error) = self.connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]))
        {
            roll_back(&self.connection);
            return Err(self.failed_commit(error));
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.floor.raise(revision);
        // In a file without its name the commit is as good as lost; under its name, whatever was committed is there.
        self.files.check().map_err(Fault::unknown)?;
        Ok(outcomes)
    }

    fn failed_commit(&self, error: rusqlite::Error) -> Fault {
        let code = error.sqlite_error_code();
        let fault = Fault::from(error);
        match code {
            // What marks the commit as complete is written last, and that is what found no room.
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => fault,
            _ => {
                self.doubt.raise();
                // If the disk is still failing, the next who comes tries again.
                let _ = self.doubt.settle(&self.connection);
                fault.unknown()
            }
        }
    }

    /// Tells those who wait, here and in other processes.
    fn announce(&mut self, jobs: &[Job], outcomes: &[Outcome]) {
        let committed =
            jobs.iter().zip(outcomes).filter(|(_, outcome)| matches!(outcome, Outcome::Committed(_)));
        let mut written = committed.flat_map(|(job, _)| &job.txn.writes).map(|(name, _)| name).peekable();
        if written.peek().is_some() {
            self.doorbell.ring();
            self.hub.committed(written);
        }
    }
}

/// The jobs of one transaction of the engine, judged one after the other.
struct Batch<'a> {
    connection: &'a Connection,
    statements: Statements<'a>,
    revision: u64,
    now: Timestamp,
}

impl<'a> Batch<'a> {
    /// What becomes of each job, and the revision after them.
    fn judge(
        connection: &'a Connection,
        clock: &StoreClock,
        floor: Revision,
        jobs: &[Job],
    ) -> Result<(Vec<Outcome>, Revision), Fault> {
        let meta = records::meta(connection)?;
        Floor::check(floor, meta.revision)?;
        clock.follow(meta.base_ms, meta.last);
        let statements = Statements::of(connection)?;
        let mut batch = Self { connection, statements, revision: meta.revision, now: clock.now() };
        let outcomes = jobs.iter().map(|job| batch.apply(job)).collect::<rusqlite::Result<_>>()?;
        if batch.revision > meta.revision {
            records::set_meta(connection, batch.revision, batch.now)?;
        }
        Ok((outcomes, batch.revision))
    }

    fn apply(&mut self, job: &Job) -> rusqlite::Result<Outcome> {
        if !job.txn.time_holds(job.called) || !self.expectations_hold(&job.txn)? {
            return self.conflict(&job.txn).map(Outcome::Conflict);
        }
        if !job.txn.writes.is_empty() {
            self.revision += 1;
        }
        for (name, write) in &job.txn.writes {
            self.statements.write(name, write, self.revision)?;
        }
        Ok(Outcome::Committed(Committed { revision: self.revision, now: self.now }))
    }

    fn expectations_hold(&mut self, txn: &Txn) -> rusqlite::Result<bool> {
        for (name, expect) in &txn.expect {
            if !expect.holds(self.statements.version(name)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn conflict(&self, txn: &Txn) -> rusqlite::Result<Snapshot> {
        let records = records::read(self.connection, txn.expect.iter().map(|(name, _)| name))?;
        Ok(Snapshot { revision: self.revision, now: self.now, records, more: false })
    }
}
