//! Which items are next, without listing the folder for each claim.
//!
//! A list of what waits, oldest first, lies beside the queue, and all workers read on in it: each takes the
//! next few names under a short lock. It is made anew when it is used up or too old, and its age is allowed to
//! be twenty times what making it took, so that listing never takes more than a twentieth of the time. The list
//! is a hint: the rename decides. If it is lost, damaged or out of date, workers find names gone and make a
//! new one; without locks each worker lists for itself.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bell_store::clock;
use rustix::fs::FileType;

use super::place::Place;
use crate::dir::Dir;
use crate::error::Result;
use crate::files::Onto;
use crate::lock::{Locked, lock};
use crate::name::ItemName;
use crate::process::nonce;

const LIST: &str = "order";
const DRAFT: &str = "order.new";
/// Which list is current and how far it was read; also what is locked.
const POSITION: &str = "order.at";

/// A list is always good for this long.
const FRESH: Duration = Duration::from_secs(2);
/// And for this many times what making it took.
const FRESH_PER_LISTING: u32 = 20;
/// A folder that changed this shortly before it was listed may have changed again in the same tick of the
/// file server's clock.
const TICK: Duration = Duration::from_secs(2);
/// A list of a million takes seconds to make, under the lock; then a worker lists for itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// Room for the nonce, a space and the offset.
const POSITION_BYTES: usize = 48;
/// More than the longest names that are asked for at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// The order of what waits, as one worker sees it.
#[derive(Debug)]
pub(super) struct Order {
    place: Arc<Place>,
    position: File,
    list: Option<List>,
}

/// A list that was made at one time.
#[derive(Debug)]
struct List {
    file: File,
    nonce: String,
    /// Where the names begin.
    start: u64,
    made: Duration,
    listing: Duration,
    /// When the folder had last changed before it was listed.
    folder_changed: Duration,
    /// Whether it has no names at all.
    is_empty: bool,
}

impl Order {
    pub(super) fn open(place: Arc<Place>) -> Result<Self> {
        let position = place.meta.keep(POSITION).map_err(place.meta.fault("open", POSITION))?;
        Ok(Self { place, position, list: None })
    }

    /// The next `count` names or fewer, oldest first; none if nothing waits.
    pub(super) fn take(&mut self, count: usize) -> Result<Vec<ItemName>> {
        let locked = lock(&self.position, PATIENCE).map_err(self.place.meta.fault("lock", POSITION))?;
        if locked != Locked::Yes {
            return sorted(&self.place.waiting).map_err(self.place.waiting.fault("list", ""));
        }
        let taken = self.take_locked(count);
        // If this fails it is closed with the process at the latest.
        let _ = self.position.unlock();
        taken
    }

    fn take_locked(&mut self, count: usize) -> Result<Vec<ItemName>> {
        let (place, now) = (Arc::clone(&self.place), self.place.now()?);
        match self.read_on(count, now).map_err(place.meta.fault("read", LIST))? {
            Some(names) => Ok(names),
            None => self.make(now, count).map_err(place.meta.fault("write", LIST)),
        }
    }

    /// `None`: a new list is needed.
    fn read_on(&mut self, count: usize, now: Duration) -> io::Result<Option<Vec<ItemName>>> {
        let Some((nonce, offset)) = read_position(&self.position)? else { return Ok(None) };
        if self.list.as_ref().is_none_or(|list| list.nonce != nonce) {
            self.list = List::open(&self.place.meta);
        }
        let Some(list) = self.list.as_ref().filter(|list| list.nonce == nonce) else { return Ok(None) };
        let (names, next) = list.names(offset, count)?;
        if names.is_empty() {
            let changed = self.place.waiting.look_at_self()?.modified;
            return Ok(list.is_empty_still(changed).then(Vec::new));
        }
        if !list.is_fresh(now) {
            return Ok(None);
        }
        write_position(&self.position, &nonce, next)?;
        Ok(Some(names))
    }

