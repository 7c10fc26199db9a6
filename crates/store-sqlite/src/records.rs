//! The statements over records, in whatever transaction the caller has begun.

use std::collections::BTreeMap;

use bell_store::{Name, Record, Revision, Snapshot, Stamp, Timestamp, Version, Write};
use rusqlite::{Connection, OptionalExtension, Result, Row};

const READ_META: &str = "SELECT revision, base_ms, last_ms FROM meta";

const SET_META: &str = "UPDATE meta SET revision = ?1, last_ms = ?2";

const READ_VERSION: &str = "SELECT version FROM records WHERE name = ?1";

const READ: &str = "
    SELECT value, version, stamp
      FROM records
     WHERE name = ?1
";

const SCAN: &str = "
    SELECT value, version, stamp, name
      FROM records
     WHERE name >= ?1
     ORDER BY name
";

const PUT_NEW_STAMP: &str = "
    INSERT INTO records (name, value, version, stamp)
    VALUES (?1, ?2, ?3, ?3)
        ON CONFLICT (name) DO UPDATE
       SET value = excluded.value,
           version = excluded.version,
           stamp = excluded.stamp
";

const PUT_KEEPING_STAMP: &str = "
    INSERT INTO records (name, value, version, stamp)
    VALUES (?1, ?2, ?3, ?3)
        ON CONFLICT (name) DO UPDATE
       SET value = excluded.value,
           version = excluded.version
";

const DELETE: &str = "DELETE FROM records WHERE name = ?1";

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

/// The version of a record; zero if there is none.
pub(crate) fn version(connection: &Connection, name: &Name) -> Result<Version> {
    let found = connection.prepare_cached(READ_VERSION)?.query_row([name.as_str()], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
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

pub(crate) fn write(connection: &Connection, name: &Name, write: &Write, revision: Revision) -> Result<()> {
    let name = name.as_str();
    match write {
        Write::Put(value, Stamp::New) => {
            connection.prepare_cached(PUT_NEW_STAMP)?.execute((name, value, revision))?;
        }
        Write::Put(value, Stamp::Keep) => {
            connection.prepare_cached(PUT_KEEPING_STAMP)?.execute((name, value, revision))?;
        }
        Write::Delete => {
            connection.prepare_cached(DELETE)?.execute([name])?;
        }
    }
    Ok(())
}

fn record(row: &Row<'_>) -> Result<Record> {
    Ok(Record { value: row.get(0)?, version: row.get(1)?, stamp: row.get(2)? })
}
