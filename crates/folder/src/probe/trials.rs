//! One function for each thing that is tried.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bell_store::clock;
use rustix::io::Errno;

use super::{Finding, Verdict};
use crate::dir::Dir;
use crate::error::{errno, is_unsupported};
use crate::files::Onto;
use crate::lock::{Locked, lock};

/// How often a file is replaced while another thread reads it.
const REPLACEMENTS: usize = 200;
/// A difference of clocks that nobody has to think about.
const SMALL_SKEW_MS: i128 = 1_000;

/// Tries everything. What can't be tried counts as unsafe, with the reason.
pub(super) fn all(ground: &Dir) -> Vec<Finding> {
    type Trial = fn(&Dir) -> io::Result<(Verdict, String)>;
    let trials: [(&'static str, Trial); 11] = [
        ("flock", flock),
        ("exclusive create", exclusive_create),
        ("link count", link_count),
        ("rename over", rename_over),
        ("rename without replacing", no_replace),
        ("folders change places", exchange),
        ("file identity", identity),
        ("fsync", fsync),
        ("folder changes seen", folder_stamp),
        ("clock", server_clock),
        ("case of names", case_folding),
    ];
    let finding = |(about, trial): (&'static str, Trial)| {
        let (verdict, seen) =
            trial(ground).unwrap_or_else(|error| (Verdict::Unsafe, format!("could not be tried: {error}")));
        Finding { about, verdict, seen }
    };
    trials.map(finding).into_iter().collect()
}

fn flock(ground: &Dir) -> io::Result<(Verdict, String)> {
    let first = ground.keep("flock")?;
    let second = ground.keep("flock")?;
    let zero = std::time::Duration::ZERO;
    Ok(match (lock(&first, zero)?, lock(&second, zero)?) {
        (Locked::Yes, Locked::Busy) => {
            first.unlock()?;
            match lock(&second, zero)? {
                Locked::Yes => {
                    (Verdict::Safe, "a second holder waits, and gets it after a release".to_owned())
                }
                _ => (Verdict::Unsafe, "a released lock can't be taken again".to_owned()),
            }
        }
        (Locked::Unsupported, _) => (Verdict::Unsafe, "the file system has no locks".to_owned()),
        (first, second) => (Verdict::Unsafe, format!("two holders at once: {first:?}, {second:?}")),
    })
}

fn exclusive_create(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.create("exclusive")?;
    Ok(match ground.create("exclusive") {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (Verdict::Safe, "a name is made once".to_owned())
        }
        other => (Verdict::Unsafe, format!("a name that was there was made again: {other:?}")),
    })
}

fn link_count(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.create("one-name")?;
    let (one, two) = (ground.at("one-name".as_ref()), ground.at("second-name".as_ref()));
    if let Err(error) = ground.files().link(one, two) {
        return Ok((Verdict::Conditions, format!("no second names ({error}); nothing here needs them")));
    }
    let links = ground.look("one-name")?.map_or(0, |seen| seen.links);
    Ok(match links {
        2 => (Verdict::Safe, "a second name is counted".to_owned()),
        other => (Verdict::Conditions, format!("a file with two names counts {other}")),
    })
}

/// A reader must find the old or the new content at every moment.
fn rename_over(ground: &Dir) -> io::Result<(Verdict, String)> {
    const SIZE: usize = 4_096;
    let write = |fill: u8| -> io::Result<()> {
        let mut draft = ground.create("draft")?;
        draft.write_all(&[fill; SIZE])?;
        drop(draft);
        ground.rename("draft", ground, "target", Onto::Anything)
    };
    write(0)?;
    let is_over = AtomicBool::new(false);
    let read_all = || -> io::Result<(Verdict, String)> {
        let mut stale = 0;
        while !is_over.load(Ordering::Relaxed) {
            let mut content = Vec::new();
            match ground.read("target").and_then(|mut file| file.read_to_end(&mut content)) {
                Err(error) if errno(&error) == Some(Errno::STALE) => stale += 1,
                Err(error) => return Ok((Verdict::Unsafe, format!("a reader found nothing: {error}"))),
                Ok(SIZE) if content.iter().all(|byte| *byte == content[0]) => {}
                Ok(size) => {
                    return Ok((Verdict::Unsafe, format!("a reader found a mixture of {size} bytes")));
                }
            }
        }
        let seen = format!("{REPLACEMENTS} replacements, and a reader saw old or new");
        Ok(match stale {
            0 => (Verdict::Safe, seen),
            _ => {
                (Verdict::Conditions, format!("{seen}; {stale} times it had to open the file again (ESTALE)"))
            }
        })
    };
    std::thread::scope(|scope| {
        let reading = scope.spawn(read_all);
        let written = (0..REPLACEMENTS).try_for_each(|round| write((round % 251) as u8));
        is_over.store(true, Ordering::Relaxed);
        let seen = reading.join().unwrap_or_else(|_| Err(io::Error::other("the reader failed")));
        written.and(seen)
    })
}

