//! Takes every waiting transaction into one commit of the server: a task, or whoever comes while nobody else is on the way.
//!
//! Each transaction is judged in its turn: it succeeds or conflicts on its own and has a revision of its
//! own. All of them are answered when the server has committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::hub::Hub;
use bell_store::{Committed, Outcome, Result, Revision, Timestamp, Txn};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::alone::{self, Alone};
use crate::batch::{self, Argument, Batch, Judged, Waited};
use crate::clock::Span;
use crate::fault::Fault;
use crate::line::Line;
use crate::link::{Asked, Link, Phrase, Session};
use crate::reader::Reader;
use crate::records::signed;
use crate::ways::{Way, Ways};

/// The long way.
const COMMIT_TOGETHER: &str = "
    CALL {schema}.commit_together(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
        NULL, NULL, NULL, NULL, NULL, '{}', '{}', '{}', '{}', '{}')
";

/// The short way, for those who have a connection of their own.
const COMMIT_AT_ONCE: &str = include_str!("sql/at_once.sql");

/// A transaction that waits, with whoever waits for it.
pub(crate) struct Job {
    pub(crate) txn: Txn,
    /// On this machine's boot clock, when it was handed in.
    pub(crate) called: Duration,
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
}

/// What came of going the shortest way.
enum Tried {
    Committed(Committed),
    /// Nothing has happened: something stood in the way, or the store has another revision than this.
    InVain(Revision),
    No,
}

/// The one who commits, over one connection.
pub(crate) struct Writer {
    link: Link,
    reader: Arc<Reader>,
    hub: Arc<Hub>,
    /// Marks our own notifications.
    sender: String,
    batches: Arc<AtomicU64>,
    schema: Schema,
    ways: Ways,
    together: String,
    at_once: String,
    alone: alone::Statements,
    /// Held while a batch is on the way.
    turn: Arc<Mutex<()>>,
}

impl Writer {
    pub(crate) fn new(
        link: Link,
        reader: Arc<Reader>,
        hub: Arc<Hub>,
        schema: &Schema,
        sender: String,
    ) -> Self {
        let (together, at_once) = (schema.fill(COMMIT_TOGETHER), schema.fill(COMMIT_AT_ONCE));
        let (alone, schema) = (alone::Statements::of(schema), schema.clone());
        let (batches, ways, turn) = (Arc::default(), Ways::default(), Arc::default());
        Self { link, reader, hub, sender, batches, schema, ways, together, at_once, alone, turn }
    }

    /// Another one, which commits over this link and knows of the store what this reader does.
    pub(crate) fn another(&self, link: Link, reader: Arc<Reader>) -> Self {
        let (batches, hub) = (Arc::clone(&self.batches), Arc::clone(&self.hub));
        Self { batches, ..Self::new(link, reader, hub, &self.schema, self.sender.clone()) }
    }

    /// Counts the commits of the server.
    pub(crate) fn batches(&self) -> &Arc<AtomicU64> {
        &self.batches
    }

    /// Works until nobody can hand in any more.
    pub(crate) async fn serve(self: Arc<Self>, jobs: mpsc::UnboundedReceiver<Job>) {
        let mut line = Line::new(jobs, Arc::clone(&self.turn));
        let mut on_the_way = JoinSet::new();
        loop {
            let way = self.ways.likely();
            tokio::select! {
                Some(count) = on_the_way.join_next() => line.answered(count.unwrap_or_default()),
                batch = line.next(way), if line.has_room(way) => {
                    let Some(batch) = batch else { break };
                    let writer = Arc::clone(&self);
                    on_the_way.spawn(async move {
                        let count = batch.len();
                        writer.run(batch).await;
                        count
                    });
                }
            }
        }
        while on_the_way.join_next().await.is_some() {}
        self.link.close().await;
    }

