//! What is in the file, and how an older one is brought up to date.

use bell_store::clock::boot_id;
use bell_store::{Error, Kind, Result, Timestamp};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::clock::{StoreClock, StoredClock};
use crate::connection::{Patience, doing};
use crate::fault::Fault;
use crate::place::Place;

/// «bell»: marks a SQLite file as ours.
const APPLICATION_ID: i32 = 0x6265_6C6C;

/// From nothing to version 1, and later from each version to the next.
const MIGRATIONS: [&str; 2] = [CREATE, PUT_BODIES_APART];

/// Names are ordered byte by byte, as the contract wants: that is what SQLite does with text if not told
/// otherwise. `meta` has one row, and `store` in it is a random name that tells two files apart.
const CREATE: &str = "
    CREATE TABLE records (
        name     TEXT    NOT NULL PRIMARY KEY,
        value    BLOB    NOT NULL,
        version  INTEGER NOT NULL,
        stamp    INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE meta (
        id        INTEGER PRIMARY KEY CHECK (id = 1),
        store     TEXT    NOT NULL,
        revision  INTEGER NOT NULL,
        boot      TEXT    NOT NULL,
        base_ms   INTEGER NOT NULL,
        last_ms   INTEGER NOT NULL
    ) STRICT;

    INSERT INTO meta (id, store, revision, boot, base_ms, last_ms)
    VALUES (1, lower(hex(randomblob(16))), 0, '', 0, 0);
";

/// Large values get a place of their own, and those that are there stay where they are. The table gets another name, so that a
/// process of an older version that has the file open fails instead of reading records without their values.
const PUT_BODIES_APART: &str = "
    ALTER TABLE records RENAME TO entries;
    ALTER TABLE entries ADD COLUMN body INTEGER;

    CREATE TABLE bodies (
        id     INTEGER PRIMARY KEY,
        value  BLOB    NOT NULL
    ) STRICT;
";

const IDENTIFY: &str = "
    SELECT (SELECT application_id FROM pragma_application_id),
           (SELECT user_version FROM pragma_user_version),
           (SELECT count(*) FROM sqlite_schema)
";

const USE_LOG: &str = "PRAGMA journal_mode = WAL";

/// * `synchronous`: a commit is on the disk before it is answered.
/// * `journal_size_limit` (16 MiB): what a burst left of the log is given back; less is kept, since
///   overwriting a log is cheaper for the disk than growing one.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
    PRAGMA journal_size_limit = 16777216;
";

const READ_CLOCK: &str = "SELECT boot, base_ms, last_ms FROM meta";

const SET_CLOCK: &str = "UPDATE meta SET boot = ?1, base_ms = ?2";

/// Makes the file ours if it is empty, brings it up to date, and winds its clock. Safe while other
/// processes do the same.
pub(crate) fn prepare(connection: &mut Connection, place: &Place) -> Result<StoreClock> {
    let boot = this_boot()?;
    // Before anything is changed: the file may be somebody else's.
    let found = identify(connection, place)?;
    let prepared = use_log(connection).and_then(|()| Ok(connection.execute_batch(SETTINGS)?));
    prepared.map_err(|fault| fault.error(doing(place)))?;
    if found == MIGRATIONS.len() {
        let stored = read_clock(connection).map_err(|fault| fault.error(doing(place)))?;
        if stored.clone().resumed(&boot) == stored {
            return Ok(StoreClock::new(&stored));
        }
    }
    let failed = |error: rusqlite::Error| Fault::from(error).error(doing(place));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have been first.
    let found = identify(&transaction, place)?;
    let clock = migrate(&transaction, found, &boot).map_err(|fault| fault.error(doing(place)))?;
    transaction.commit().map_err(failed)?;
    Ok(clock)
}

/// The clock of a file that can only be read.
pub(crate) fn inspect(connection: &Connection, place: &Place) -> Result<StoreClock> {
    if identify(connection, place)? < MIGRATIONS.len() {
        let message = format!("{}: it must be brought up to date first", doing(place));
        return Err(Error::new(Kind::ReadOnly, message)
            .hint("Open it once where it can be written, or name another path."));
    }
    let stored = read_clock(connection).map_err(|fault| fault.error(doing(place)))?;
    Ok(StoreClock::new(&stored.resumed(&this_boot()?)))
}

/// The version of the file; zero if it is empty.
fn identify(connection: &Connection, place: &Place) -> Result<usize> {
    let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (application, version, tables): (i32, i32, u32) = connection
        .query_row(IDENTIFY, [], columns)
        .map_err(|error| Fault::from(error).error(doing(place)))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    match application {
        0 if version == 0 && tables == 0 => Ok(0),
        APPLICATION_ID if version > MIGRATIONS.len() => {
            let message = format!("{}: a newer Bellwether wrote it (version {version})", doing(place));
            Err(Error::new(Kind::TooNew, message).hint("Install that version here, or name another path."))
        }
        APPLICATION_ID => Ok(version),
        _ => {
            let message = format!("{}: the file belongs to another program", doing(place));
            Err(Error::new(Kind::Unsupported, message).hint("Name a path where there is no file yet."))
        }
    }
}

fn use_log(connection: &Connection) -> Result<(), Fault> {
    let mut patience = Patience::default();
    let mut pauses = 0;
    loop {
        let switched = connection.query_row(USE_LOG, [], |_| Ok(()));
        let busy = switched.as_ref().is_err_and(|e| e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        // When two switch together SQLite tells one of them at once that it is busy.
        if !busy || !patience.pause(pauses) {
            return Ok(switched?);
        }
        pauses += 1;
    }
}

fn migrate(connection: &Connection, found: usize, boot: &str) -> Result<StoreClock, Fault> {
    for step in &MIGRATIONS[found..] {
        connection.execute_batch(step)?;
    }
    if found < MIGRATIONS.len() {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", MIGRATIONS.len())?;
    }
    let clock = read_clock(connection)?.resumed(boot);
    connection.execute(SET_CLOCK, (&clock.boot, clock.base_ms))?;
    Ok(StoreClock::new(&clock))
}

fn read_clock(connection: &Connection) -> Result<StoredClock, Fault> {
    let columns = |row: &rusqlite::Row<'_>| {
        Ok(StoredClock { boot: row.get(0)?, base_ms: row.get(1)?, last: Timestamp::from_ms(row.get(2)?) })
    };
    Ok(connection.query_row(READ_CLOCK, [], columns)?)
}

fn this_boot() -> Result<String> {
    boot_id().map_err(|error| {
        Error::new(Kind::Unsupported, "learn which boot of the machine this is")
            .hint("Mount /proc in this container.")
            .because(error)
    })
}