fn no_replace(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.create("no-replace-a")?;
    ground.create("no-replace-b")?;
    // NFS refuses to replace, but does not move to a free name either.
    let to_free = ground.rename("no-replace-a", ground, "no-replace-c", Onto::Nothing);
    let replacing = || ground.rename("no-replace-c", ground, "no-replace-b", Onto::Nothing);
    Ok(match to_free.and_then(|()| replacing()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (Verdict::Safe, "a rename can refuse to replace".to_owned())
        }
        Err(error) if is_unsupported(&error) => {
            (Verdict::Conditions, "not supported; names are looked at before they are used".to_owned())
        }
        other => (Verdict::Unsafe, format!("a rename that must not replace: {other:?}")),
    })
}

fn exchange(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.ensure("left")?;
    ground.ensure("right")?;
    let right = ground.look("right")?.map(|seen| seen.id);
    Ok(match ground.rename("left", ground, "right", Onto::Exchange) {
        Ok(()) if ground.look("left")?.map(|seen| seen.id) == right => {
            (Verdict::Safe, "two folders change places in one step".to_owned())
        }
        Ok(()) => (Verdict::Unsafe, "two folders that changed places did not".to_owned()),
        Err(error) if is_unsupported(&error) => {
            (Verdict::Conditions, "not supported: publish folders with --linked".to_owned())
        }
        Err(error) => return Err(error),
    })
}

fn identity(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.create("before")?;
    let before = ground.look("before")?.map(|seen| seen.id);
    ground.rename("before", ground, "after", Onto::Anything)?;
    let after = ground.look("after")?.map(|seen| seen.id);
    Ok(if before == after {
        (Verdict::Safe, "a file is known again after a rename".to_owned())
    } else {
        (
            Verdict::Unsafe,
            "a file has another number after a rename: lost replies can't be recognised".to_owned(),
        )
    })
}

fn fsync(ground: &Dir) -> io::Result<(Verdict, String)> {
    let mut file = ground.create("synced")?;
    file.write_all(b"x")?;
    ground.files().sync(file.as_fd())?;
    Ok(match ground.sync() {
        Ok(()) => (
            Verdict::Safe,
            "files and folders can be synced; that a disk obeys, no trial can show".to_owned(),
        ),
        Err(error) => (Verdict::Conditions, format!("a folder can't be synced: {error}")),
    })
}

fn folder_stamp(ground: &Dir) -> io::Result<(Verdict, String)> {
    let folder = ground.ensure("stamped")?;
    let before = folder.touch()?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    let after = folder.touch()?;
    Ok(if after > before {
        (Verdict::Safe, "heartbeats show within 20 ms on this machine".to_owned())
    } else {
        (Verdict::Conditions, "time stamps come in steps of more than 20 ms".to_owned())
    })
}

fn server_clock(ground: &Dir) -> io::Result<(Verdict, String)> {
    let before = clock::wall();
    let server = ground.touch()?;
    let after = clock::wall();
    let ahead = server.as_millis() as i128 - ((before + after) / 2).as_millis() as i128;
    let seen = format!("the file server's clock is {ahead} ms ahead of this machine's");
    Ok(if ahead.abs() <= SMALL_SKEW_MS {
        (Verdict::Safe, seen)
    } else {
        (Verdict::Conditions, format!("{seen}; only the server's counts, so nothing depends on it"))
    })
}

fn case_folding(ground: &Dir) -> io::Result<(Verdict, String)> {
    ground.create("case")?;
    Ok(match ground.look("CASE")? {
        None => (Verdict::Safe, "small and capital letters are told apart".to_owned()),
        Some(_) => {
            (Verdict::Conditions, "small and capital letters are the same: so are two such names".to_owned())
        }
    })
}