    /// Commits one job at once, on the caller's task, if nobody else is on the way: it comes back otherwise. Dropped
    /// half-way, it has happened or not, and nobody else's commit is affected.
    pub(crate) async fn commit_alone(&self, job: Job) -> Result<(), Job> {
        let Ok(_turn) = self.turn.try_lock() else { return Err(job) };
        self.run(vec![job]).await;
        Ok(())
    }

    async fn run(&self, mut jobs: Vec<Job>) {
        while !jobs.is_empty() {
            jobs = match self.commit(&jobs).await {
                Ok(outcomes) => self.answer(jobs, outcomes),
                // A release must not fail because a neighbour's record is too large for what space is left.
                Err(fault) if fault.kind == bell_store::Kind::Full && jobs.len() > 1 => {
                    for job in jobs {
                        Box::pin(self.run(vec![job])).await;
                    }
                    return;
                }
                Err(fault) => {
                    for job in jobs {
                        let _ = job.answer.send(Err(fault.error("commit")));
                    }
                    return;
                }
            }
        }
    }

    /// What came of each job. An error: of all of them, together.
    async fn commit(&self, jobs: &[Job]) -> Result<Vec<Option<Outcome>>, Fault> {
        match self.send(jobs).await {
            Err(fault) if fault.is_jump_of_the_clock() => {
                // Asking for the time notices the jump and takes it back.
                self.reader.now().await?;
                self.send(jobs).await
            }
            sent => sent,
        }
    }

    async fn send(&self, jobs: &[Job]) -> Result<Vec<Option<Outcome>>, Fault> {
        let session = self.link.session().await?;
        let sent = boottime();
        let tried = match jobs {
            [job] => self.send_alone(&session, job, sent).await?,
            _ => Tried::No,
        };
        let outcomes = match tried {
            Tried::Committed(committed) => vec![Some(Outcome::Committed(committed))],
            Tried::No => self.send_together(&session, jobs, sent, None).await?,
            Tried::InVain(revision) => self.send_together(&session, jobs, sent, Some(revision)).await?,
        };
        self.batches.fetch_add(1, Ordering::Relaxed);
        Ok(outcomes)
    }

    /// By the shortest way.
    async fn send_alone(&self, session: &Arc<Session>, job: &Job, sent: Duration) -> Result<Tried, Fault> {
        let Some(branch) = self.link.branch(session).await? else { return Ok(Tried::No) };
        let waited = sent.saturating_sub(job.called);
        let Some(alone) = Alone::of(&job.txn, waited, &self.schema) else { return Ok(Tried::No) };
        if !self.ways.is_alone(alone.bytes(), sent) {
            return Ok(Tried::No);
        }
        let alone = alone.no_later_than(self.reader.clock().latest_ms(sent));
        let revision = self.reader.revision();
        let known = signed(revision);
        let mut parameters: Vec<Argument<'_>> = Vec::with_capacity(alone::PARAMETERS);
        parameters.extend([
            (&known as _, Type::INT8),
            (&session.system as _, Type::TEXT),
            (&branch as _, Type::TEXT),
        ]);
        alone.add_to(&mut parameters);
        let (statement, phrase) = alone.statement(&self.alone);
        let answer = self.link.ask(session, statement, &parameters, Asked::Often(phrase)).await;
        let rows = answer.map_err(Fault::of_commit)?;
        let Some(row) = rows.first() else {
            self.ways.closed();
            return Ok(Tried::InVain(revision));
        };
        let now = self.judge(sent, row).await?;
        let revision = revision + 1;
        self.reader.saw(revision);
        Ok(Tried::Committed(Committed { revision, now }))
    }

