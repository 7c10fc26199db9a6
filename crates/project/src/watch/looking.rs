//! Looking at a project instead of being told.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rustix::fs::FsWord;
use rustix::time::{ClockId, clock_gettime};

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

/// How long it takes to look, at the most: one part in so many of the time. Thousands of agents are looked at less often for
/// it, so that a daemon with nothing to do hardly runs…
const REST: u32 = 2_000;
/// …but never less often than this: a change has to show while somebody waits for it.
const REST_MAX: Duration = Duration::from_secs(10);

/// Looks whether something changed, again and again.
pub(super) struct Looker {
    seen: u64,
    /// What the last look took of a processor.
    cost: Duration,
}

impl Looker {
    /// Looks for the first time.
    pub(super) fn new(folder: &Folder) -> Self {
        let mut looker = Self { seen: 0, cost: Duration::ZERO };
        looker.has_changed(folder);
        looker
    }

    /// Whether something is another than at the last look.
    pub(super) fn has_changed(&mut self, folder: &Folder) -> bool {
        let begun = processor_time();
        let now = look(folder);
        self.cost = processor_time().saturating_sub(begun);
        std::mem::replace(&mut self.seen, now) != now
    }

    /// How long to rest until the next look.
    pub(super) fn rest(&self, at_least: Duration) -> Duration {
        at_least.max((self.cost * REST).min(REST_MAX))
    }
}

/// What this thread has run so far: how long a look took on a busy machine says nothing about what it costs.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A number that is another one when something changed. Nothing is read but what the file system keeps about
/// each file.
fn look(folder: &Folder) -> u64 {
    let mut hash = DefaultHasher::new();
    folder.fingerprint(CONFIG_FILE).hash(&mut hash);
    for place in folders(folder) {
        folder.fingerprints(&place, [SKILL_FILE, CONFIG_FILE, "run"]).hash(&mut hash);
        place.hash(&mut hash);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_is_seen_once_also_where_a_link_leads_to() {
        let project = tempfile::tempdir().unwrap();
        let path = |inner: &str| project.path().join(inner);
        fs::create_dir_all(path("agents/a")).unwrap();
        fs::write(path("shared.md"), "one").unwrap();
        symlink("../../shared.md", path("agents/a").join(SKILL_FILE)).unwrap();
        let folder = Folder::open(project.path()).unwrap();
        let mut looker = Looker::new(&folder);
        assert!(!looker.has_changed(&folder));
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(path("shared.md"), "another").unwrap(),
            &|| fs::write(path("agents/a").join(CONFIG_FILE), "").unwrap(),
            &|| fs::create_dir(path("b")).unwrap(),
            &|| fs::remove_dir_all(path("agents/a")).unwrap(),
        ];
        for change in changes {
            change();
            assert!(looker.has_changed(&folder));
            assert!(!looker.has_changed(&folder));
        }
    }

    #[test]
    fn what_costs_more_to_look_at_is_looked_at_less_often_within_limits() {
        let every = Duration::from_secs(2);
        let rest = |cost_us| Looker { seen: 0, cost: Duration::from_micros(cost_us) }.rest(every);
        assert_eq!(rest(100), every);
        assert_eq!(rest(3_000), Duration::from_secs(6));
        assert_eq!(rest(1_000_000), REST_MAX);
        let rarely = Duration::from_secs(3_600);
        assert_eq!(Looker { seen: 0, cost: every }.rest(rarely), rarely);
    }
}
