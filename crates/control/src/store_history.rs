//! What the daemon of a project has seen of its stores: how far each had come, and what is wrong with it now.
//!
//! It is in `.bell/stores.json`. A store that was brought back from a backup, or begun again, can't know
//! how far it had come; whoever starts over it compares. It is a lower bound: a store that is ahead of it is in order.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bell_api::control::status::{Attention, AttentionKind};
use bell_core::work::Wall;
use bell_store::{Error, Kind, Outcome, Revision, Store, Txn};
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// What has been seen of a store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreHistory {
    /// Its URL, without the password: another store has another history.
    pub store: String,
    /// The highest revision that was seen.
    pub revision: Revision,
    /// Why the daemon can't use it, if it can't until an operator acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<StoreTrouble>,
}

/// Why a store can't be used until an operator acts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreTrouble {
    /// What kind of trouble.
    pub kind: TroubleKind,
    /// Since when.
    pub since: Wall,
    /// What the store said.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// Kinds of trouble that do not pass by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Its files were removed or replaced while they were open.
    Replaced,
    /// It answers with a lower revision than it had.
    WentBack,
}

impl TroubleKind {
    /// The trouble that an error tells of, if it does.
    pub fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            Kind::Replaced => Some(Self::Replaced),
            Kind::Rewound => Some(Self::WentBack),
            _ => None,
        }
    }

    /// One sentence without a path or a host: anybody may read it.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Replaced => {
                "its files were removed or replaced while they were open; everything is refused until the daemon is \
                 started again on the right ones"
            }
            Self::WentBack => {
                "it went back in time: bring the newest copy back, or run bell store raise-epoch if this one is right"
            }
        }
    }
}

/// How far a store is: a transaction that writes nothing goes where commits go, never to a copy that may lag behind.
///
/// # Errors
/// If the store does not take commits.
pub async fn revision(store: &dyn Store) -> Result<Revision, Error> {
    match store.commit(Txn::default()).await? {
        Outcome::Committed(committed) => Ok(committed.revision),
        Outcome::Conflict(found) => Ok(found.revision),
    }
}

impl StoreHistory {
    /// Nothing has been seen of the store at this redacted URL.
    pub fn new(redacted: &str) -> Self {
        Self { store: Self::name_of(redacted), revision: 0, trouble: None }
    }

    /// What the store at this redacted URL is called here, from whichever folder it was named: paths are absolute.
    pub fn name_of(redacted: &str) -> String {
        let Some((scheme @ ("sqlite" | "file"), rest)) = redacted.split_once(':') else {
            return redacted.to_owned();
        };
        let path = Path::new(rest.strip_prefix("//").unwrap_or(rest));
        // The file may be gone; its folder most often is not.
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let found = fs::canonicalize(folder).ok().zip(path.file_name());
        let absolute = found.map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name));
        format!("{scheme}:{}", absolute.display())
    }

    /// What was last written down of this store; nothing, if it was of another or can't be read.
    pub fn load(place: &Place, redacted: &str) -> Self {
        let store = Self::name_of(redacted);
        Self::all(place).into_iter().find(|known| known.store == store).unwrap_or_else(|| Self::new(redacted))
    }

    /// Whether something was written down of the store with this name.
    pub(crate) fn is_of(place: &Place, name: &str) -> bool {
        Self::all(place).iter().any(|known| known.store == name)
    }

    /// What was last written down of every store.
    pub fn all(place: &Place) -> Vec<Self> {
        Self::read(place).unwrap_or_default()
    }

    /// A file that is missing or can't be understood says nothing; one that can't be read now must not be written anew.
    fn read(place: &Place) -> io::Result<Vec<Self>> {
        match fs::read(place.store_histories()) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes it down. It is not synced: after a power cut an older one, or none, does less and harms nothing.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn save(&self, place: &Place) -> io::Result<()> {
        // Each store has its own task in the one daemon that writes.
        static WRITING: Mutex<()> = Mutex::new(());
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Self::read(place)?;
        all.retain(|known| known.store != self.store);
        all.push(self.clone());
        write(place, &all)
    }

    /// Forgets trouble that an earlier daemon had: the project may use other stores now.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn forget_troubles(place: &Place) -> io::Result<()> {
        let all = Self::read(place)?.into_iter().map(|known| Self { trouble: None, ..known });
        write(place, &all.collect::<Vec<_>>())
    }

    /// Refuses a store that is behind what was seen of it.
    ///
    /// # Errors
    /// [`Kind::Rewound`].
    pub fn check(&self, revision: Revision) -> Result<(), Error> {
        if revision >= self.revision {
            return Ok(());
        }
        let message = format!(
            "use the store: it went back in time: a daemon of this project saw revision {}, and now it is at {revision}",
            self.revision
        );
        Err(Error::new(Kind::Rewound, message).hint(format!(
            "It is an older copy or a new one, and would give fences twice. Bring the newest copy back, a SQLite file with its \
             -wal file; if this one is right, run {}.",
            raise_epoch_of(&self.store)
        )))
    }

    /// The same after an answer of the store.
    #[must_use]
    pub fn after(self, answer: Result<Revision, &Error>, now: Wall) -> Self {
        match answer {
            Ok(revision) => Self { revision: revision.max(self.revision), trouble: None, ..self },
            Err(error) => {
                let found = TroubleKind::of(error).map(|kind| StoreTrouble {
                    kind,
                    since: now,
                    message: format!("could not {error}"),
                    hint: error.advice().to_owned(),
                });
                let is_known =
                    self.trouble.as_ref().map(|known| known.kind) == found.as_ref().map(|new| new.kind);
                // A store that only does not answer may be in order or not.
                if found.is_none() || is_known { self } else { Self { trouble: found, ..self } }
            }
        }
    }

    /// What an operator is to see of it. Counts only while the daemon that wrote it is there.
    pub fn attention(&self, place: &Place) -> Option<Attention> {
        let trouble = self.trouble.as_ref().filter(|_| place.occupant().is_some())?;
        let kind = match trouble.kind {
            TroubleKind::Replaced => AttentionKind::StoreReplaced,
            TroubleKind::WentBack => AttentionKind::StoreWentBack,
        };
        let hint = Some(trouble.hint.clone()).filter(|hint| !hint.is_empty());
        Some(Attention { kind, subject: self.store.clone(), message: trouble.message.clone(), hint })
    }
}

