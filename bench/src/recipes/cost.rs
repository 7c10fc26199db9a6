//! What a pair costs in CPU: in this program, which is everybody's client, and in the servers it has started.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use crate::figures::cpu_time;

/// CPU time up to some moment, or between two.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Cost {
    client: Duration,
    server: Duration,
}

impl Cost {
    /// What was used so far.
    pub(super) fn so_far() -> Self {
        Self { client: cpu_time(), server: descendants() }
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        let Self { client, server } = earlier;
        Self { client: self.client.saturating_sub(client), server: self.server.saturating_sub(server) }
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self { client: self.client + more.client, server: self.server + more.server }
    }

    /// Microseconds for each of so many, in the client and in the server.
    pub(super) fn each_us(self, count: usize) -> [f64; 2] {
        [self.client, self.server].map(|time| time.as_secs_f64() * 1e6 / count.max(1) as f64)
    }
}

/// The CPU time of all processes below this one, with those of theirs that have ended. The kernel counts it in
/// ticks of 10 ms, so it takes a second to mean something.
fn descendants() -> Duration {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Duration::ZERO };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let all: HashMap<u32, Process> = pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
    let is_below = |mut pid: u32| {
        while let Some(process) = all.get(&pid) {
            if process.parent == std::process::id() {
                return true;
            }
            pid = process.parent;
        }
        false
    };
    let ticks: u64 = all.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, process)| process.ticks).sum();
    Duration::from_millis(ticks * 10)
}

struct Process {
    parent: u32,
    ticks: u64,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Of `proc(5)`'s stat: the parent is the second field after the name, the four times begin with the twelfth.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum();
        Some(Self { parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.parent, process.ticks), (3, 100));
    }

    #[test]
    fn what_is_cut_off_is_no_process() {
        assert!(Process::parse("7 (a) S 3 7").is_none());
    }
}
