//! Limits of a whole run, where no cgroup holds them.
//!
//! The kernel counts some things per process and some per user; a run is neither. So its processes are
//! looked at a few times a second, and only if there is something to look for.

use std::time::Duration;

use tokio::time::sleep;

use crate::cgroup::Group;
use crate::exit::Resource;
use crate::launch::Launch;
use crate::process::{self, Identity, Stat};
use crate::tree::glance_below;

/// Often enough for an endless fork to stay small, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Returns when the run uses more than it may; never, if nobody has to look.
///
/// `root` is above everything of the run and nothing else; this process, if there is none.
pub(super) async fn exceeded(launch: &Launch, group: Option<&Group>, root: Option<Identity>) -> Resource {
    let held = |what| group.is_some_and(|group| group.enforces(what));
    let limits = &launch.limits;
    let watched = Watched {
        memory_bytes: limits.memory_bytes.filter(|_| !held(Resource::Memory)),
        processes: limits.processes.filter(|_| !held(Resource::Processes)),
        cpu_ticks: limits.cpu_seconds.map(|seconds| seconds * rustix::param::clock_ticks_per_second()),
    };
    let Some(root) = root.or_else(|| process::this().ok()) else { return std::future::pending().await };
    // A container's processes are not below us: its engine holds the limits.
    if watched == Watched::default() || launch.container.is_some() {
        return std::future::pending().await;
    }
    loop {
        sleep(LOOK_EVERY).await;
        if let Some(what) = watched.exceeded_by(root) {
            return what;
        }
    }
}

#[derive(PartialEq, Eq, Default)]
struct Watched {
    memory_bytes: Option<u64>,
    processes: Option<u64>,
    cpu_ticks: Option<u64>,
}

impl Watched {
    fn exceeded_by(&self, root: Identity) -> Option<Resource> {
        let below = glance_below(root);
        if self.processes.is_some_and(|limit| below.len() as u64 > limit) {
            return Some(Resource::Processes);
        }
        let memory = || below.iter().map(|process| process.identity.memory_bytes()).sum::<u64>();
        if self.memory_bytes.is_some_and(|limit| memory() > limit) {
            return Some(Resource::Memory);
        }
        let ended = Stat::of(root.pid).map_or(0, |stat| stat.children_cpu_ticks);
        let cpu = ended + below.iter().map(|process| process.cpu_ticks).sum::<u64>();
        self.cpu_ticks.is_some_and(|limit| cpu > limit).then_some(Resource::Cpu)
    }
}