/// The command that raises the epoch of a store with this name. A project may have two, and the password of a server is not
/// known here.
pub(crate) fn raise_epoch_of(name: &str) -> String {
    let store = if is_file(name) { format!(" --store {name}") } else { String::new() };
    format!("bell store raise-epoch --yes{store}")
}

/// Whether a store with this name is made of files.
pub(crate) fn is_file(name: &str) -> bool {
    name.starts_with("sqlite:") || name.starts_with("file:")
}

fn write(place: &Place, all: &[StoreHistory]) -> io::Result<()> {
    place.write_unsynced(&place.store_histories(), &serde_json::to_vec(all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "sqlite:/p/.bell/bell.db";

    fn at(revision: Revision) -> StoreHistory {
        StoreHistory { revision, ..StoreHistory::new(STORE) }
    }

    #[test]
    fn a_store_has_one_name_from_every_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        let (here, name) = (std::env::current_dir().unwrap(), path.join("bell.db").display().to_string());
        let up = "../".repeat(here.components().count() - 1);
        for url in [format!("sqlite:{name}"), format!("sqlite://{name}"), format!("sqlite:{up}.{name}")] {
            assert_eq!(StoreHistory::name_of(&url), format!("sqlite:{name}"), "{url}");
        }
        assert_eq!(StoreHistory::name_of("redis://…@h/1"), "redis://…@h/1");
    }

    #[test]
    fn a_store_that_is_behind_what_was_seen_is_refused() {
        assert_eq!(at(7).check(6).map_err(|error| error.kind()), Err(Kind::Rewound));
        assert!(at(7).check(7).is_ok() && at(7).check(1 << 40).is_ok());
    }

    #[test]
    fn trouble_is_kept_until_the_store_takes_commits_again() {
        let replaced = Error::new(Kind::Replaced, "commit").hint("start again");
        let passing = Error::new(Kind::Unavailable, "commit");
        let history = at(7).after(Err(&replaced), Wall(1));
        let again = history.clone().after(Err(&passing), Wall(2)).after(Err(&replaced), Wall(3));
        assert_eq!(again, history, "it began then");
        assert_eq!(history.trouble.as_ref().map(|trouble| trouble.kind), Some(TroubleKind::Replaced));
        assert_eq!(history.after(Ok(9), Wall(4)), at(9));
        assert_eq!(at(7).after(Ok(5), Wall(4)), at(7), "it never sinks");
    }

    #[test]
    fn what_was_written_down_counts_for_the_same_store_only() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        place.make().unwrap();
        at(7).save(&place).unwrap();
        assert_eq!(StoreHistory::load(&place, STORE), at(7));
        assert_eq!(StoreHistory::load(&place, "redis://other").revision, 0);
        let other = StoreHistory { revision: 3, ..StoreHistory::new("redis://other") };
        other.save(&place).unwrap();
        at(8).save(&place).unwrap();
        assert_eq!(StoreHistory::all(&place), [other, at(8)], "each once");
        fs::write(place.store_histories(), "{").unwrap();
        assert_eq!(StoreHistory::load(&place, STORE), at(0));
    }

    #[test]
    fn an_operator_sees_the_trouble_of_a_daemon_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        place.make().unwrap();
        let replaced = Error::new(Kind::Replaced, "commit").hint("start again");
        let history = at(7).after(Err(&replaced), Wall(1));
        assert_eq!(history.attention(&place), None, "nobody is there any more");
        place.sign().unwrap();
        let shown = history.attention(&place).unwrap();
        assert_eq!((shown.kind, shown.subject.as_str()), (AttentionKind::StoreReplaced, STORE));
        assert_eq!(shown.hint.as_deref(), Some("start again"));
        history.save(&place).unwrap();
        StoreHistory::forget_troubles(&place).unwrap();
        assert_eq!(StoreHistory::load(&place, STORE), at(7));
    }
}
