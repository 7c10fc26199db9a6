//! Connections to the file, and how long they wait for other processes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Result, mount};
use rusqlite::{Connection, OpenFlags};

use crate::fault::Fault;
use crate::place::{Access, Place};

/// Others hold the file for as long as one commit takes, so the first looks follow each other closely.
const SHORT_PAUSE: Duration = Duration::from_micros(250);
const SHORT_PAUSES: i32 = 40;

/// After that somebody is slow, and looking often would only slow it down further.
const LONG_PAUSE: Duration = Duration::from_millis(2);

/// Longer than any healthy disk needs, shorter than any lease that has to be renewed meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A connection that reads and writes.
pub(crate) fn writing(place: &Place) -> Result<Connection> {
    open(&place.file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|fault| fault.error(doing(place)))
}

/// A connection for reading. Where the file can be written it could write as well: SQLite's
/// readers share the index beside the log.
pub(crate) fn reading(place: &Place) -> Result<Connection> {
    let opened = match place.access {
        Access::Full => open(&place.file, OpenFlags::SQLITE_OPEN_READ_WRITE),
        Access::ReadOnly if is_frozen(place) => open(
            Path::new(&frozen(&place.file)),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
        ),
        Access::ReadOnly => open(&place.file, OpenFlags::SQLITE_OPEN_READ_ONLY),
    };
    opened.map_err(|fault| fault.error(doing(place)))
}

/// Waiting for other processes, in pauses.
#[derive(Default)]
pub(crate) struct Patience {
    since: Duration,
}

impl Patience {
    /// Pauses a little; `pauses` counts those of this wait. False: it has been long enough.
    pub(crate) fn pause(&mut self, pauses: i32) -> bool {
        if pauses == 0 {
            self.since = boottime();
        }
        thread::sleep(if pauses < SHORT_PAUSES { SHORT_PAUSE } else { LONG_PAUSE });
        boottime().saturating_sub(self.since) < LONGEST_WAIT
    }
}

/// What every failure to open was about.
pub(crate) fn doing(place: &Place) -> String {
    format!("open the store {}", place.file.display())
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    // Each connection belongs to one thread, so SQLite need not guard it.
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let mut patience = Patience::default();
    connection.busy_handler(Some(move |pauses| patience.pause(pauses)))?;
    Ok(connection)
}

/// Whether nobody can change the file, and all that was committed is in it: then SQLite may read it
/// without the index that it can't create.
fn is_frozen(place: &Place) -> bool {
    let log_bytes = fs::metadata(place.wal()).map_or(0, |log| log.len());
    log_bytes == 0 && mount::is_read_only(&place.file).unwrap_or(false)
}

fn frozen(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte);
    let encode = |byte: &u8| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = path.as_os_str().as_bytes().iter().map(encode).collect();
    format!("file:{path}?immutable=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_odd_characters_keeps_its_meaning_in_an_address() {
        assert_eq!(frozen(Path::new("/a b/ü?#%.db")), "file:/a%20b/%C3%BC%3F%23%25.db?immutable=1");
    }
}
