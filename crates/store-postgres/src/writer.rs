//! One task that takes every waiting transaction into one commit of the server.
//!
//! Each transaction is judged in its turn: it succeeds or conflicts on its own and has a revision of its
//! own. All of them are answered when the server has committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::hub::Hub;
use bell_store::{Outcome, Result, Txn};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};

use crate::address::Schema;
use crate::batch::{self, Batch, Waited};
use crate::clock::Span;
use crate::fault::Fault;
use crate::line::Line;
use crate::link::{Link, Prepares};
use crate::reader::Reader;
use crate::records::signed;

const COMMIT: &str = "
    CALL {schema}.commit_each(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
        NULL, NULL, '{}', '{}', '{}', '{}', '{}', '{}', '{}')
";

/// A transaction that waits, with whoever waits for it.
pub(crate) struct Job {
    pub(crate) txn: Txn,
    /// On this machine's boot clock, when it was handed in.
    pub(crate) called: Duration,
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
}

/// The one who commits.
pub(crate) struct Writer {
    pub(crate) link: Link,
    pub(crate) reader: Arc<Reader>,
    pub(crate) hub: Arc<Hub>,
    /// Marks our own notifications.
    pub(crate) sender: String,
    pub(crate) batches: Arc<AtomicU64>,
    schema: Schema,
    statement: String,
    prepares: Prepares,
}

impl Writer {
    pub(crate) fn new(
        link: Link,
        reader: Arc<Reader>,
        hub: Arc<Hub>,
        schema: &Schema,
        sender: String,
        prepares: Prepares,
    ) -> Self {
        let statement = schema.fill(COMMIT);
        Self {
            link,
            reader,
            hub,
            sender,
            batches: Arc::default(),
            schema: schema.clone(),
            statement,
            prepares,
        }
    }

    /// Works until nobody can hand in any more.
    pub(crate) async fn serve(self, jobs: mpsc::UnboundedReceiver<Job>) {
        let mut line = Line::new(jobs);
        while let Some(batch) = line.next().await {
            self.run(batch).await;
        }
        self.link.close().await;
    }

    async fn run(&self, jobs: Vec<Job>) {
        match self.commit(&jobs).await {
            Ok(outcomes) => self.answer(jobs, outcomes),
            // A release must not fail because a neighbour's record is too large for what space is left.
            Err(fault) if fault.kind == bell_store::Kind::Full && jobs.len() > 1 => {
                for job in jobs {
                    Box::pin(self.run(vec![job])).await;
                }
            }
            Err(fault) => {
                for job in jobs {
                    let _ = job.answer.send(Err(fault.error("commit")));
                }
            }
        }
    }

    /// What came of each job. An error: of all of them, together.
    async fn commit(&self, jobs: &[Job]) -> Result<Vec<Outcome>, Fault> {
        match self.send(jobs).await {
            Err(fault) if fault.is_jump_of_the_clock() => {
                // Asking for the time notices the jump and takes it back.
                self.reader.now().await?;
                self.send(jobs).await
            }
            sent => sent,
        }
    }

    async fn send(&self, jobs: &[Job]) -> Result<Vec<Outcome>, Fault> {
        let session = self.link.session().await?;
        let sent = boottime();
        let txns: Vec<Waited<'_>> =
            jobs.iter().map(|job| (&job.txn, sent.saturating_sub(job.called))).collect();
        let batch = Batch::of(&txns, &self.schema);
        let least_revision = signed(self.reader.revision());
        let latest_ms = self.reader.clock().latest_ms(sent);
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![
            (&self.sender, Type::TEXT),
            (&least_revision, Type::INT8),
            (&latest_ms, Type::INT8),
            (&session.system, Type::TEXT),
        ];
        parameters.extend(batch.arguments());
        let answer = self.link.ask(&session, &self.statement, &parameters, self.prepares).await;
        let rows = answer.map_err(Fault::of_commit)?;
        let row = rows.first().ok_or_else(|| Fault::nonsense("the commit was not answered"))?;
        let span = Span { sent, received: boottime() };
        let now = self.reader.judge(span, batch::told(row)?).await;
        self.batches.fetch_add(1, Ordering::Relaxed);
        batch.outcomes(row, now)
    }

    /// Tells those who wait here. Those who wait elsewhere hear of it from the server.
    fn answer(&self, jobs: Vec<Job>, outcomes: Vec<Outcome>) {
        let committed = jobs.iter().zip(&outcomes).filter_map(|(job, outcome)| match outcome {
            Outcome::Committed(committed) => Some((job, committed.revision)),
            Outcome::Conflict(_) => None,
        });
        self.reader.saw(committed.clone().map(|(_, revision)| revision).max().unwrap_or(0));
        self.hub.committed(committed.flat_map(|(job, _)| job.txn.written()));
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            let _ = job.answer.send(Ok(outcome));
        }
    }
}
