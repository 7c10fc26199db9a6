//! The folders that the kernel watches for us.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::looking::folders;
use crate::discover::{AGENTS_FOLDER, SKILL_FILE};
use crate::folder::Folder;
use crate::load::CONFIG_FILE;

/// The folders that are watched, and which ones they were: a folder made anew under the same name is another.
pub(super) struct Places {
    watcher: RecommendedWatcher,
    root: PathBuf,
    watched: BTreeMap<String, [i64; 2]>,
}

impl Places {
    /// Watches nothing yet. None if the machine has no more watchers.
    pub(super) fn new(root: &Path, wake: SyncSender<()>) -> Option<Self> {
        let root = std::path::absolute(root).ok()?;
        let inside = root.clone();
        let tell = move |event: notify::Result<Event>| {
            // An error is a reason to look, too: events may have been lost.
            if event.map_or(true, |event| matters(&event, &inside)) {
                let _ = wake.try_send(());
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(tell, config).ok()?;
        Some(Self { watcher, root, watched: BTreeMap::new() })
    }

    /// Watches every folder that is or may become an agent, and those around them.
    pub(super) fn keep(&mut self, folder: &Folder) -> notify::Result<()> {
        let wanted = self.wanted(folder);
        let gone: Vec<String> = self
            .watched
            .iter()
            .filter(|(path, id)| wanted.get(*path) != Some(id))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.watched.remove(&path);
            // The kernel has forgotten a folder that is gone.
            let _ = self.watcher.unwatch(&self.root.join(&path));
        }
        for (path, id) in wanted {
            if self.watched.contains_key(&path) {
                continue;
            }
            match self.watcher.watch(&self.root.join(&path), RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(path, id)),
                // Gone since it was listed: its parent has told, and the next round sees it.
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wanted(&self, folder: &Folder) -> BTreeMap<String, [i64; 2]> {
        let id = |path: String| folder.identity(&path).map(|id| (path, id));
        let around = [".".to_owned(), AGENTS_FOLDER.to_owned()].into_iter();
        around.chain(folders(folder)).filter_map(id).collect()
    }
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Whether a change can make a difference. Reading a file is an event too, and so is every line that an
/// agent writes into a file beside its own.
fn matters(event: &Event, root: &Path) -> bool {
    let is_content = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => return false,
        EventKind::Modify(ModifyKind::Name(_)) | EventKind::Create(_) | EventKind::Remove(_) => false,
        EventKind::Modify(_) => true,
        EventKind::Any | EventKind::Other => return true,
    };
    event.need_rescan()
        || event.paths.is_empty()
        || event.paths.iter().any(|path| path_matters(path, root, is_content))
}

fn path_matters(path: &Path, root: &Path, is_content: bool) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    if [SKILL_FILE, CONFIG_FILE, "run"].contains(&name) || path == root {
        return true;
    }
    // A folder that comes or goes.
    let parent = path.parent();
    let holds_agents = parent == Some(root) || parent == Some(root.join(AGENTS_FOLDER).as_path());
    !is_content && holds_agents && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, MetadataKind, RenameMode};

    #[test]
    fn only_what_can_make_a_difference_wakes_anybody() {
        let root = Path::new("/p");
        let data = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let cases = [
            (data, "/p/agents/a/SKILL.md", true),
            (data, "/p/config.toml", true),
            (data, "/p/agents/a/notes.txt", false),
            (data, "/p/log.txt", false),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), "/p/agents/a/run", true),
            (EventKind::Modify(ModifyKind::Name(RenameMode::To)), "/p/agents/a/SKILL.md", true),
            (EventKind::Create(CreateKind::Folder), "/p/agents/b", true),
            (EventKind::Create(CreateKind::Folder), "/p/b", true),
            (EventKind::Create(CreateKind::Any), "/p/.bell", false),
            (EventKind::Create(CreateKind::Any), "/p/agents/a/.SKILL.md.swp", false),
            (EventKind::Access(AccessKind::Open(AccessMode::Read)), "/p/agents/a/SKILL.md", false),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), "/p/agents/a/SKILL.md", true),
        ];
        for (kind, path, expected) in cases {
            let event = Event::new(kind).add_path(path.into());
            assert_eq!(matters(&event, root), expected, "{kind:?} {path}");
        }
    }
}
