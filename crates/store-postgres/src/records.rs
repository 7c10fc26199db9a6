//! Records on their way from the server: rows of the functions `read` and `scan`, and numbers in its width.

use std::collections::BTreeMap;

use bell_store::{Name, Record};
use tokio_postgres::Row;

use crate::clock::Told;
use crate::fault::Fault;

/// What `read` and `scan` answer.
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) told: Told,
    pub(crate) records: BTreeMap<Name, Record>,
}

impl Page {
    /// Every row repeats the revision and the time; a lone row without a name has nothing else.
    pub(crate) fn from_rows(rows: &[Row]) -> Result<Self, Fault> {
        let first = rows.first().ok_or_else(|| Fault::nonsense("the store has lost its row of meta"))?;
        let told = Told { now_ms: column(first, 1)?, offset_ms: column(first, 2)? };
        let mut records = BTreeMap::new();
        for row in rows {
            if let Some(bytes) = column::<Option<&[u8]>>(row, 3)? {
                let (version, stamp) = (unsigned(column(row, 5)?), unsigned(column(row, 6)?));
                records.insert(name(bytes)?, Record { value: column(row, 4)?, version, stamp });
            }
        }
        Ok(Self { revision: unsigned(column(first, 0)?), told, records })
    }
}

pub(crate) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    place: usize,
) -> Result<T, Fault> {
    row.try_get(place).map_err(|error| Fault::nonsense(error.to_string()))
}

pub(crate) fn name(bytes: &[u8]) -> Result<Name, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::nonsense("a record's name is not UTF-8"))?;
    Ok(Name::from(text))
}

/// Nothing that the store counts comes near the end of the server's numbers.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
