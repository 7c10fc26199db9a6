//! Which store a command talks to, and opening it.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bell_coord::{Coord, Denied};
use bell_locks::LockBackend;
use bell_locks::locks::StoreLocks;

use crate::answer::Refusal;
use crate::say::Say;

/// The folder that makes a folder tree share a store of its own.
const PROJECT_FOLDER: &str = ".bell";
const FILE_NAME: &str = "bell.db";

/// A command at work: where its store is, and where its answers go.
pub(crate) struct Scene {
    pub(crate) say: Say,
    url: String,
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) coord: Coord,
    pub(crate) backend: Arc<dyn LockBackend>,
    /// The store by its real path, so that two ways to it are one name.
    pub(crate) name: String,
}

impl Scene {
    /// A command on the store at `url`.
    pub(crate) fn new(say: Say, url: String) -> Self {
        Self { say: say.about(&bell_locks::open::redacted(&url)), url }
    }

    /// The URL of the store, with its password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens a store that other processes can share.
    pub(crate) async fn open(&self) -> Result<Opened, Refusal> {
        if self.url.split(':').next() == Some("memory") {
            return Err(Refusal::invalid(
                "could not use memory: for a command: nobody else would see the lock",
                "Name a store that processes share: sqlite:PATH or file:FOLDER.",
            ));
        }
        self.open_any().await
    }

    /// Opens any store, for looking at it.
    pub(crate) async fn open_any(&self) -> Result<Opened, Refusal> {
        if !self.url.contains(':') {
            return Err(Denied::Invalid(format!(
                "{:?} is not a store URL: use memory:, sqlite:PATH, file:PATH",
                self.url
            ))
            .into());
        }
        let store = bell_locks::open::open_store(&self.url).await?;
        let info = store.info();
        let path = std::fs::canonicalize(&info.location).unwrap_or_else(|_| PathBuf::from(&info.location));
        let name = format!("{}:{}", info.scheme, path.display());
        let locks = StoreLocks::new(store);
        Ok(Opened { coord: locks.coord().clone(), backend: Arc::new(locks), name })
    }
}

/// The URL of the store: as given, or from the environment, or of the project, or of the user.
pub(crate) fn choose(given: Option<&str>) -> Result<String, Refusal> {
    if let Some(url) = self::given(given.map(str::to_owned)) {
        return Ok(url);
    }
    let here = env::current_dir().ok();
    let project = here.as_deref().and_then(project_store);
    match project {
        Some(path) => url(&path),
        None => url(&state_folder()?.join(FILE_NAME)),
    }
}

/// The store that the caller named, on the command line or in the environment.
pub(crate) fn given(option: Option<String>) -> Option<String> {
    option.or_else(|| env::var("BELL_STORE").ok()).filter(|url| !url.is_empty())
}

fn project_store(here: &Path) -> Option<PathBuf> {
    let project = here.ancestors().map(|folder| folder.join(PROJECT_FOLDER)).find(|folder| folder.is_dir());
    Some(project?.join(FILE_NAME))
}

fn url(path: &Path) -> Result<String, Refusal> {
    path.to_str().map(|path| format!("sqlite:{path}")).ok_or_else(|| {
        Refusal::invalid(
            format!("could not name the store {}: its path is not UTF-8", path.display()),
            "Name another store with --store or BELL_STORE.",
        )
    })
}

/// Where this user's programs keep what must outlive them.
pub(crate) fn state_folder() -> Result<PathBuf, Refusal> {
    // A relative path would mean another folder for each caller; such a setting is to be ignored.
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|folder| folder.join("bell")).ok_or_else(|| {
        Refusal::invalid(
            "could not find a folder for this user: neither XDG_STATE_HOME nor HOME is an absolute path",
            "Set HOME, or name a store with --store or BELL_STORE.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_folder_upwards_has_the_store() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(root.path().join(".bell")).unwrap();
        std::fs::create_dir_all(root.path().join("a/.bell")).unwrap();
        assert_eq!(project_store(&deep), Some(root.path().join("a/.bell/bell.db")));
    }

    #[test]
    fn a_file_of_that_name_is_no_project() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(".bell"), "").unwrap();
        let found = project_store(root.path());
        assert_ne!(found, Some(root.path().join(".bell/bell.db")));
    }
}
