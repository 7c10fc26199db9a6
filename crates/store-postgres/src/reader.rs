//! Reading: one statement, one snapshot, one round trip. Many may be under way on one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bell_store::clock::boottime;
use bell_store::{Name, Result, Revision, Snapshot, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::clock::{Repair, Span, Timekeeper, Told};
use crate::fault::Fault;
use crate::link::{Asked, Link, Parameters, Phrase};
use crate::records::{Page, column, signed, unsigned};

const READ: &str = "SELECT * FROM {schema}.read($1)";

/// What the function `read` does, for a connection that is settled: there the statement itself is planned once.
const READ_DIRECTLY: &str = "
    SELECT m.revision, greatest({schema}.wall_ms() + m.offset_ms, m.last_ms), m.offset_ms,
           r.name, r.value, r.version, r.stamp
      FROM {schema}.meta AS m
      LEFT JOIN LATERAL (SELECT * FROM {schema}.records WHERE name = ANY ($1)) AS r ON true
     WHERE m.one
";

const SCAN: &str = "SELECT * FROM {schema}.scan($1, $2, $3)";

const SHIFT_CLOCK: &str = "SELECT {schema}.shift_clock($1, $2)";

const RAISE_EPOCH: &str = "SELECT {schema}.raise_epoch($1, $2)";

/// No name in UTF-8 begins with this byte, so every name is before it.
const BEHIND_ALL_NAMES: &[u8] = &[0xFF];

/// What a raised epoch leaves behind: more commits than any store makes between two backups.
const EPOCH_STEP: u64 = 1 << 40;

/// What can be asked besides commits.
pub(crate) enum Question {
    /// The records of these names.
    Names(Vec<Name>, oneshot::Sender<Result<Snapshot>>),
    /// A page of a scan.
    Range { prefix: String, from: String, limit: usize, answer: oneshot::Sender<Result<Snapshot>> },
    /// The store's clock.
    Now(oneshot::Sender<Result<Timestamp>>),
    /// Leave every revision that may have been handed out behind.
    RaiseEpoch(oneshot::Sender<Result<Revision>>),
}

/// The one who reads, over one connection.
pub(crate) struct Reader {
    link: Link,
    known: Arc<Known>,
    statements: Statements,
}

/// What this process knows of the store.
#[derive(Default)]
struct Known {
    clock: Timekeeper,
    /// The highest revision seen: a store that answers with a smaller one has gone back.
    revision: AtomicU64,
}

struct Statements {
    read: String,
    scan: String,
    shift_clock: String,
    raise_epoch: String,
}

impl Reader {
    pub(crate) fn new(link: Link, schema: &Schema) -> Self {
        let read = if link.is_direct() { READ_DIRECTLY } else { READ };
        let statements = Statements {
            read: schema.fill(read),
            scan: schema.fill(SCAN),
            shift_clock: schema.fill(SHIFT_CLOCK),
            raise_epoch: schema.fill(RAISE_EPOCH),
        };
        Self { link, known: Arc::default(), statements }
    }

    /// Another one, which reads over this link and knows what this one does.
    pub(crate) fn another(&self, link: Link, schema: &Schema) -> Self {
        Self { known: Arc::clone(&self.known), ..Self::new(link, schema) }
    }

    /// Answers until nobody can ask any more.
    pub(crate) async fn serve(self: Arc<Self>, mut questions: mpsc::UnboundedReceiver<Question>) {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                question = questions.recv() => match question {
                    Some(question) => {
                        let reader = Arc::clone(&self);
                        under_way.spawn(async move { reader.answer(question).await });
                    }
                    None => break,
                },
                Some(_) = under_way.join_next() => {}
            }
        }
        drop(under_way);
        self.link.close().await;
    }

    async fn answer(&self, question: Question) {
        // Whoever asked may have gone.
        match question {
            Question::Names(names, answer) => {
                let _ = answer.send(self.read(&names).await.map_err(|fault| fault.error("read")));
            }
            Question::Range { prefix, from, limit, answer } => {
                let page = self.scan(&prefix, &from, limit).await;
                let _ = answer.send(page.map_err(|fault| fault.error("read")));
            }
            Question::Now(answer) => {
                let _ = answer.send(self.now().await.map_err(|fault| fault.error("ask for the time")));
            }
            Question::RaiseEpoch(answer) => {
                let raised = self.raise_epoch().await;
                let _ = answer.send(raised.map_err(|fault| fault.of_commit().error("raise the epoch")));
            }
        }
    }

    pub(crate) async fn read(&self, names: &[Name]) -> Result<Snapshot, Fault> {
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_str().as_bytes()).collect();
        self.page(&self.statements.read, &[(&names, Type::BYTEA_ARRAY)], Asked::Often(Phrase::Read)).await
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Fault> {
        Ok(self.read(&[]).await?.now)
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot, Fault> {
        let (first, end) = (prefix.max(from).as_bytes(), end_of(prefix));
        let most = signed(limit as u64 + 1);
        let parameters: &Parameters<'_> = &[(&first, Type::BYTEA), (&end, Type::BYTEA), (&most, Type::INT8)];
        let mut page = self.page(&self.statements.scan, parameters, Asked::Seldom).await?;
        if page.records.len() > limit {
            page.records.pop_last();
            page.more = true;
        }
        Ok(page)
    }

    async fn page(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
        asked: Asked,
    ) -> Result<Snapshot, Fault> {
        let sent = boottime();
        let rows = self.link.read(statement, parameters, asked).await?;
        let span = Span { sent, received: boottime() };
        let page = Page::from_rows(&rows)?;
        self.saw(page.revision);
        let now = self.judge(span, page.told).await;
        Ok(Snapshot { revision: page.revision, now, records: page.records, more: false })
    }

    /// The time to hand out for what the server told, after a jump of its clock was taken back.
    pub(crate) async fn judge(&self, span: Span, told: Told) -> Timestamp {
        let (now, repair) = self.known.clock.judge(span, told);
        if let Some(repair) = repair {
            self.repair(repair).await;
        }
        now
    }

    /// Makes the clock known, and lets it go on if the server's was set back while nobody was there.
    pub(crate) async fn wind_clock(&self) -> Result<(), Fault> {
        self.now().await?;
        let seen_offset_ms = self.known.clock.offset_ms();
        self.shift_clock(Repair { seen_offset_ms, shift_ms: 0 }).await?;
        self.now().await.map(|_| ())
    }

    async fn shift_clock(&self, repair: Repair) -> Result<(), Fault> {
        let parameters: &Parameters<'_> =
            &[(&repair.seen_offset_ms, Type::INT8), (&repair.shift_ms, Type::INT8)];
        self.link.read(&self.statements.shift_clock, parameters, Asked::Seldom).await.map(|_| ())
    }

    /// If this fails the time handed out is right all the same, and the next answer tries again.
    async fn repair(&self, repair: Repair) {
        let shift_ms = repair.shift_ms;
        match self.shift_clock(repair).await {
            Ok(()) => tracing::warn!(shift_ms, "the server's clock has jumped; the store's was set right"),
            Err(fault) => {
                tracing::warn!(?fault, shift_ms, "the server's clock has jumped; the store's is still wrong");
            }
        }
    }

    async fn raise_epoch(&self) -> Result<Revision, Fault> {
        let session = self.link.session().await?;
        let step = signed(EPOCH_STEP);
        let parameters: &Parameters<'_> = &[(&step, Type::INT8), (&session.system, Type::TEXT)];
        let rows = self.link.ask(&session, &self.statements.raise_epoch, parameters, Asked::Seldom).await?;
        let row = rows.first().ok_or_else(|| Fault::nonsense("the store has lost its row of meta"))?;
        let revision = unsigned(column(row, 0)?);
        self.saw(revision);
        Ok(revision)
    }

    pub(crate) fn clock(&self) -> &Timekeeper {
        &self.known.clock
    }

    /// The highest revision seen so far.
    pub(crate) fn revision(&self) -> Revision {
        self.known.revision.load(Ordering::Acquire)
    }

    pub(crate) fn saw(&self, revision: Revision) {
        self.known.revision.fetch_max(revision, Ordering::AcqRel);
    }

    /// The connection, for statements that only opening a store needs.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }
}

/// The first name behind all those that start so: the last byte of UTF-8 is never the largest.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.extend_from_slice(BEHIND_ALL_NAMES),
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_with_a_prefix_is_before_its_end_and_the_next_is_not() {
        assert_eq!(end_of("lock/"), b"lock0");
        assert!("ü\u{10FFFF}".as_bytes() < end_of("ü").as_slice());
        assert!("\u{10FFFF}\u{10FFFF}".as_bytes() < end_of("").as_slice());
        assert!("v".as_bytes() >= end_of("u").as_slice());
    }
}
