//! The project that a command is about: the nearest one, from a folder upwards.
//!
//! | a folder is a project if it has | |
//! | --- | --- |
//! | `.bell` | whatever that is: one that can't be used is an error, and never a reason to look further up |
//! | `config.toml`, and a `SKILL.md` in `agents/*/` or `*/` | and is not itself an agent |
//!
//! Agents belong to the project around them. A folder below a `.bell`, such as a run's worktree, belongs to the project of
//! that `.bell`. Whether the project may be used is decided in [`crate::trust`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::discover::{AGENTS_FOLDER, SKILL_FILE};
use crate::load::CONFIG_FILE;

/// The folder with everything that Bellwether keeps for a project.
pub const STATE_FOLDER: &str = ".bell";
/// Entries looked at for one with a `SKILL.md`: a project with none among so many is told to run `bell init`.
const ENTRIES_MAX: usize = 100_000;

/// Why it can't be said which project is meant. The words read after "could not find the project: ".
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The system refused.
    #[error("{} can't be read: {error}", path.display())]
    Io {
        /// What was looked at.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Agents have a `.bell` of their own, and belong to another project.
    #[error("{} has a .bell of its own, and its agents belong to the project in {}", inner.display(), outer.display())]
    Nested {
        /// The folder of agents.
        inner: PathBuf,
        /// The project.
        outer: PathBuf,
    },
    /// The path can't be a part of a URL.
    #[error("the path {} is not UTF-8", .0.display())]
    NotText(PathBuf),
}

/// Finds the nearest project from `start` upwards. Answers its folder, free of links.
///
/// # Errors
/// If a folder on the way can't be looked at, or the project can't be named.
pub fn find(start: &Path) -> Result<Option<PathBuf>, LocateError> {
    let start = fs::canonicalize(start).map_err(unreadable(start))?;
    for folder in outside_of_state(&start).ancestors() {
        if is_project(folder)? {
            return named(folder).map(Some);
        }
    }
    Ok(None)
}

/// The project whose agents are in this folder, if it is `agents` of a project or one of its agents.
///
/// # Errors
/// As for [`find`].
pub fn owner(folder: &Path) -> Result<Option<PathBuf>, LocateError> {
    let Some(parent) = folder.parent() else { return Ok(None) };
    let is_agents = |folder: &Path| folder.file_name().is_some_and(|name| name == AGENTS_FOLDER);
    if is_agents(folder) {
        return has_marker(parent).map(|is_one| is_one.then(|| parent.to_owned()));
    }
    if !exists(&folder.join(SKILL_FILE))? {
        return Ok(None);
    }
    let project = if is_agents(parent) { parent.parent().unwrap_or(parent) } else { parent };
    has_marker(project).map(|is_one| is_one.then(|| project.to_owned()))
}

/// Whether a folder has agents in it: a `SKILL.md` in `agents/*/` or `*/`.
///
/// # Errors
/// As for [`find`].
pub fn has_agents(folder: &Path) -> Result<bool, LocateError> {
    Ok(has_skill(&folder.join(AGENTS_FOLDER))? || has_skill(folder)?)
}

fn is_project(folder: &Path) -> Result<bool, LocateError> {
    if !has_marker(folder)? {
        return Ok(false);
    }
    match owner(folder)? {
        None => Ok(true),
        Some(outer) if exists(&folder.join(STATE_FOLDER))? => {
            Err(LocateError::Nested { inner: folder.to_owned(), outer })
        }
        Some(_) => Ok(false),
    }
}

fn has_marker(folder: &Path) -> Result<bool, LocateError> {
    if exists(&folder.join(STATE_FOLDER))? {
        return Ok(true);
    }
    let is_agent = || exists(&folder.join(SKILL_FILE));
    Ok(exists(&folder.join(CONFIG_FILE))? && !is_agent()? && has_agents(folder)?)
}

fn has_skill(folder: &Path) -> Result<bool, LocateError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(false),
        Err(error) => return Err(unreadable(folder)(error)),
    };
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut folders = entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path());
    Ok(folders.any(|path| !is_hidden(&path) && exists(&path.join(SKILL_FILE)).unwrap_or(false)))
}

