//! All processes below one, however they try to get away.
//!
//! The supervisor is a subreaper: a process below it that loses its parent becomes its child, also if it
//! leads a session of its own. So whatever the agent started is always found by following parents.

use std::collections::{HashMap, HashSet};

use rustix::process::Signal;

use crate::process::{Identity, Stat, all};

/// A sweep that meets new processes goes on; one that meets this many times new ones goes over to KILL.
const MAX_SWEEPS: usize = 50;

/// The living processes below `root`, without it.
pub(crate) fn below(root: i32) -> Vec<Stat> {
    descendants(&[root], &all()).into_iter().filter(Stat::is_alive).collect()
}

/// Sends a signal to each process below `root`.
fn signal_below(root: i32, signal: Signal) {
    for process in below(root) {
        process.identity.signal(signal);
    }
}

/// Asks each process below `root` to end.
pub(crate) fn terminate_below(root: i32) {
    signal_below(root, Signal::TERM);
    // A stopped process does not hear TERM before it goes on.
    signal_below(root, Signal::CONT);
}

/// Sends a signal to one process, if it is below `root`.
pub(crate) fn signal_one_below(root: i32, pid: i32, signal: Signal) {
    for process in below(root).into_iter().filter(|process| process.identity.pid == pid) {
        process.identity.signal(signal);
    }
}

/// Ends each process below `root`.
///
/// All are stopped first, in as many sweeps as there are new ones to find: a stopped process can't
/// start another between being seen and being ended.
pub(crate) fn kill_below(root: i32) {
    kill_found(|| below(root));
}

/// Ends whatever `find` finds.
pub(crate) fn kill_found(find: impl Fn() -> Vec<Stat>) {
    let mut stopped: HashSet<Identity> = HashSet::new();
    for _ in 0..MAX_SWEEPS {
        let new: Vec<Stat> = find().into_iter().filter(|found| !stopped.contains(&found.identity)).collect();
        if new.is_empty() {
            break;
        }
        for process in new {
            process.identity.signal(Signal::STOP);
            stopped.insert(process.identity);
        }
    }
    for process in find() {
        process.identity.signal(Signal::KILL);
    }
}

/// All of `processes` whose parents lead to one of `roots`, in no order.
pub(crate) fn descendants(roots: &[i32], processes: &[Stat]) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open: Vec<i32> = roots.to_vec();
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.identity.pid);
            found.push(*child);
        }
    }
    found
}

/// Like [`below`], by the kernel's lists of children where it keeps them: cheap enough to do often, but a process
/// that moves at this very moment may be missed.
pub(crate) fn glance_below(root: Identity) -> Vec<Stat> {
    let Some(mut open) = root.children() else { return below(root.pid) };
    let mut found = Vec::new();
    while let Some(stat) = open.pop().map(Stat::of) {
        let Some(stat) = stat.filter(Stat::is_alive) else { continue };
        open.extend(stat.identity.children().unwrap_or_default());
        found.push(stat);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32) -> Stat {
        let identity = Identity { pid, start_ticks: 1 };
        Stat { identity, state: b'S', parent, session: pid, cpu_ticks: 0, children_cpu_ticks: 0 }
    }

    #[test]
    fn whoever_has_the_root_above_is_found_and_nobody_else() {
        let processes = [stat(1, 0), stat(9, 3), stat(2, 1), stat(3, 2), stat(4, 1), stat(5, 2), stat(6, 4)];
        let mut found: Vec<i32> =
            descendants(&[2], &processes).iter().map(|process| process.identity.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 5, 9]);
    }

    #[test]
    fn a_snapshot_with_a_circle_in_it_is_walked_once() {
        let processes = [stat(2, 3), stat(3, 2)];
        assert_eq!(descendants(&[2], &processes).len(), 2);
    }
}
