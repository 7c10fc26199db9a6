//! Guarded writes to a PostgreSQL database.
//!
//! The fence is checked and remembered in the same transaction as the write, so they stand or fall together.
//! [`SET_UP`] makes a table of fences and a function; any program in any language then begins its
//! transaction with the function:
//!
//! ```sql
//! BEGIN;
//! SELECT bell_check_fence('reports/42', 1234);
//! UPDATE reports SET text = 'new' WHERE id = 42;
//! COMMIT;
//! ```
//!
//! A stale fence ends the transaction with the error code `BL009`. Where a single statement is all there is
//! room for, [`WRITE`] shows how: it changes no row if the fence is stale.

use bell_core::lock::Fence;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Transaction};

use super::Stale;

/// Makes the table `bell_fences` and the function `bell_check_fence`. To be run by whoever owns the tables.
pub const SET_UP: &str = include_str!("postgres.sql");

/// A guarded write as one statement, to be changed for other tables: `$1` is the resource, `$2` the fence.
pub const WRITE: &str = "
    WITH fence AS (
        INSERT INTO bell_fences AS f (resource, fence)
        VALUES ($1, $2)
            ON CONFLICT (resource) DO UPDATE
           SET fence = excluded.fence
         WHERE excluded.fence >= f.fence
        RETURNING f.fence
    )
    UPDATE reports
       SET text = $3
      FROM fence
     WHERE id = $4
";

const CHECK: &str = "SELECT bell_check_fence($1, $2)";

/// What the function ends a stale transaction with.
const STALE: &str = "BL009";

/// Why a guarded write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was written.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// PostgreSQL refused, and nothing was written; or the connection was lost while committing, and it may
    /// have been.
    #[error("could not write: {0}")]
    Postgres(#[from] Error),
}

/// Runs [`SET_UP`].
///
/// # Errors
/// If PostgreSQL refuses.
pub async fn set_up(client: &Client) -> Result<(), Error> {
    client.batch_execute(SET_UP).await
}

/// Runs `write` in one transaction with the check of its fence.
///
/// Dropped half-way, it has happened or not, never half.
///
/// # Errors
/// [`GuardError::Stale`] if a later holder has written; then nothing was written.
pub async fn write<T>(
    client: &mut Client,
    resource: &str,
    fence: Fence,
    write: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Error>,
) -> Result<T, GuardError> {
    let transaction = client.transaction().await?;
    check(&transaction, resource, fence).await?;
    let written = write(&transaction).await?;
    transaction.commit().await?;
    Ok(written)
}

/// Checks and remembers a fence inside a transaction of the caller's, which can only be rolled back if this
/// fails.
///
/// # Errors
/// As for [`write()`].
pub async fn check(transaction: &Transaction<'_>, resource: &str, fence: Fence) -> Result<(), GuardError> {
    let given = i64::try_from(fence.0).unwrap_or(i64::MAX);
    let checked = transaction.query_typed(CHECK, &[(&resource, Type::TEXT), (&given, Type::INT8)]).await;
    match checked {
        Ok(_) => Ok(()),
        Err(error) => Err(seen(&error)
            .map_or(GuardError::Postgres(error), |seen| GuardError::Stale(Stale::refuse(fence, seen)))),
    }
}

/// The fence that was seen, if that is what the error is about.
fn seen(error: &Error) -> Option<Fence> {
    let refusal = error.as_db_error().filter(|refusal| refusal.code().code() == STALE)?;
    refusal.detail()?.parse().ok().map(Fence)
}
