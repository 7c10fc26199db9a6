//! The folders of a queue, opened once and never looked up again: what is put in their place later is not
//! followed.

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Settings, Syncing};
use crate::dir::Dir;
use crate::error::{Error, Kind, Result, is_unsupported};
use crate::files::{Files, Onto};
use crate::name::ItemName;
use crate::process::nonce;

/// What makes a folder a queue.
const WAITING: &str = "queue";
/// Not `.bell`: that makes a folder tree a project with a store of its own.
const META: &str = ".bell-queue";
const SETTINGS: &str = "settings.json";

/// A queue's folders.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: Dir,
    pub(crate) waiting: Dir,
    pub(crate) claimed: Dir,
    pub(crate) done: Dir,
    pub(crate) failed: Dir,
    pub(crate) drafts: Dir,
    pub(crate) meta: Dir,
    pub(crate) workers: Dir,
    pub(crate) reasons: Dir,
    /// Touched to learn the file server's time.
    clock: Dir,
    pub(crate) settings: Settings,
    /// The time in the last name that was made here.
    pub(crate) last_name: AtomicU64,
    /// Whether the file system was found unable to refuse to replace.
    replaces_blindly: AtomicBool,
}

impl Place {
    pub(super) fn init(path: &Path, settings: Settings, files: Arc<dyn Files>) -> Result<Self> {
        if settings.attempts == 0 {
            return Err(Error::new(Kind::Invalid, "use 0 attempts: an item would fail untried")
                .hint("Allow one attempt at least."));
        }
        if std::fs::symlink_metadata(path).is_err() {
            let made = DirBuilder::new().recursive(true).create(path);
            made.map_err(|error| Error::io("make the folder", path, error))?;
        }
        let root = Dir::open(path, files)?;
        root.ensure(WAITING).map_err(root.fault("make the folder", WAITING))?;
        let meta = root.ensure(META).map_err(root.fault("make the folder", META))?;
        store(&meta, settings).map_err(meta.fault("write", SETTINGS))?;
        Self::at(root, settings)
    }

    pub(super) fn open(path: &Path, files: Arc<dyn Files>) -> Result<Self> {
        let root = Dir::open(path, files)?;
        if let Err(error) = root.folder(WAITING) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(root.fault("open the folder", WAITING)(error));
            }
            let what = format!("use {} as a queue: it has no folder named {WAITING}", path.display());
            return Err(
                Error::new(Kind::NotFound, what).hint(format!("Run bell queue init {}.", path.display()))
            );
        }
        let settings = load(&root)?;
        Self::at(root, settings)
    }

    fn at(root: Dir, settings: Settings) -> Result<Self> {
        let part = |of: &Dir, name: &str| of.ensure(name).map_err(of.fault("open the folder", name));
        let meta = part(&root, META)?;
        let place = Self {
            waiting: part(&root, WAITING)?,
            claimed: part(&root, "claimed")?,
            done: part(&root, "done")?,
            failed: part(&root, "failed")?,
            drafts: part(&root, ".tmp")?,
            workers: part(&meta, "workers")?,
            reasons: part(&meta, "reasons")?,
            clock: part(&meta, "clock")?,
            meta,
            root,
            settings,
            last_name: AtomicU64::new(0),
            replaces_blindly: AtomicBool::new(false),
        };
        place.check_one_file_system()?;
        Ok(place)
    }

    fn check_one_file_system(&self) -> Result<()> {
        let device = |dir: &Dir| match dir.look_at_self() {
            Ok(seen) => Ok(seen.id.device),
            Err(error) => Err(dir.fault("look at", "")(error)),
        };
        let first = device(&self.waiting)?;
        for other in [&self.claimed, &self.done, &self.failed, &self.drafts] {
            if device(other)? != first {
                let what = format!(
                    "use {}: {} and {} are on different file systems, and nothing can be renamed between them",
                    self.root.path().display(),
                    self.waiting.path().display(),
                    other.path().display()
                );
                return Err(Error::new(Kind::Unsupported, what).hint(
                    "Keep all folders of a queue on one file system; links and mounts inside it are refused.",
                ));
            }
        }
        Ok(())
    }

    /// The time by the file server's clock, since 1970.
    pub(crate) fn now(&self) -> Result<Duration> {
        self.clock.touch().map_err(self.clock.fault("ask the file server for its time:", ""))
    }

    /// Moves a name to where nothing is of that name.
    pub(crate) fn move_free(&self, from: &Dir, name: &ItemName, to: &Dir, new: &ItemName) -> io::Result<()> {
        if !self.replaces_blindly.load(Ordering::Relaxed) {
            match from.rename(name, to, new, Onto::Nothing) {
                Err(error) if is_unsupported(&error) => self.replaces_blindly.store(true, Ordering::Relaxed),
                answered => return answered,
            }
        }
        // Not one step, but each destination has one writer: a worker's own folder, or a name with a new fence.
        match to.look(new)? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => from.rename(name, to, new, Onto::Anything),
        }
    }

    /// Makes what came to one folder and went from another durable, if the queue wants that.
    pub(crate) fn sync(&self, folders: &[&Dir]) -> Result<()> {
        if self.settings.syncing == Syncing::Nothing {
            return Ok(());
        }
        folders.iter().try_for_each(|folder| folder.sync().map_err(folder.fault("sync", "")))
    }
}

fn load(root: &Dir) -> Result<Settings> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        root.folder(META)?.read(SETTINGS)?.take(MAX_SETTINGS_BYTES).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Settings::default()),
        Err(error) => Err(root.fault("read the settings in", META)(error)),
        Ok(text) => serde_json::from_str(&text).map_err(|error| {
            let path = root.path().join(META).join(SETTINGS);
            Error::new(Kind::Corrupt, format!("read {}: {error}", path.display()))
                .hint("Write the settings anew with bell queue init.")
        }),
    }
}

/// Settings are a few words; anything longer is not ours.
const MAX_SETTINGS_BYTES: u64 = 4_096;

fn store(meta: &Dir, settings: Settings) -> io::Result<()> {
    let draft = format!("{SETTINGS}.{}", nonce());
    let mut file = meta.create(&draft)?;
    file.write_all(&serde_json::to_vec(&settings)?)?;
    file.sync_all()?;
    meta.rename(&draft, meta, SETTINGS, Onto::Anything)?;
    meta.sync()
}
