//! Processes as `/proc` shows them, and signals that reach only the process that was meant.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::env::MARK;

/// A process that can't be taken for a later one with the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// One line of `/proc/<pid>/stat`, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    /// Which process.
    pub(crate) identity: Identity,
    /// `R`, `S`, `T`, `Z` and so on.
    pub(crate) state: u8,
    /// Its parent's number.
    pub(crate) parent: i32,
    /// Its session's number.
    pub(crate) session: i32,
    /// Its processor time and that of its children that it has waited for.
    pub(crate) cpu_ticks: u64,
    /// The processor time of children that it has waited for, alone.
    pub(crate) children_cpu_ticks: u64,
}

impl Stat {
    /// The process with this number, if there is one.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it runs, or could again.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// Every process that can be seen.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Stat::of).collect()
}

/// This process.
///
/// # Errors
/// If `/proc` can't be read.
pub fn this() -> io::Result<Identity> {
    let pid = std::process::id().cast_signed();
    Stat::of(pid).map(|stat| stat.identity).ok_or_else(|| io::Error::other("/proc can't be read"))
}

impl Identity {
    /// A handle on the process, if it is alive and still the one that is meant.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The number may have passed on before the handle was opened, but not after.
        self.is_alive().then_some(handle)
    }

    /// Whether the process lives.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|now| now.identity == *self && now.is_alive())
    }

    /// Sends a signal. One that finds nobody is not missed.
    pub fn signal(&self, signal: Signal) {
        if let Some(handle) = self.open() {
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    /// Whether the process was started for the run with this nonce.
    pub(crate) fn has_mark(&self, nonce: &str) -> bool {
        let mark = format!("{MARK}={nonce}");
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    }

    /// Memory that is the process's alone, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.pid)).unwrap_or_default();
        let mut pages = text.split_ascii_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * rustix::param::page_size() as u64
    }

    /// Its children by the kernel's own list; `None` where this kernel keeps none.
    pub(crate) fn children(&self) -> Option<Vec<i32>> {
        let mut children = Vec::new();
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        for task in tasks.flatten() {
            let list = fs::read_to_string(task.path().join("children")).ok()?;
            children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        Some(children)
    }
}

/// The name of a program may contain anything, brackets and spaces included: fields begin after the last one.
fn parse(line: &[u8]) -> Option<Stat> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
    let fields: Vec<&str> =
        std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace().collect();
    // `man 5 proc` counts from 1 and has two fields before these.
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    let children_cpu_ticks = ticks(16)? + ticks(17)?;
    Some(Stat {
        identity: Identity { pid, start_ticks: ticks(22)? },
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        cpu_ticks: ticks(14)? + ticks(15)? + children_cpu_ticks,
        children_cpu_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "77 (evil) R 1 (2) S 5 77 70 0 -1 4194560 1 2 3 4 10 20 3 4 20 0 1 0 9876 100 200 0";

    #[test]
    fn a_program_name_can_not_forge_fields() {
        let stat = parse(LINE.as_bytes()).unwrap();
        assert_eq!(stat.identity, Identity { pid: 77, start_ticks: 9876 });
        assert_eq!((stat.state, stat.parent, stat.session), (b'S', 5, 70));
        assert_eq!((stat.cpu_ticks, stat.children_cpu_ticks), (37, 7));
    }

    #[test]
    fn a_line_that_was_cut_is_no_process() {
        for end in [0, 5, 20, 40] {
            assert_eq!(parse(&LINE.as_bytes()[..end]), None);
        }
    }

    #[test]
    fn this_process_is_alive_and_one_that_started_earlier_is_not_it() {
        let this = this().unwrap();
        assert!(this.open().is_some());
        let other = Identity { start_ticks: this.start_ticks.wrapping_sub(1), ..this };
        assert!(other.open().is_none());
    }
}
