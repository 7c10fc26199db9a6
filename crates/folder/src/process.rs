//! Who a process is, so that somebody else on its machine can tell whether it lives.
//!
//! A number alone is not enough: it passes on to others. The time of its start, the boot and the namespace
//! it is counted in go with it. On another machine, or in another namespace, nothing is known, and nothing
//! is claimed.

use std::fs;

use bell_store::clock;
use serde::{Deserialize, Serialize};

/// A process that can't be taken for a later one with the same number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// The machine, for people.
    pub host: String,
    /// This boot of its kernel.
    pub boot: String,
    /// The namespace in which it has its number.
    pub namespace: String,
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Process {
    /// This process.
    pub fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number here and now.
    pub fn of(pid: u32) -> Option<Self> {
        let start_ticks = start_ticks(pid)?;
        Some(Self { host: host(), boot: boot()?, namespace: namespace()?, pid, start_ticks })
    }

    /// Whether it certainly ended. `false` also where that can't be known from here.
    pub fn is_gone(&self) -> bool {
        let can_tell = boot().is_some_and(|boot| boot == self.boot)
            && namespace().is_some_and(|namespace| namespace == self.namespace)
            && start_ticks(std::process::id()).is_some();
        can_tell && start_ticks(self.pid) != Some(self.start_ticks)
    }
}

/// The name of this machine, as far as it can be a part of a file name.
pub(crate) fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = name.chars().take(40).map(|c| if plain(c) { c } else { '-' }).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Random, so that nobody else has the same.
pub(crate) fn nonce() -> String {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:016x}", u64::from_le_bytes(bytes)),
        // Without randomness: unlike any other of this boot at least.
        Err(_) => format!("{:016x}", clock::boottime().as_nanos()),
    }
}

fn boot() -> Option<String> {
    clock::boot_id().ok()
}

fn namespace() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok().map(|path| path.display().to_string())
}

/// `None`: no such process, or one that has ended and only waits to be taken note of.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may have spaces and brackets of its own.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives() {
        assert!(!Process::this().unwrap().is_gone());
    }

    #[test]
    fn a_number_that_passed_on_to_another_is_not_taken_for_it() {
        let this = Process::this().unwrap();
        let earlier = Process { start_ticks: this.start_ticks - 1, ..this.clone() };
        assert!(earlier.is_gone());
        let none = Process { pid: u32::MAX >> 1, ..this };
        assert!(none.is_gone());
    }

    #[test]
    fn of_another_boot_or_namespace_nothing_is_known() {
        let this = Process::this().unwrap();
        let gone = Process { start_ticks: 1, ..this };
        assert!(!Process { boot: "another".to_owned(), ..gone.clone() }.is_gone());
        assert!(!Process { namespace: "pid:[1]".to_owned(), ..gone }.is_gone());
    }

    #[test]
    fn no_two_nonces_are_alike() {
        assert_ne!(nonce(), nonce());
    }
}
