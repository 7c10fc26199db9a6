//! The one place that reads the machine's clocks.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine booted, suspend included. Setting the wall clock does not move it.
///
/// A process in a time namespace of its own sees the same time as its neighbours outside: the
/// namespace's offset is taken out, since both may share one store.
pub fn boottime() -> Duration {
    #[cfg(feature = "simulated")]
    if let Some(machine) = crate::simulated::here() {
        return machine.boottime();
    }
    let time = clock_gettime(ClockId::Boottime);
    let seen = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0));
    seen.saturating_sub(*NAMESPACE_OFFSET)
}

/// The wall clock, as time since 1970: for showing moments to people and for giving a new store's clock
/// a zero that reads well. Never compared with another host's.
pub fn wall() -> Duration {
    #[cfg(feature = "simulated")]
    if let Some(machine) = crate::simulated::here() {
        return machine.wall();
    }
    let time = clock_gettime(ClockId::Realtime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Names this boot of this kernel, so that a stored boot time is never read after a reboot.
pub fn boot_id() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

static NAMESPACE_OFFSET: std::sync::LazyLock<Duration> = std::sync::LazyLock::new(|| {
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    parse_boottime_offset(&offsets).unwrap_or_default()
});

fn parse_boottime_offset(offsets: &str) -> Option<Duration> {
    let line = offsets.lines().find(|line| line.starts_with("boottime"))?;
    let mut fields = line.split_whitespace().skip(1);
    let seconds = fields.next()?.parse().ok()?;
    let nanoseconds = fields.next()?.parse().ok()?;
    Some(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boottime_does_not_go_back() {
        let earlier = boottime();
        assert!(boottime() >= earlier);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let offsets = "monotonic           0         0\nboottime        86400       500\n";
        assert_eq!(parse_boottime_offset(offsets), Some(Duration::new(86_400, 500)));
    }

    #[test]
    fn a_kernel_without_time_namespaces_has_no_offset() {
        assert_eq!(parse_boottime_offset(""), None);
    }
}
