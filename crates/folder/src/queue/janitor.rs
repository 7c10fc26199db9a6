//! Putting back what the dead left.
//!
//! On its own machine a worker is gone when its process is; elsewhere when its folder was not touched for
//! longer than given, by differences on the file server's clock alone. Whoever is wrongly taken for dead loses
//! its items and nothing else: its next rename finds the name gone.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::FileType;
use serde::Serialize;

use super::FolderQueue;
use super::claim::note;
use super::place::Place;
use super::record::{self, Pulse};
use super::worker::BEAT_EVERY;
use crate::dir::{Dir, Seen};
use crate::error::{Error, Kind, Result};
use crate::files::Onto;
use crate::lock::{Locked, lock};
use crate::name::ItemName;

/// The file whose content says until when a janitor has the queue to itself.
const HOLD: &str = "janitor";

/// How long silence is allowed to last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of workers with a heartbeat.
    pub silent: Duration,
    /// Of others: plain `mv`, and commands that claim and go away.
    pub unattended: Duration,
    /// For how long other janitors stay away.
    pub window: Duration,
}

impl Default for Limits {
    /// A minute is twelve heartbeats; who has none gets an hour, as nobody can tell long work from death.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { silent: minute, unattended: 60 * minute, window: minute / 2 }
    }
}

const _: () = assert!(BEAT_EVERY.as_secs() * 4 <= 60, "a missed beat or three is not death");

/// Whether to do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Only say what would be done.
    Look,
    /// Do it, unless another janitor has the window.
    Act,
}

/// What the janitor found, item by item.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sweep {
    /// Items of workers that are gone.
    pub found: Vec<Found>,
    /// Workers that live.
    pub alive: u64,
    /// Half-written files that were removed, or would be.
    pub drafts: u64,
}

/// An item of a worker that is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Found {
    /// The item's first name.
    pub item: String,
    /// Whose it was.
    pub worker: String,
    /// Why that worker is taken for gone.
    pub why: String,
    /// What became of the item, or would.
    pub act: Act,
}

/// What the janitor does with an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// It waits again, with a higher fence.
    Requeued,
    /// It was tried often enough.
    Failed,
    /// Its worker was faster than the janitor, and is alive after all.
    Moved,
}

impl FolderQueue {
    /// Puts back what dead workers left.
    ///
    /// # Errors
    /// [`Kind::Busy`] if another janitor has the window; those of the file system.
    pub fn sweep(&self, limits: Limits, mode: Mode) -> Result<Sweep> {
        let place = &*self.place;
        let now = place.now()?;
        if mode == Mode::Act {
            hold(place, now, limits.window)?;
        }
        let mut sweep = Sweep::default();
        for entry in place.claimed.entries().map_err(place.claimed.fault("list", ""))? {
            let name = entry.name.to_str();
            let is_folder = matches!(entry.kind, FileType::Directory | FileType::Unknown);
            // Whatever else somebody put there is none of our business.
            let Some(worker) = name.filter(|name| is_folder && !name.starts_with('.')) else { continue };
            visit(place, worker, now, limits, mode, &mut sweep)?;
        }
        if mode == Mode::Act {
            forget(place, now, limits);
        }
        sweep.drafts = drafts(place, now, limits, mode)?;
        Ok(sweep)
    }

    /// Puts an item of a worker, or one that failed, back by hand. Tries are counted from 1 again.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if nobody has it and it has not failed.
    pub fn requeue(&self, name: &ItemName, worker: Option<&str>) -> Result<ItemName> {
        let place = &*self.place;
        let from = match worker {
            None => place.failed.clone(),
            Some(worker) => {
                crate::name::check_worker(worker)?;
                place.claimed.folder(worker).map_err(place.claimed.fault("open the folder", worker))?
            }
        };
        let new = name.afresh();
        place.move_free(&from, name, &place.waiting, &new).map_err(from.fault("requeue", name))?;
        place.sync(&[&place.waiting, &from])?;
        let _ = place.reasons.remove(name.base());
        Ok(new)
    }
}

fn visit(
    place: &Place,
    worker: &str,
    now: Duration,
    limits: Limits,
    mode: Mode,
    sweep: &mut Sweep,
) -> Result<()> {
    let Ok(folder) = place.claimed.folder(worker) else { return Ok(()) };
    let Ok(seen) = folder.look_at_self() else { return Ok(()) };
    let entries = folder.entries().map_err(folder.fault("list", ""))?;
    let items: Vec<ItemName> = entries.iter().filter_map(|entry| ItemName::found(&entry.name)).collect();
    let judged = Judged::of(place, worker, &seen, now, limits);
    let mut is_alive = false;
    for item in items {
        // An item that has just been claimed is as good as a heartbeat.
        let claimed = folder.look(&item).ok().flatten().map(|item| item.changed);
        match judged.why_gone(claimed) {
            None => is_alive = true,
            Some(why) => sweep.found.push(put_back(place, &folder, worker, &item, why, mode)?),
        }
    }
    is_alive |= judged.why_gone(None).is_none();
    sweep.alive += u64::from(is_alive);
    if !is_alive && mode == Mode::Act && place.claimed.remove_folder(worker).is_ok() {
        // Otherwise somebody is there after all.
        let _ = place.workers.remove(worker);
    }
    Ok(())
}

