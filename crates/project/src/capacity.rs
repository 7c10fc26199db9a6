//! What a machine has, and what one run in a container may use of it where its agent says nothing.
//!
//! An engine keeps a container in control groups of its own, so nothing but these limits keeps a run from taking the machine:
//! neither the limits of the daemon's service nor those of its user hold in there.

use std::fs;
use std::thread::available_parallelism;

use crate::settings::{AgentSettings, Cpus, Limits, Size};

/// Of the machine's memory: one run that grows without end is ended before the kernel has to choose among all processes, and
/// the daemon, its store and a second run still have room.
const SHARE_OF_MEMORY: u64 = 2;

/// Of the machine's processors: heartbeats of sessions are sent on time beside a run that computes on all it gets.
const SHARE_OF_CPUS: u32 = 2;

/// Threads count. A build or a browser has hundreds; a process that forks without end has this many at once, an eighth of the
/// 32,768 that the kernel of a small machine numbers.
const PROCESSES: u64 = 4_096;

/// Limits are whole MiB, to be read.
const MIB: u64 = 1 << 20;

/// What a machine has. What can't be found out is not limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processors.
    pub cpus: Option<u32>,
}

impl Capacity {
    /// Returns what this machine has.
    pub fn of_this_machine() -> Self {
        let cpus = available_parallelism().ok().and_then(|count| u32::try_from(count.get()).ok());
        Self { memory: fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text)), cpus }
    }
}

fn total(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"))?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Returns what a run of this agent may use on a machine: what its settings say, and in a container the defaults for the rest.
pub fn limits(settings: &AgentSettings, machine: Capacity) -> Limits {
    let limits = settings.limits.clone();
    if settings.container.is_none() {
        return limits;
    }
    let memory = machine.memory.map(|bytes| Size::from_bytes(bytes / SHARE_OF_MEMORY / MIB * MIB));
    let share = machine.cpus.map(|cpus| Cpus::whole((cpus / SHARE_OF_CPUS).max(1)));
    // Docker refuses more than the machine has.
    let most = |cpus: Cpus| machine.cpus.map_or(cpus, |most| cpus.min(Cpus::whole(most)));
    Limits {
        memory: limits.memory.or(memory),
        cpus: limits.cpus.or(share).map(most),
        processes: limits.processes.or(Some(PROCESSES)),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Container, Runtime};

    const MACHINE: Capacity = Capacity { memory: Some((16 << 30) + 5), cpus: Some(8) };

    fn settings(limits: Limits) -> AgentSettings {
        let container = Container { runtime: Runtime::Podman, image: "x".to_owned() };
        AgentSettings { limits, container: Some(container), ..AgentSettings::default() }
    }

    #[test]
    fn a_run_in_a_container_may_use_half_of_the_machine_unless_its_settings_say_otherwise() {
        let half = limits(&settings(Limits::default()), MACHINE);
        assert_eq!(half.memory, Some(Size::from_bytes(8 << 30)));
        assert_eq!((half.cpus, half.processes), (Some(Cpus::whole(4)), Some(PROCESSES)));
        let own = Limits {
            memory: Some(Size::from_bytes(1 << 40)),
            cpus: Some(Cpus::from_hundredths(25)),
            processes: Some(7),
            ..Limits::default()
        };
        assert_eq!(limits(&settings(own.clone()), MACHINE), own);
    }

    #[test]
    fn a_run_gets_one_processor_at_least_and_never_more_than_there_are() {
        let one = Capacity { cpus: Some(1), ..MACHINE };
        assert_eq!(limits(&settings(Limits::default()), one).cpus, Some(Cpus::whole(1)));
        let many = Limits { cpus: Some(Cpus::whole(64)), ..Limits::default() };
        assert_eq!(limits(&settings(many), MACHINE).cpus, Some(Cpus::whole(8)));
    }

    #[test]
    fn outside_of_a_container_and_on_a_machine_that_does_not_say_nothing_is_made_up() {
        let plain = AgentSettings { container: None, ..settings(Limits::default()) };
        assert_eq!(limits(&plain, MACHINE), Limits::default());
        let unknown = limits(&settings(Limits::default()), Capacity { memory: None, cpus: None });
        assert_eq!((unknown.memory, unknown.cpus), (None, None));
    }

    #[test]
    fn the_memory_of_a_machine_is_read_as_the_kernel_writes_it() {
        assert_eq!(total("MemTotal:       24684544 kB\nMemFree: 1 kB\n"), Some(24_684_544 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }
}
