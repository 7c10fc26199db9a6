//! Who a worker is: a file that the janitor reads, locked for as long as the worker lives.
//!
//! The lock is for those who share a name by mistake; what decides over life and death is the process on its
//! own machine, and silence everywhere else.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::fstat;
use serde::{Deserialize, Serialize};

use crate::dir::Dir;
use crate::error::{Error, Kind, Result};
use crate::lock::{Locked, lock};
use crate::process::{Process, nonce};

/// How a worker shows that it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pulse {
    /// It touches its folder every few seconds, from a thread of its own.
    Beating,
    /// It does not: a command that claims and goes away. The janitor gives it longer.
    Unattended,
}

/// What a worker says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Unlike that of anybody who had the name before.
    pub(super) nonce: String,
    /// The process whose end ends it, if it has one.
    pub(super) process: Option<Process>,
    pub(super) pulse: Pulse,
}

/// A record that is ours.
#[derive(Debug)]
pub(super) struct Registered {
    /// Held for its lock.
    file: File,
    pub(super) nonce: String,
}

/// A record is a few words; anything longer is not ours.
const MAX_RECORD_BYTES: u64 = 4_096;
/// Long enough for whoever only claims and goes; a worker that lives on keeps its name.
const PATIENCE: Duration = Duration::from_secs(2);

impl Registered {
    /// Takes the name for this process.
    pub(super) fn take(workers: &Dir, name: &str, process: Option<Process>, pulse: Pulse) -> Result<Self> {
        let fault = |error| workers.fault("write", name)(error);
        loop {
            let file = workers.keep(name).map_err(fault)?;
            if lock(&file, PATIENCE).map_err(fault)? == Locked::Busy {
                let what = format!("work as {name}: another process works under that name");
                return Err(Error::new(Kind::Busy, what)
                    .hint("Leave the name out, and every process gets one of its own."));
            }
            // Whoever left removes its file; a lock on a file without a name excludes nobody.
            if !leads_to(workers, name, &file).map_err(fault)? {
                continue;
            }
            let record = Record { nonce: nonce(), process, pulse };
            write(&file, &record).map_err(fault)?;
            return Ok(Self { file, nonce: record.nonce });
        }
    }

    /// Whether the name is still ours: nobody has taken it over.
    pub(super) fn is_current(&self, workers: &Dir, name: &str) -> bool {
        read(workers, name).is_some_and(|record| record.nonce == self.nonce)
    }

    /// Gives the name back.
    pub(super) fn leave(&self, workers: &Dir, name: &str) {
        if leads_to(workers, name, &self.file).unwrap_or(false) {
            // What can't be removed is removed by the janitor.
            let _ = workers.remove(name);
        }
    }
}

/// What a worker says of itself, if it says anything that can be read.
pub(super) fn read(workers: &Dir, name: &str) -> Option<Record> {
    let mut text = String::new();
    workers.read(name).ok()?.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write(file: &File, record: &Record) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(&serde_json::to_vec(record)?, 0)?;
    // It stays open for as long as the worker lives, and an NFS client keeps to itself what it has not synced: other
    // machines would take the worker for one without a heartbeat.
    file.sync_data()
}

fn leads_to(workers: &Dir, name: &str, file: &File) -> io::Result<bool> {
    let open = fstat(file)?;
    Ok(workers.look(name)?.is_some_and(|named| named.id.inode == open.st_ino))
}
