//! Guarded writes to a SQLite database.
//!
//! The fence is checked and remembered in the same transaction as the write, so they stand or fall
//! together. One table, created on first use, remembers a fence for each resource.

use bell_core::lock::Fence;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::Stale;

const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS bell_fences (
        resource TEXT PRIMARY KEY,
        fence    INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID";

const RAISE: &str = "
    INSERT INTO bell_fences (resource, fence)
    VALUES (?1, ?2)
    ON CONFLICT (resource) DO UPDATE
       SET fence = excluded.fence
     WHERE excluded.fence >= bell_fences.fence";

const SEEN: &str = "
    SELECT fence
      FROM bell_fences
     WHERE resource = ?1";

/// Why a guarded write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was written.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// SQLite refused. Nothing was written.
    #[error("could not write: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Runs `write` in one transaction with the check of its fence.
///
/// # Errors
/// [`GuardError::Stale`] if a later holder has written; then, as after any other error, nothing was
/// written.
pub fn write<T>(
    connection: &mut Connection,
    resource: &str,
    fence: Fence,
    write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, GuardError> {
    // Immediate: two writers must not both pass the check and then find out.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check(&transaction, resource, fence)?;
    let written = write(&transaction)?;
    transaction.commit()?;
    Ok(written)
}

/// Checks and remembers a fence inside a transaction of the caller's, which must be rolled back if this
/// fails.
///
/// # Errors
/// As for [`write()`].
pub fn check(transaction: &Transaction<'_>, resource: &str, fence: Fence) -> Result<(), GuardError> {
    transaction.execute_batch(CREATE)?;
    let given = i64::try_from(fence.0).unwrap_or(i64::MAX);
    let raised = transaction.execute(RAISE, (resource, given))?;
    if raised == 1 {
        return Ok(());
    }
    let seen: i64 = transaction.query_row(SEEN, [resource], |row| row.get(0))?;
    Err(Stale::refuse(fence, Fence(seen.unsigned_abs())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
        connection
    }

    fn add(connection: &mut Connection, fence: u64, text: &str) -> Result<usize, GuardError> {
        write(connection, "notes", Fence(fence), |t| t.execute("INSERT INTO notes VALUES (?1)", [text]))
    }

    fn notes(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_write_with_the_same_or_a_higher_fence_is_accepted() {
        let mut connection = database();
        for fence in [7, 7, 8] {
            add(&mut connection, fence, "x").unwrap();
        }
        assert_eq!(notes(&connection), 3);
    }

    #[test]
    fn a_write_with_a_lower_fence_is_refused_and_writes_nothing() {
        let mut connection = database();
        add(&mut connection, 8, "successor").unwrap();
        let refused = add(&mut connection, 7, "stale").unwrap_err();
        assert!(matches!(refused, GuardError::Stale(Stale { given: Fence(7), seen: Fence(8) })));
        assert_eq!(notes(&connection), 1);
    }

    #[test]
    fn a_failed_write_does_not_raise_the_fence() {
        let mut connection = database();
        let broken = |t: &Transaction<'_>| t.execute("INSERT INTO nowhere VALUES (1)", []);
        assert!(matches!(write(&mut connection, "notes", Fence(9), broken), Err(GuardError::Sqlite(_))));
        add(&mut connection, 8, "still accepted").unwrap();
    }

    #[test]
    fn resources_have_fences_of_their_own() {
        let mut connection = database();
        add(&mut connection, 9, "x").unwrap();
        write(&mut connection, "other", Fence(1), |_| Ok(())).unwrap();
    }
}
