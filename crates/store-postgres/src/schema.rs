//! What is in the schema, and how it gets there: in one transaction, by one process at a time.

use bell_store::txn::MAX_LAG;
use bell_store::{Error, Kind, Result};
use tokio_postgres::types::Type;

use crate::address::{Address, Schema};
use crate::fault::Fault;
use crate::link::{Parameters, Session};
use crate::records::column;

/// What this program writes and reads.
const FORMAT: i32 = 2;

/// The same tables with another way to commit: brought up to date when it is opened.
const LAST_FORMAT: i32 = 1;

const CREATE: &str = include_str!("sql/create.sql");

/// The way to commit.
const COMMIT: &str = include_str!("sql/commit.sql");

/// Waiting for others who do the same, and for nothing else, so the limit is a short one.
const BEGIN: &str = "
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '4s';
    SELECT pg_advisory_xact_lock(hashtextextended('bellwether set up {schema}', 0))
";

/// What becomes of a store of the last format. A process that still knows that one fails to commit from then on.
const BRING_UP_TO_DATE: &str = "
    DROP PROCEDURE IF EXISTS {schema}.commit_each;
    UPDATE {schema}.meta SET bell_format = 2
";

/// What there is: the schema, anything in it, and in it a table of ours.
const INSPECT: &str = "
    SELECT n.oid IS NOT NULL,
           EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = n.oid)
               OR EXISTS (SELECT FROM pg_proc AS p WHERE p.pronamespace = n.oid)
               OR EXISTS (SELECT FROM pg_type AS t WHERE t.typnamespace = n.oid),
           EXISTS (SELECT
                     FROM pg_class AS c
                     JOIN pg_attribute AS a ON a.attrelid = c.oid
                    WHERE c.relnamespace = n.oid AND c.relname = 'meta' AND a.attname = 'bell_format')
      FROM (SELECT to_regnamespace($1)::oid AS oid) AS n
";

const READ_FORMAT: &str = "SELECT bell_format FROM {schema}.meta";

/// What is found under the schema's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    /// A schema with nothing in it, as an administrator makes it for us.
    Empty,
    /// A store of this format.
    Store(i32),
    Other,
}

/// Makes sure that the schema holds a store of this format.
pub(crate) async fn prepare(session: &Session, address: &Address) -> Result<()> {
    let schema = &address.schema;
    let opening = |fault: Fault| fault.error(format!("open the store {}", address.location()));
    let found = inspect(session, schema).await.map_err(opening)?;
    if settled(found, schema)? {
        return Ok(());
    }
    session.run(&schema.fill(BEGIN)).await.map_err(opening)?;
    let created = create(session, address).await;
    let end = if created.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = session.run(end).await.map_err(opening);
    created.and(ended)
}

/// In a transaction of which nobody else has one like it.
async fn create(session: &Session, address: &Address) -> Result<()> {
    let schema = &address.schema;
    let creating = |fault: Fault| fault.error(format!("create the store {}", address.location()));
    // Another process may have been first.
    let found = inspect(session, schema).await.map_err(creating)?;
    if settled(found, schema)? {
        return Ok(());
    }
    if found == Found::Nothing {
        session.run(&schema.fill("CREATE SCHEMA {schema}")).await.map_err(creating)?;
    }
    if found == Found::Store(LAST_FORMAT) {
        session.run(&schema.fill(BRING_UP_TO_DATE)).await.map_err(creating)?;
        tracing::info!(%schema, "the store was brought up to date");
    } else {
        let system = session.system.as_ref().map_or("NULL".to_owned(), |digits| format!("'{digits}'"));
        session.run(&schema.fill(CREATE).replace("{system}", &system)).await.map_err(creating)?;
        tracing::info!(%schema, "the store was created");
    }
    let commit = schema.fill(COMMIT).replace("{max_lag_ms}", &MAX_LAG.as_millis().to_string());
    session.run(&commit).await.map_err(creating)?;
    Ok(())
}

/// Whether there is nothing to do; an error if there is nothing that can be done.
fn settled(found: Found, schema: &Schema) -> Result<bool> {
    match found {
        Found::Nothing | Found::Empty | Found::Store(LAST_FORMAT) => Ok(false),
        Found::Store(FORMAT) => Ok(true),
        Found::Store(format) => {
            let message =
                format!("open the schema {schema}: it has format {format}, and this program knows {FORMAT}");
            Err(Error::new(Kind::TooNew, message)
                .hint("Install the newer version here, or name another schema."))
        }
        Found::Other => {
            let message = format!("use the schema {schema}: it belongs to something else");
            Err(Error::new(Kind::Invalid, message).hint("Name an empty or a new schema with ?schema=."))
        }
    }
}

async fn inspect(session: &Session, schema: &Schema) -> Result<Found, Fault> {
    let parameters: &Parameters<'_> = &[(&schema.as_str(), Type::TEXT)];
    let rows = session.ask(INSPECT, parameters).await?;
    let row = rows.first().ok_or_else(|| Fault::nonsense("the server does not tell its schemas"))?;
    let (exists, is_used): (bool, bool) = (column(row, 0)?, column(row, 1)?);
    if !column::<bool>(row, 2)? {
        return Ok(match (exists, is_used) {
            (false, _) => Found::Nothing,
            (true, false) => Found::Empty,
            (true, true) => Found::Other,
        });
    }
    Ok(Found::Store(format(session, schema).await?))
}

async fn format(session: &Session, schema: &Schema) -> Result<i32, Fault> {
    let rows = session.ask(&schema.fill(READ_FORMAT), &[]).await?;
    let row = rows.first().ok_or_else(|| Fault::nonsense("the store has lost its row of meta"))?;
    column(row, 0)
}