/// Removes what workers said of themselves whose folder somebody else removed. Nothing depends on it.
fn forget(place: &Place, now: Duration, limits: Limits) {
    for entry in place.workers.entries().unwrap_or_default() {
        let Some(worker) = entry.name.to_str() else { continue };
        let has_folder = !matches!(place.claimed.look(worker), Ok(None));
        let Ok(Some(seen)) = place.workers.look(worker) else { continue };
        if !has_folder && now.saturating_sub(seen.changed) > limits.unattended {
            let _ = place.workers.remove(worker);
        }
    }
}

/// What is known of a worker.
struct Judged {
    process_gone: Option<u32>,
    last_beat: Duration,
    limit: Duration,
    now: Duration,
}

impl Judged {
    fn of(place: &Place, worker: &str, folder: &Seen, now: Duration, limits: Limits) -> Self {
        let record = record::read(&place.workers, worker);
        let beats = record.as_ref().is_some_and(|record| record.pulse == Pulse::Beating);
        let process = record.and_then(|record| record.process).filter(|process| process.is_gone());
        Self {
            process_gone: process.map(|process| process.pid),
            last_beat: folder.modified,
            limit: if beats { limits.silent } else { limits.unattended },
            now,
        }
    }

    /// Why the worker is taken for gone, if it is.
    fn why_gone(&self, claimed: Option<Duration>) -> Option<String> {
        if let Some(pid) = self.process_gone {
            return Some(format!("its process {pid} has ended"));
        }
        let last = self.last_beat.max(claimed.unwrap_or_default());
        let silence = self.now.saturating_sub(last);
        (silence >= self.limit).then(|| format!("silent for {} s", silence.as_secs()))
    }
}

fn put_back(
    place: &Place,
    folder: &Dir,
    worker: &str,
    item: &ItemName,
    why: String,
    mode: Mode,
) -> Result<Found> {
    let is_spent = item.is_last(place.settings.attempts);
    let planned = if is_spent { Act::Failed } else { Act::Requeued };
    let act = match mode {
        Mode::Look => planned,
        Mode::Act => {
            let (to, name) =
                if is_spent { (&place.failed, item.clone()) } else { (&place.waiting, item.next()) };
            note(place, item, &format!("{worker}: {why}"));
            match place.move_free(folder, item, to, &name) {
                Ok(()) => {
                    place.sync(&[to, folder])?;
                    planned
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Act::Moved,
                // Somebody made the very name that it would get: people have to look at that.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let moved = folder.rename(item, &place.failed, item, Onto::Anything);
                    moved.map(|()| Act::Failed).map_err(folder.fault("put aside", item))?
                }
                Err(error) => return Err(folder.fault("put back", item)(error)),
            }
        }
    };
    Ok(Found { item: item.base().to_owned(), worker: worker.to_owned(), why, act })
}

/// Files that somebody began to write and never finished.
fn drafts(place: &Place, now: Duration, limits: Limits, mode: Mode) -> Result<u64> {
    let mut count = 0;
    for entry in place.drafts.entries().map_err(place.drafts.fault("list", ""))? {
        let seen = place.drafts.look(&entry.name).ok().flatten();
        let is_old = seen.is_some_and(|seen| {
            seen.is_file() && now.saturating_sub(seen.modified.max(seen.changed)) > limits.unattended
        });
        count += u64::from(is_old);
        if is_old && mode == Mode::Act {
            place.drafts.remove(&entry.name).map_err(place.drafts.fault("remove", &entry.name))?;
        }
    }
    Ok(count)
}

/// Takes the queue for one janitor and one window: never given back, the next window opens by itself.
///
/// Without locks it is only unlikely that two sweep at once; that costs time and nothing else.
fn hold(place: &Place, now: Duration, window: Duration) -> Result<()> {
    let fault = |error| place.meta.fault("hold", HOLD)(error);
    let file = place.meta.keep(HOLD).map_err(fault)?;
    let busy = || {
        Error::new(
            Kind::Busy,
            format!("sweep {}: another janitor has this window", place.root.path().display()),
        )
        .hint("Nothing is to be done: the next one sweeps when the window is over.")
    };
    if lock(&file, Duration::ZERO).map_err(fault)? == Locked::Busy {
        return Err(busy());
    }
    let mut text = String::new();
    (&file).take(64).read_to_string(&mut text).map_err(fault)?;
    let until = text.trim_end().parse().map_or(Duration::ZERO, Duration::from_millis);
    // A hold from far ahead is from before the server's clock was set back.
    if now < until && until - now <= window {
        return Err(busy());
    }
    let until_ms = u64::try_from((now + window).as_millis()).unwrap_or(u64::MAX);
    file.write_all_at(format!("{until_ms:020}\n").as_bytes(), 0).map_err(fault)
}
