//! What is where.

use std::io::Read;

use rustix::fs::FileType;
use serde::Serialize;

use super::FolderQueue;
use super::order::sorted;
use super::place::Place;
use crate::dir::Dir;
use crate::error::Result;
use crate::name::ItemName;

/// Where an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody has it.
    Waiting,
    /// A worker has it.
    Claimed,
    /// It is finished.
    Done,
    /// It was given up.
    Failed,
}

/// An item of the queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Item {
    /// Its first name.
    pub item: String,
    /// Its file name, with its fence.
    pub name: String,
    /// Where it is.
    pub state: State,
    /// The fence of its present or next claim.
    pub fence: u64,
    /// Which try it is at.
    pub attempt: u64,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Why it failed, as far as anybody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How many are where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Items that nobody has.
    pub waiting: u64,
    /// Items that workers have.
    pub claimed: u64,
    /// Workers that have a folder.
    pub workers: u64,
    /// Finished items.
    pub done: u64,
    /// Items that were given up.
    pub failed: u64,
    /// What lies in the queue and can't be an item: folders, links, names that are not UTF-8.
    pub unfit: u64,
}

impl FolderQueue {
    /// The items in a state, oldest first, `limit` at the most.
    ///
    /// # Errors
    /// Those of listing.
    pub fn items(&self, state: State, limit: usize) -> Result<Vec<Item>> {
        let place = &*self.place;
        let all = |dir: &Dir| sorted(dir).map_err(dir.fault("list", ""));
        let items = match state {
            State::Waiting => all(&place.waiting)?.into_iter().map(|name| (name, None)).collect(),
            State::Done => all(&place.done)?.into_iter().map(|name| (name, None)).collect(),
            State::Failed => all(&place.failed)?.into_iter().map(|name| (name, None)).collect(),
            State::Claimed => claimed(place)?,
        };
        let of = |(name, worker): (ItemName, Option<String>)| Item {
            item: name.base().to_owned(),
            state,
            fence: name.fence().0,
            attempt: name.attempt(),
            worker,
            reason: reason(place, &name),
            name: name.as_str().to_owned(),
        };
        Ok(items.into_iter().take(limit).map(of).collect())
    }

    /// How many are where. It counts names and opens nothing.
    ///
    /// # Errors
    /// Those of listing.
    pub fn counts(&self) -> Result<Counts> {
        let place = &*self.place;
        let (waiting, unfit) = count(&place.waiting)?;
        let workers = workers(place)?;
        let mut claimed = 0;
        for (_, folder) in &workers {
            claimed += count(folder)?.0;
        }
        Ok(Counts {
            waiting,
            claimed,
            workers: workers.len() as u64,
            done: count(&place.done)?.0,
            failed: count(&place.failed)?.0,
            unfit,
        })
    }
}

/// The items of all workers, oldest first.
pub(super) fn claimed(place: &Place) -> Result<Vec<(ItemName, Option<String>)>> {
    let mut items = Vec::new();
    for (worker, folder) in workers(place)? {
        let names = sorted(&folder).map_err(folder.fault("list", ""))?;
        items.extend(names.into_iter().map(|name| (name, Some(worker.clone()))));
    }
    items.sort_unstable();
    Ok(items)
}

/// The folders of workers. One that is removed meanwhile is left out.
fn workers(place: &Place) -> Result<Vec<(String, Dir)>> {
    let entries = place.claimed.entries().map_err(place.claimed.fault("list", ""))?;
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    let names = names.filter(|name| !name.starts_with('.'));
    Ok(names.filter_map(|name| Some((name.clone(), place.claimed.folder(&name).ok()?))).collect())
}

/// Items, and what can't be one. Hidden names are neither.
fn count(dir: &Dir) -> Result<(u64, u64)> {
    let (mut items, mut unfit) = (0, 0);
    for entry in dir.entries().map_err(dir.fault("list", ""))? {
        let is_plain = matches!(entry.kind, FileType::RegularFile | FileType::Unknown);
        match ItemName::found(&entry.name) {
            Some(_) if is_plain => items += 1,
            _ if entry.name.as_encoded_bytes().starts_with(b".") => {}
            _ => unfit += 1,
        }
    }
    Ok((items, unfit))
}

fn reason(place: &Place, name: &ItemName) -> Option<String> {
    let mut text = String::new();
    place.reasons.read(name.base()).ok()?.take(4_096).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}
