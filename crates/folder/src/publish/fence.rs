//! Refusing whoever lost its lock: the highest fence that a destination has seen, in a file beside it.
//!
//! `.NAME.fence` is the same file with the same rules as for guarded writes of single files: it is locked,
//! the fence is raised first and durably, and the content is replaced second. It is never removed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bell_core::lock::Fence;

use crate::dir::Dir;
use crate::error::{Error, Fences, Kind, Result};
use crate::lock::{Locked, lock};

/// Whoever publishes holds the lock for a few renames; longer, and it is stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// The right to publish, until dropped.
#[derive(Debug)]
pub(super) struct Raised(#[expect(dead_code, reason = "held for its lock")] File);

/// Raises the fence of `name`, durably, or refuses.
pub(super) fn raise(folder: &Dir, name: &str, fence: Fence) -> Result<Raised> {
    let sidecar = format!(".{name}.fence");
    let fault = |error| folder.fault("guard", &sidecar)(error);
    let mut file = folder.keep(&sidecar).map_err(fault)?;
    match lock(&file, PATIENCE).map_err(fault)? {
        Locked::Yes => {}
        Locked::Busy => {
            let what = format!("publish {name}: another publisher holds {sidecar} and does not let go");
            return Err(Error::new(Kind::Busy, what).hint("Look for a stopped process with fuser -v."));
        }
        Locked::Unsupported => {
            let what = format!("guard {name} with a fence: the file system has no locks");
            return Err(Error::new(Kind::Unsupported, what)
                .hint("Publish without a fence, or to a file system with locks; bell doctor fs tells."));
        }
    }
    match read(&mut file).map_err(fault)? {
        Some(seen) if seen > fence => {
            return Err(Error::stale(&format!("publish {name}"), Fences { given: fence, seen }));
        }
        Some(seen) if seen == fence => {}
        _ => {
            // One line of fixed width, in one piece: disks replace a sector whole or not at all.
            file.write_all_at(format!("{fence:020}\n").as_bytes(), 0).map_err(fault)?;
            folder.files().sync(file.as_fd()).map_err(fault)?;
        }
    }
    Ok(Raised(file))
}

fn read(file: &mut File) -> io::Result<Option<Fence>> {
    let mut text = String::new();
    file.take(64).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let fence = text.strip_suffix('\n').and_then(|digits| digits.parse().ok());
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file of fences is damaged");
    fence.map(|fence| Some(Fence(fence))).ok_or_else(damaged)
}
