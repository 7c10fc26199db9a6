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

/// How long the lock of a file of fences is waited for. Whoever has it writes one content and makes it durable, or renames a
/// few files: seconds, on a slow disk. Longer, and it is stopped.
pub const FENCE_PATIENCE: Duration = Duration::from_secs(30);

/// The right to publish, until dropped.
#[derive(Debug)]
pub(super) struct Raised(#[expect(dead_code, reason = "held for its lock")] File);

/// Raises the fence of `name`, durably, or refuses.
pub(super) fn raise(folder: &Dir, name: &str, fence: Fence) -> Result<Raised> {
    let sidecar = format!(".{name}.fence");
    let fault = |error| folder.fault("guard", &sidecar)(error);
    let mut file = folder.keep(&sidecar).map_err(fault)?;
    match lock(&file, FENCE_PATIENCE).map_err(fault)? {
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
        Highest::Damaged => {
            let what = format!("guard {name} with a fence: {sidecar} beside it is damaged");
            return Err(Error::new(Kind::Corrupt, what).hint(
                "Find out the highest fence that was used, and write it there as a line of 20 digits; removing the file lets stale writers in.",
            ));
        }
        Highest::Seen(seen) if seen > fence => {
            return Err(Error::stale(&format!("publish {name}"), Fences { given: fence, seen }));
        }
        Highest::Seen(seen) if seen == fence => {}
        Highest::Seen(_) | Highest::None => {
            // One line of fixed width, in one piece: disks replace a sector whole or not at all.
            file.write_all_at(format!("{fence:020}\n").as_bytes(), 0).map_err(fault)?;
            folder.files().sync(file.as_fd()).map_err(fault)?;
        }
    }
    Ok(Raised(file))
}

/// What the file of fences says.
enum Highest {
    /// Nobody has published with a fence.
    None,
    Seen(Fence),
    /// Nobody knows: never taken for none.
    Damaged,
}

fn read(file: &mut File) -> io::Result<Highest> {
    let mut bytes = Vec::new();
    file.take(64).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(Highest::None);
    }
    let line = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
    let fence = line.and_then(|digits| digits.parse().ok());
    Ok(fence.map_or(Highest::Damaged, |fence| Highest::Seen(Fence(fence))))
}