/// The folder itself, or what is around the `.bell` that it is in.
fn outside_of_state(folder: &Path) -> &Path {
    let state =
        folder.ancestors().filter(|part| part.file_name().is_some_and(|name| name == STATE_FOLDER)).last();
    state.and_then(Path::parent).unwrap_or(folder)
}

fn named(folder: &Path) -> Result<PathBuf, LocateError> {
    folder.to_str().map(PathBuf::from).ok_or_else(|| LocateError::NotText(folder.to_owned()))
}

/// Whether there is something of that name, also a link that leads nowhere.
fn exists(path: &Path) -> Result<bool, LocateError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(unreadable(path)(error)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> LocateError {
    let path = path.to_owned();
    move |error| LocateError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            if file.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
        }
        let path = fs::canonicalize(root.path()).unwrap();
        (root, path)
    }

    #[test]
    fn the_nearest_folder_with_a_bell_or_with_settings_and_agents_is_the_project() {
        let (_root, root) = tree(&[
            "a/.bell/",
            "a/b/c/",
            "f/config.toml",
            "f/agents/x/SKILL.md",
            "f/src/deep/",
            "g/config.toml",
            "g/x/SKILL.md",
        ]);
        for (start, project) in [
            ("a", Some("a")),
            ("a/b/c", Some("a")),
            ("a/.bell", Some("a")),
            ("f", Some("f")),
            ("f/agents", Some("f")),
            ("f/agents/x", Some("f")),
            ("f/src/deep", Some("f")),
            ("g/x", Some("g")),
            (".", None),
        ] {
            assert_eq!(find(&root.join(start)).unwrap(), project.map(|name| root.join(name)), "{start}");
        }
    }

    #[test]
    fn settings_alone_and_agents_alone_are_no_project() {
        let (_root, root) = tree(&["settings/config.toml", "agents/x/SKILL.md"]);
        assert_eq!(find(&root.join("settings")).unwrap(), None);
        assert_eq!(find(&root.join("agents/x")).unwrap(), None);
    }

    #[test]
    fn an_agent_with_settings_and_folders_of_its_own_belongs_to_the_project_around_it() {
        let (_root, root) = tree(&[
            "config.toml",
            "triage/SKILL.md",
            "triage/config.toml",
            "triage/part/SKILL.md",
            "agents/config.toml",
            "agents/desk/SKILL.md",
        ]);
        for start in ["triage", "triage/part", "agents", "agents/desk"] {
            assert_eq!(find(&root.join(start)).unwrap(), Some(root.clone()), "{start}");
        }
    }

    #[test]
    fn a_bell_of_its_own_among_a_projects_agents_is_refused() {
        let (_root, root) = tree(&["config.toml", "agents/x/SKILL.md", "agents/.bell/", "agents/x/.bell/"]);
        for start in ["agents", "agents/x"] {
            assert!(matches!(find(&root.join(start)), Err(LocateError::Nested { .. })), "{start}");
        }
    }

    #[test]
    fn a_worktree_below_the_state_of_a_project_belongs_to_that_project() {
        let (_root, root) = tree(&[
            "config.toml",
            ".bell/runs/1/worktree/config.toml",
            ".bell/runs/1/worktree/agents/x/SKILL.md",
        ]);
        let inner = root.join(".bell/runs/1/worktree/agents");
        assert_eq!(find(&inner).unwrap(), Some(root));
    }

    #[test]
    fn a_bell_that_is_no_folder_marks_a_project_all_the_same() {
        let (_root, root) = tree(&["outer/.bell/", "outer/inner/.bell"]);
        assert_eq!(find(&root.join("outer/inner")).unwrap(), Some(root.join("outer/inner")));
        std::os::unix::fs::symlink("nowhere", root.join("outer/inner/link")).unwrap();
        fs::create_dir(root.join("outer/other")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("outer/other/.bell")).unwrap();
        assert_eq!(find(&root.join("outer/other")).unwrap(), Some(root.join("outer/other")));
    }
}
