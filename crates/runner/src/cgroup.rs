//! A control group for one run, where the machine allows it.
//!
//! Only the unified hierarchy (v2) is used. What it can do differs from machine to machine, so everything is
//! tried and nothing assumed: without controllers it can still end all of its processes at once, and without
//! it the supervisor does by itself what the kernel would have done.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::process::Pid;

use crate::exit::Resource;
use crate::launch::{Cgroup, Launch, Limits};
use crate::process::{Stat, all};

/// sudo and the delegate, which are in the group of a run that sudo starts and do not count as the agent's.
const SUDO_PROCESSES: u64 = 2;

/// The control group of a run.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    enforced: Vec<Resource>,
}

impl Group {
    /// Makes one, or none if this machine has no place for it.
    pub(crate) fn make(launch: &Launch) -> Option<Self> {
        let parent = match &launch.cgroup {
            Cgroup::Never => return None,
            Cgroup::Under(parent) => parent.clone(),
            Cgroup::Auto => own()?,
        };
        let nonce = launch.nonce.get(..8).unwrap_or(&launch.nonce);
        let path = parent.join(format!("bell-{}-{nonce}", launch.run));
        fs::create_dir(&path).ok()?;
        if !path.join("cgroup.procs").exists() {
            // An ordinary folder: whoever named it meant something else.
            let _ = fs::remove_dir(&path);
            return None;
        }
        let beside_agent = if launch.user_by_sudo().is_some() { SUDO_PROCESSES } else { 0 };
        let enforced = limit(&path, &launch.limits, beside_agent);
        Some(Self { path, enforced })
    }

    /// The one at this path, as an earlier supervisor left it.
    pub(crate) fn left_at(path: PathBuf) -> Self {
        Self { path, enforced: Vec::new() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The limits that the kernel holds here; the others are the supervisor's to watch.
    pub(crate) fn enforces(&self, what: Resource) -> bool {
        self.enforced.contains(&what)
    }

    /// Ends every process in it, new ones included.
    pub(crate) fn kill(&self) {
        // A kernel before 5.14 has no such file; the caller looks for survivors anyway.
        let _ = put(&self.path, "cgroup.kill", "1");
    }

    /// The living processes in it.
    pub(crate) fn members(&self) -> Vec<Stat> {
        let list = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let pids: Vec<i32> = list.lines().filter_map(|line| line.parse().ok()).collect();
        let is_member = |stat: &Stat| pids.contains(&stat.identity.pid) && stat.is_alive();
        if pids.is_empty() { Vec::new() } else { all().into_iter().filter(is_member).collect() }
    }

    /// Whether the kernel ended a process of it for want of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    /// Takes it away. One that still has processes stays.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Moves a process into a group. The kernel makes everybody who forks or ends wait for their turn first, which takes
/// it some ten milliseconds; who is [born](crate::born) there need not wait.
pub(crate) fn join(group: &Path, pid: Pid) -> std::io::Result<()> {
    put(group, "cgroup.procs", &pid.as_raw_nonzero().to_string())
}

fn limit(path: &Path, limits: &Limits, beside_agent: u64) -> Vec<Resource> {
    let mut enforced = Vec::new();
    if let Some(bytes) = limits.memory_bytes
        && put(path, "memory.max", &bytes.to_string()).is_ok()
    {
        // Without swap of its own a run can't push others out of memory instead; not every kernel counts it.
        let _ = put(path, "memory.swap.max", "0");
        let _ = put(path, "memory.oom.group", "1");
        enforced.push(Resource::Memory);
    }
    if let Some(count) = limits.processes
        && put(path, "pids.max", &(count + beside_agent).to_string()).is_ok()
    {
        enforced.push(Resource::Processes);
    }
    if let Some(weight) = limits.cpu_weight {
        let _ = put(path, "cpu.weight", &weight.to_string());
    }
    enforced
}

/// Control files can't be made, only written.
fn put(group: &Path, name: &str, value: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(group.join(name))?.write_all(value.as_bytes())
}

/// What this machine offers for the control groups of runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ground {
    /// There is no unified hierarchy, or this process is in no part of it.
    Missing,
    /// The group of this process is not ours to divide.
    Closed(PathBuf),
    /// Runs get a group of their own in this one.
    Open {
        /// Which.
        group: PathBuf,
        /// The resources that the kernel limits in the groups of runs, such as `memory`.
        controllers: Vec<String>,
    },
}

/// Looks what this machine offers, and changes nothing.
pub fn ground() -> Ground {
    let Some(group) = own() else { return Ground::Missing };
    if rustix::fs::access(&group, Access::WRITE_OK).is_err() {
        return Ground::Closed(group);
    }
    let controllers = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    let controllers = controllers.split_ascii_whitespace().map(str::to_owned).collect();
    Ground::Open { group, controllers }
}

/// The group of this process in the unified hierarchy.
fn own() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    own_in(&mounts, &groups)
}

fn own_in(mounts: &str, groups: &str) -> Option<PathBuf> {
    let unified = |line: &&str| line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("cgroup2 "));
    let mut fields = mounts.lines().find(unified)?.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // In a container the mount shows only a part of the hierarchy.
    let below = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(mount).join(below))
}

/// Groups for tests.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Whoever waits for all children of this process would take those of another test.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A group without limits, for one test at a time. Dropped, it goes.
    pub(crate) struct TestGroup(Group, #[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

    impl TestGroup {
        /// None where this machine has no place for it.
        pub(crate) fn make() -> Option<Self> {
            let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let launch = Launch::new("test", "/runs/test", vec!["true".into()]).unwrap();
            let group = Group::make(&launch);
            if group.is_none() {
                eprintln!("there are no control groups to be had: not tried");
            }
            Some(Self(group?, turn))
        }

        pub(crate) fn path(&self) -> &Path {
            self.0.path()
        }

        /// Whether everybody in it has ended, or soon has.
        pub(crate) fn is_left_by_everybody(&self) -> bool {
            let is_empty = || self.0.members().is_empty();
            (0..1_000).any(|_| {
                is_empty() || {
                    std::thread::yield_now();
                    false
                }
            })
        }
    }

    impl Drop for TestGroup {
        fn drop(&mut self) {
            self.0.kill();
            self.is_left_by_everybody();
            self.0.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "24 1 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                          30 24 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                          31 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_unified_hierarchy_is_found_beside_old_ones() {
        let own = own_in(HYBRID, "8:pids:/x\n0::/user.slice/bell.service\n").unwrap();
        assert_eq!(own, Path::new("/sys/fs/cgroup/unified/user.slice/bell.service"));
    }

    #[test]
    fn a_part_of_the_hierarchy_is_looked_into_from_its_own_root() {
        let mounts = "31 24 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(own_in(mounts, "0::/docker/abc/x\n").unwrap(), Path::new("/sys/fs/cgroup/x"));
        assert_eq!(own_in(mounts, "0::/elsewhere\n"), None);
    }

    #[test]
    fn a_machine_without_it_has_none() {
        assert_eq!(own_in("24 1 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "8:pids:/x\n"), None);
    }

    #[test]
    fn an_ordinary_folder_is_no_group() {
        let folder = tempfile::tempdir().unwrap();
        let mut launch = Launch::new("run-1", "/runs/run-1", vec!["true".into()]).unwrap();
        launch.cgroup = Cgroup::Under(folder.path().to_owned());
        assert!(Group::make(&launch).is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
