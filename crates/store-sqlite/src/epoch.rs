//! A new epoch: revisions above all that were given out, for a file that was set back to an older copy.
//!
//! The file can't tell that it was; whoever brought the copy back says so. It is a transaction of its own, beside those of
//! the writing threads, which read the revision anew for each of theirs.

use std::path::Path;

use bell_store::{Error, Kind, Result, Revision, clock, epoch};
use rusqlite::{Connection, TransactionBehavior};

use crate::fault::Fault;
use crate::place::{Access, Place};
use crate::records;
use crate::{connection, schema};

const SET_REVISION: &str = "UPDATE meta SET revision = ?1";

/// Raises the epoch of the store at `path`. Answers its first revision.
pub(crate) fn raise(path: &Path) -> Result<Revision> {
    if !path.exists() {
        let message = format!("raise the epoch: there is no store at {}", path.display());
        return Err(Error::new(Kind::Invalid, message).hint("Name the file of the store."));
    }
    let place = Place::find(path)?;
    if place.access == Access::ReadOnly {
        return Err(Error::new(Kind::ReadOnly, format!("write to {}", place.file.display()))
            .hint("Make the file and its folder writable for this user, then try again."));
    }
    let mut connection = connection::writing(&place)?;
    schema::prepare(&mut connection, &place)?;
    advance(&mut connection).map_err(|fault| fault.error("raise the epoch"))
}

fn advance(connection: &mut Connection) -> Result<Revision, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let raised = epoch::raised(records::meta(&transaction)?.revision, clock::wall());
    transaction.execute(SET_REVISION, [raised])?;
    // Should it be there although this fails: done again, it only goes up further.
    transaction.commit()?;
    Ok(raised)
}