    fn make(&mut self, now: Duration, count: usize) -> io::Result<Vec<ItemName>> {
        let (place, began) = (&self.place, clock::boottime());
        let folder_changed = place.waiting.look_at_self()?.modified;
        let mut all = sorted(&place.waiting)?;
        let listing = clock::boottime().saturating_sub(began);
        place.meta.remove(DRAFT)?;
        let file = place.meta.create(DRAFT)?;
        let nonce = nonce();
        let head = Head { nonce: &nonce, made: now, listing, folder_changed };
        write_list(&file, &head, &all)?;
        place.meta.rename(DRAFT, &place.meta, LIST, Onto::Anything)?;
        let list = List::open(&place.meta);
        let names = all.drain(..count.min(all.len())).collect::<Vec<_>>();
        let read: usize = names.iter().map(|name| name.as_str().len() + 1).sum();
        let start = list.as_ref().map_or(0, |list| list.start);
        write_position(&self.position, &nonce, start + read as u64)?;
        self.list = list;
        Ok(names)
    }
}

/// The first line of a list.
struct Head<'a> {
    nonce: &'a str,
    made: Duration,
    listing: Duration,
    folder_changed: Duration,
}

const MARK: &str = "bell-order-1";

fn write_list(file: &File, head: &Head<'_>, names: &[ItemName]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let [made, listing, changed] = [head.made, head.listing, head.folder_changed].map(|time| time.as_nanos());
    writeln!(out, "{MARK} {} {made} {listing} {changed}", head.nonce)?;
    for name in names {
        out.write_all(name.as_str().as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

impl List {
    /// The list that lies there, if it can be read.
    fn open(meta: &Dir) -> Option<Self> {
        let file = meta.read(LIST).ok()?;
        let mut line = String::new();
        BufReader::new(&file).read_line(&mut line).ok()?;
        let mut words = line.strip_suffix('\n')?.split(' ');
        let _mark = words.next().filter(|mark| *mark == MARK)?;
        let nonce = words.next()?.to_owned();
        let mut time = || words.next()?.parse().ok().map(Duration::from_nanos);
        let (made, listing, folder_changed) = (time()?, time()?, time()?);
        let start = line.len() as u64;
        let is_empty = file.metadata().ok()?.len() == start;
        Some(Self { start, file, nonce, made, listing, folder_changed, is_empty })
    }

    /// Names from an offset on, and the offset behind them.
    fn names(&self, offset: u64, count: usize) -> io::Result<(Vec<ItemName>, u64)> {
        let mut bytes = vec![0; CHUNK_BYTES.min(count * 256)];
        let read = self.file.read_at(&mut bytes, offset.max(self.start))?;
        let (mut names, mut next) = (Vec::new(), offset.max(self.start));
        for line in bytes[..read].split_inclusive(|byte| *byte == b'\n').take(count) {
            let Some(line_text) = line.strip_suffix(b"\n") else { break };
            next += line.len() as u64;
            let name = std::str::from_utf8(line_text).ok();
            names.extend(name.and_then(|name| ItemName::found(name.as_ref())));
        }
        Ok((names, next))
    }

    fn is_fresh(&self, now: Duration) -> bool {
        let age = now.checked_sub(self.made);
        age.is_some_and(|age| age <= FRESH.max(self.listing * FRESH_PER_LISTING))
    }

    /// Whether the folder was empty and nothing came since, judged by when it last changed.
    ///
    /// The end of a list that had names says nothing: whoever took the last of them may have died.
    fn is_empty_still(&self, folder_changed: Duration) -> bool {
        self.is_empty && folder_changed == self.folder_changed && folder_changed + TICK <= self.made
    }
}

fn read_position(position: &File) -> io::Result<Option<(String, u64)>> {
    let mut bytes = [0; POSITION_BYTES];
    let read = position.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..read]).ok();
    let words = text.and_then(|text| text.trim_end().split_once(' '));
    Ok(words.and_then(|(nonce, offset)| Some((nonce.to_owned(), offset.parse().ok()?))))
}

fn write_position(position: &File, nonce: &str, offset: u64) -> io::Result<()> {
    let text = format!("{:<width$}\n", format!("{nonce} {offset}"), width = POSITION_BYTES - 1);
    position.write_all_at(text.as_bytes(), 0)
}

/// Every item that waits, oldest first.
pub(super) fn sorted(waiting: &Dir) -> io::Result<Vec<ItemName>> {
    let entries = waiting.entries()?.into_iter();
    let plain = entries.filter(|entry| matches!(entry.kind, FileType::RegularFile | FileType::Unknown));
    let mut names: Vec<ItemName> = plain.filter_map(|entry| ItemName::found(&entry.name)).collect();
    names.sort_unstable();
    Ok(names)
}
