//! Looking at a project instead of being told.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustix::fs::FsWord;

use crate::discover::{AGENTS_FOLDER, AGENTS_MAX, SKILL_FILE};
use crate::folder::{Folder, Kind};
use crate::load::CONFIG_FILE;

/// File systems whose changes by other machines the kernel tells nobody: NFS, SMB, FUSE, 9p, Ceph, AFS.
const SILENT: [FsWord; 8] =
    [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x5346_414F];

/// Whether the kernel tells about changes in this folder.
pub(super) fn is_told_of_changes(folder: &Folder) -> bool {
    folder.file_system().is_none_or(|kind| !SILENT.contains(&kind))
}

/// Folders that are or may become agents, relative to the project.
pub(super) fn folders(folder: &Folder) -> Vec<String> {
    let names = |inner: &str| folder.list(inner).unwrap_or_default();
    let is_candidate = |(name, kind): &(String, Kind)| *kind == Kind::MaybeFolder && !name.starts_with('.');
    let in_agents = names(AGENTS_FOLDER).into_iter().filter(is_candidate);
    let in_agents = in_agents.map(|(name, _)| format!("{AGENTS_FOLDER}/{name}"));
    let in_root = names(".").into_iter().filter(is_candidate).map(|(name, _)| name);
    in_agents.chain(in_root.filter(|name| name != AGENTS_FOLDER)).take(2 * AGENTS_MAX).collect()
}

/// A number that is another one when something changed. Nothing is read but what the file system keeps about
/// each file.
pub(super) fn look(folder: &Folder) -> u64 {
    let mut hash = DefaultHasher::new();
    folder.fingerprint(CONFIG_FILE).hash(&mut hash);
    for place in folders(folder) {
        place.hash(&mut hash);
        for file in [SKILL_FILE, CONFIG_FILE, "run"] {
            folder.fingerprint(&format!("{place}/{file}")).hash(&mut hash);
        }
    }
    hash.finish()
}