    /// By one of the ways that many can go together. With the revision that the store turned out not to have, or not to
    /// have only, if the shortest was tried.
    async fn send_together(
        &self,
        session: &Arc<Session>,
        jobs: &[Job],
        sent: Duration,
        tried: Option<Revision>,
    ) -> Result<Vec<Option<Outcome>>, Fault> {
        let txns: Vec<Waited<'_>> =
            jobs.iter().map(|job| (&job.txn, sent.saturating_sub(job.called))).collect();
        let batch = Batch::of(&txns, &self.schema);
        let judged = match self.send_at_once(session, &batch, sent).await? {
            Some(judged) => judged,
            None => self.send_to_procedure(session, &batch, sent).await?,
        };
        if tried.is_some_and(|revision| revision != judged.before) {
            self.ways.in_company();
        }
        self.reader.saw(judged.after);
        Ok(judged.outcomes)
    }

    /// By the short way. `None`: it was not taken, or is closed, and nothing has happened.
    async fn send_at_once(
        &self,
        session: &Arc<Session>,
        batch: &Batch<'_>,
        sent: Duration,
    ) -> Result<Option<Judged>, Fault> {
        let Some(branch) = self.link.branch(session).await? else { return Ok(None) };
        if !batch.is_simple() || self.ways.choose(batch.bytes(), sent) == Way::Long {
            return Ok(None);
        }
        let least_revision = signed(self.reader.revision());
        let (earliest_ms, latest_ms) = batch.times_ms();
        let latest_ms = latest_ms.min(self.reader.clock().latest_ms(sent));
        let mut parameters: Vec<Argument<'_>> = vec![
            (&least_revision, Type::INT8),
            (&session.system, Type::TEXT),
            (&branch, Type::TEXT),
            (&earliest_ms, Type::INT8),
            (&latest_ms, Type::INT8),
        ];
        parameters.extend(batch.parameters_at_once());
        let asked = Asked::Often(Phrase::CommitAtOnce);
        let answer = self.link.ask(session, &self.at_once, &parameters, asked).await;
        let rows = answer.map_err(Fault::of_commit)?;
        let Some(row) = rows.first() else {
            self.ways.closed();
            return Ok(None);
        };
        let now = self.judge(sent, row).await?;
        batch.all_committed(row, now).map(Some)
    }

    /// By the long way.
    async fn send_to_procedure(
        &self,
        session: &Arc<Session>,
        batch: &Batch<'_>,
        sent: Duration,
    ) -> Result<Judged, Fault> {
        let least_revision = signed(self.reader.revision());
        let latest_ms = self.reader.clock().latest_ms(sent);
        let mut parameters: Vec<Argument<'_>> = vec![
            (&self.sender, Type::TEXT),
            (&least_revision, Type::INT8),
            (&latest_ms, Type::INT8),
            (&session.system, Type::TEXT),
        ];
        parameters.extend(batch.arguments());
        let asked = Asked::Often(Phrase::CommitTogether);
        let answer = self.link.ask(session, &self.together, &parameters, asked).await;
        let rows = answer.map_err(Fault::of_commit)?;
        let row = rows.first().ok_or_else(|| Fault::nonsense("the commit was not answered"))?;
        let now = self.judge(sent, row).await?;
        batch.outcomes(row, now)
    }

    /// The time to hand out for an answer that has just come.
    async fn judge(&self, sent: Duration, row: &Row) -> Result<Timestamp, Fault> {
        let span = Span { sent, received: boottime() };
        Ok(self.reader.judge(span, batch::told(row)?).await)
    }

    /// Tells those who wait here, and gives back whoever has to come again. Those who wait elsewhere hear of it from the
    /// server.
    fn answer(&self, jobs: Vec<Job>, outcomes: Vec<Option<Outcome>>) -> Vec<Job> {
        let committed = jobs.iter().zip(&outcomes).filter_map(|(job, outcome)| match outcome {
            Some(Outcome::Committed(_)) => Some(job),
            Some(Outcome::Conflict(_)) | None => None,
        });
        self.hub.committed(committed.flat_map(|job| job.txn.written()));
        let mut again = Vec::new();
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => drop(job.answer.send(Ok(outcome))),
                None => again.push(job),
            }
        }
        again
    }
}
