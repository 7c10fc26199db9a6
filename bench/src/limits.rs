//! What the machine can do without Bellwether: the scale for everything else.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use bell_store::clock::boottime;
use rusqlite::Connection;
use serde::Serialize;

use crate::bench::Bench;
use crate::figures::per_second;
use crate::table::{Table, number};

/// Bytes in one append: about what one acquire writes.
const APPEND_BYTES: usize = 512;

/// The machine's own limits, one thread each.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Limits {
    pub(crate) fdatasync_per_second: f64,
    pub(crate) sqlite_commits_per_second: f64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Limits> {
    bench.tell("the limits of this machine");
    Ok(Limits {
        fdatasync_per_second: fdatasync(bench, bench.span())?,
        sqlite_commits_per_second: sqlite(bench, bench.span())?,
    })
}

/// Appends and syncs per second, tried for `span`.
pub(crate) fn fdatasync(bench: &Bench, span: Duration) -> Result<f64> {
    let mut file = OpenOptions::new().append(true).create_new(true).open(bench.new_place())?;
    rate(span, || {
        file.write_all(&[b'x'; APPEND_BYTES])?;
        Ok(file.sync_data()?)
    })
}

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE records (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
";

const INSERT: &str = "INSERT INTO records (name, value) VALUES (?1, ?2)";

fn sqlite(bench: &Bench, span: Duration) -> Result<f64> {
    let connection = Connection::open(bench.new_place())?;
    connection.execute_batch(SCHEMA)?;
    let mut insert = connection.prepare(INSERT)?;
    let mut count = 0_u64;
    rate(span, || {
        count += 1;
        insert.execute((format!("lock/github://acme/limits/issues/{count}"), [b'x'; 256]))?;
        Ok(())
    })
}

fn rate(span: Duration, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = boottime();
    let mut count = 0;
    while boottime() - begun < span {
        act()?;
        count += 1;
    }
    Ok(per_second(count, boottime() - begun))
}

pub(crate) fn table(limits: &Limits) -> Table {
    let mut table = Table::new("Limits of this machine", &["what, on one thread", "per second"]);
    table
        .row(vec![format!("append {APPEND_BYTES} bytes and fdatasync"), number(limits.fdatasync_per_second)]);
    table.row(vec![
        "SQLite: insert one row and commit (WAL, synchronous=FULL)".to_owned(),
        number(limits.sqlite_commits_per_second),
    ]);
    table
}
