//! What a run can see of the machine: which paths are hidden from it, which are read-only, and by which means.
//!
//! Everything here is a pure function of the settings and of what is on disk. The exec shim ([`crate::stage`]) carries it
//! out; which paths are named is decided by whoever writes the launch.

mod access;
mod plan;
mod probe;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use access::{Allowed, allowed};
pub(crate) use plan::{Kind, Step, plan};
pub use probe::probe;

/// What to do on a machine that has no means of isolation for this user.
pub const HINT: &str =
    "Let this user make user namespaces, or use a kernel with landlock; `isolation = \"none\"` runs without.";

/// The isolation of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Isolation {
    /// How it is enforced.
    pub means: Means,
    /// What the run sees.
    pub views: Views,
}

/// How isolation is enforced. Each needs less of the machine than the one before it, and holds less.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// A mount namespace, made with the rights of root.
    Mounts,
    /// A mount namespace in a user namespace of its own, which needs no rights.
    UserMounts,
    /// Landlock rules around what is hidden. Unix sockets stay reachable, and nothing new can be made in the folders that
    /// something hidden is in.
    Landlock,
}

impl Means {
    /// All of them, the strongest first.
    pub const ALL: [Self; 3] = [Self::Mounts, Self::UserMounts, Self::Landlock];

    /// What it does not hold, if there is something.
    pub fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Mounts | Self::UserMounts => None,
            Self::Landlock => Some(
                "with landlock alone, sockets of this user's services and of container engines can be reached, names in hidden folders \
                 can be seen, and nothing new can be made directly in the project",
            ),
        }
    }

    /// The word for it in records and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mounts => "mounts",
            Self::UserMounts => "user_mounts",
            Self::Landlock => "landlock",
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mounts => "a mount namespace",
            Self::UserMounts => "a mount namespace in a user namespace",
            Self::Landlock => "landlock rules alone",
        })
    }
}

/// How a run sees one path, and all below it that no deeper path says otherwise of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// A folder looks empty, a file too.
    Hidden,
    /// It can be read and run.
    ReadOnly,
    /// As its user may.
    Open,
}

/// The views of a run by absolute path; the deepest path that leads to a file counts. What no path leads to is open.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Views(BTreeMap<PathBuf, View>);

impl Views {
    /// Sets the view of a path. Replaces an earlier one.
    pub fn set(&mut self, path: impl Into<PathBuf>, view: View) {
        self.0.insert(path.into(), view);
    }

    /// Sets the view of a path, unless it has one that is at least as closed.
    pub fn close(&mut self, path: impl Into<PathBuf>, view: View) {
        let path = path.into();
        let is_more_closed =
            |old: &View| matches!((old, view), (View::Hidden, _) | (View::ReadOnly, View::ReadOnly));
        if !self.0.get(&path).is_some_and(is_more_closed) {
            self.set(path, view);
        }
    }

    /// The views by path, each after those of the folders it is in.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, View)> {
        self.0.iter().map(|(path, view)| (path.as_path(), *view))
    }

    /// The view of a path.
    pub fn of(&self, path: &Path) -> View {
        path.ancestors().find_map(|path| self.0.get(path)).copied().unwrap_or(View::Open)
    }

    /// The view of the folder that a path is in.
    pub(crate) fn around(&self, path: &Path) -> View {
        path.parent().map_or(View::Open, |parent| self.of(parent))
    }

    /// The views of paths below this one.
    pub(crate) fn below(&self, path: &Path) -> impl Iterator<Item = (&Path, View)> {
        self.iter().filter(move |(other, _)| *other != path && other.starts_with(path))
    }
}

impl FromIterator<(PathBuf, View)> for Views {
    fn from_iter<I: IntoIterator<Item = (PathBuf, View)>>(views: I) -> Self {
        Self(views.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_path_counts() {
        let views: Views = [("/p/.bell", View::Hidden), ("/p/.bell/bin", View::ReadOnly)]
            .map(|(path, view)| (path.into(), view))
            .into_iter()
            .collect();
        assert_eq!(views.of(Path::new("/p/file")), View::Open);
        assert_eq!(views.of(Path::new("/p/.bell/api-key")), View::Hidden);
        assert_eq!(views.of(Path::new("/p/.bell/bin/bell")), View::ReadOnly);
        assert_eq!(views.of(Path::new("/p/.bellows")), View::Open);
    }

    #[test]
    fn a_closed_path_is_not_opened_by_a_weaker_view() {
        let mut views = Views::default();
        views.close("/p/agents", View::Hidden);
        views.close("/p/agents", View::ReadOnly);
        assert_eq!(views.of(Path::new("/p/agents/a")), View::Hidden);
    }
}
