//! The statements over records, in whatever transaction the caller has begun.

use std::collections::BTreeMap;

use bell_store::{Name, Record, Revision, Snapshot, Stamp, Timestamp, Version, Write};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Result, Row};

const READ_META: &str = "SELECT revision, base_ms, last_ms FROM meta";

/// It names its row: a statement that may change several would keep a copy of the page, to be able to take them back.
const SET_META: &str = "UPDATE meta SET revision = ?1, last_ms = ?2 WHERE id = 1";

const READ_VERSION: &str = "SELECT version FROM entries WHERE name = ?1";

const READ: &str = "
    SELECT coalesce(bodies.value, entries.value), version, stamp
      FROM entries
      LEFT JOIN bodies ON bodies.id = entries.body
     WHERE name = ?1
";

const SCAN: &str = "
    SELECT coalesce(bodies.value, entries.value), version, stamp, name
      FROM entries
      LEFT JOIN bodies ON bodies.id = entries.body
     WHERE name >= ?1
     ORDER BY name
";

const PUT_BODY: &str = "INSERT INTO bodies (value) VALUES (?1)";

/// Puts a record that is new, or whose value lies beside its name. One that has a body stays as it is.
const PUT_NEW_STAMP: &str = "
    INSERT INTO entries (name, value, body, version, stamp)
    VALUES (?1, ?2, ?3, ?4, ?4)
        ON CONFLICT (name) DO UPDATE
       SET value = excluded.value,
           body = excluded.body,
           version = excluded.version,
           stamp = excluded.stamp
     WHERE entries.body IS NULL
";

const PUT_KEEPING_STAMP: &str = "
    INSERT INTO entries (name, value, body, version, stamp)
    VALUES (?1, ?2, ?3, ?4, ?4)
        ON CONFLICT (name) DO UPDATE
       SET value = excluded.value,
           body = excluded.body,
           version = excluded.version
     WHERE entries.body IS NULL
";

const DELETE: &str = "DELETE FROM entries WHERE name = ?1 AND body IS NULL";

const DELETE_BODY: &str = "DELETE FROM bodies WHERE id = (SELECT body FROM entries WHERE name = ?1)";

const FORGET_BODY: &str = "UPDATE entries SET body = NULL WHERE name = ?1";

/// Bytes of a value that are kept beside its name: every lock and session. What is larger than a quarter of a page would take
/// pages of its own there, and bodies lie one behind the other in theirs.
const INLINE_BYTES_MAX: usize = 512;

/// What the store knows of itself.
pub(crate) struct Meta {
    pub(crate) revision: Revision,
    pub(crate) base_ms: i64,
    pub(crate) last: Timestamp,
}

/// Read first in a transaction, it also fixes what the transaction sees.
pub(crate) fn meta(connection: &Connection) -> Result<Meta> {
    let columns = |row: &Row<'_>| {
        Ok(Meta { revision: row.get(0)?, base_ms: row.get(1)?, last: Timestamp::from_ms(row.get(2)?) })
    };
    connection.prepare_cached(READ_META)?.query_row([], columns)
}

pub(crate) fn set_meta(connection: &Connection, revision: Revision, now: Timestamp) -> Result<()> {
    connection.prepare_cached(SET_META)?.execute((revision, now.as_ms())).map(|_| ())
}

pub(crate) fn read<'a>(
    connection: &Connection,
    names: impl IntoIterator<Item = &'a Name>,
) -> Result<BTreeMap<Name, Record>> {
    let mut statement = connection.prepare_cached(READ)?;
    let mut records = BTreeMap::new();
    for name in names {
        if let Some(record) = statement.query_row([name.as_str()], record).optional()? {
            records.insert(name.clone(), record);
        }
    }
    Ok(records)
}

/// A page of the records whose names start with `prefix`. Revision and time are left to the caller.
pub(crate) fn scan(connection: &Connection, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
    let mut statement = connection.prepare_cached(SCAN)?;
    let mut rows = statement.query([prefix.max(from)])?;
    let mut page = Snapshot::default();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(3)?.as_str()?;
        if !name.starts_with(prefix) {
            break;
        }
        if page.records.len() == limit {
            page.more = true;
            break;
        }
        page.records.insert(name.into(), record(row)?);
    }
    Ok(page)
}

/// The statements that a commit repeats for each of its records, found once.
pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    read_version: CachedStatement<'c>,
    put_body: CachedStatement<'c>,
    put_new_stamp: CachedStatement<'c>,
    put_keeping_stamp: CachedStatement<'c>,
    delete: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    pub(crate) fn of(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            connection,
            read_version: connection.prepare_cached(READ_VERSION)?,
            put_body: connection.prepare_cached(PUT_BODY)?,
            put_new_stamp: connection.prepare_cached(PUT_NEW_STAMP)?,
            put_keeping_stamp: connection.prepare_cached(PUT_KEEPING_STAMP)?,
            delete: connection.prepare_cached(DELETE)?,
        })
    }

    /// The version of a record; zero if there is none.
    pub(crate) fn version(&mut self, name: &Name) -> Result<Version> {
        let found = self.read_version.query_row([name.as_str()], |row| row.get(0));
        Ok(found.optional()?.unwrap_or(0))
    }

    pub(crate) fn write(&mut self, name: &Name, write: &Write, revision: Revision) -> Result<()> {
        let name = name.as_str();
        let (value, put) = match write {
            Write::Put(value, Stamp::New) => (value.as_slice(), &mut self.put_new_stamp),
            Write::Put(value, Stamp::Keep) => (value.as_slice(), &mut self.put_keeping_stamp),
            Write::Delete => return self.delete(name),
        };
        let (value, body) = if value.len() > INLINE_BYTES_MAX {
            (&[][..], Some(self.put_body.insert([value])?))
        } else {
            (value, None)
        };
        if put.execute((name, value, body, revision))? == 0 {
            delete_body(self.connection, name)?;
            put.execute((name, value, body, revision))?;
        }
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<()> {
        if self.delete.execute([name])? == 0 {
            delete_body(self.connection, name)?;
            self.delete.execute([name])?;
        }
        Ok(())
    }
}

/// Few records that have a body are written again, so it is looked for only when it is in the way.
fn delete_body(connection: &Connection, name: &str) -> Result<()> {
    connection.prepare_cached(DELETE_BODY)?.execute([name])?;
    connection.prepare_cached(FORGET_BODY)?.execute([name]).map(|_| ())
}

fn record(row: &Row<'_>) -> Result<Record> {
    Ok(Record { value: row.get(0)?, version: row.get(1)?, stamp: row.get(2)? })
}
