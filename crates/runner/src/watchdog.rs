//! A kernel timer that kills this process unless its deadline keeps moving.
//!
//! A supervisor that is stopped alone (SIGSTOP, a debugger, a freezer of cgroup v2) or hangs can't end its run, and its agent would go
//! on beside a successor. The timer's SIGKILL reaches such a process all the same. The kernel then kills the agent's main
//! process, which is bound to its supervisor, and the daemon ends what is left.
//!
//! The deadline is read on a thread of its own, so that a disk or a task that blocks the supervisor for a while does not
//! count as hanging: only leases that nobody renews do.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bell_store::clock::boottime;
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

/// Between two readings of the deadline. A renewal that moves it comes every third of a lease, so half of what is left is soon
/// enough; less often would be noticed too late, more often only costs.
const READ_AFTER: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);

/// The thread reads a few numbers and sleeps.
const STACK_BYTES: usize = 128 * 1024;

/// A timer that is set. Dropped, it is unset: what follows may take as long as it has to.
#[derive(Debug)]
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Kills this process at the deadline, on the boot clock, unless it has moved by then. `None` leaves the timer as it is: the
    /// process is alive to say that it has no deadline any more, or acts on one that has come.
    ///
    /// # Errors
    /// If the system has no timer or thread left.
    pub fn start(deadline: impl Fn() -> Option<Duration> + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let (ready, is_ready) = channel();
        let thread = Builder::new().name("bell-watchdog".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            // A timer belongs to the thread that made it, as far as this language knows.
            let made = Timer::new(ClockId::CLOCK_BOOTTIME, kill_this_process()).map_err(io::Error::from);
            let armed = made.and_then(|mut timer| arm(&mut timer, deadline()).map(|at| (timer, at)));
            let (said, armed) = match armed {
                Ok(armed) => (Ok(()), Some(armed)),
                Err(error) => (Err(error), None),
            };
            let is_heard = ready.send(said).is_ok();
            if let Some((timer, at)) = armed.filter(|_| is_heard) {
                keep_moving(timer, at, &deadline, &stopped);
            }
        })?;
        let watchdog = Self { stop: Some(stop), thread: Some(thread) };
        is_ready.recv().map_err(io::Error::other)??;
        Ok(watchdog)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        // From here on the timer is gone.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn kill_this_process() -> SigEvent {
    SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 })
}

/// Returns when the watchdog is dropped.
fn keep_moving(
    mut timer: Timer,
    mut at: Option<Duration>,
    deadline: &impl Fn() -> Option<Duration>,
    stopped: &Receiver<()>,
) {
    loop {
        let pause = read_after(at, boottime());
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // A timer that can't be set stays as it was: it kills too early rather than never.
        if let Ok(Some(moved)) = arm(&mut timer, deadline()) {
            at = Some(moved);
        }
    }
}

/// Answers for when it is set, if that has changed.
fn arm(timer: &mut Timer, at: Option<Duration>) -> io::Result<Option<Duration>> {
    let Some(at) = at else { return Ok(None) };
    let moment = Expiration::OneShot(TimeSpec::from_duration(at));
    timer.set(moment, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
    Ok(Some(at))
}

fn read_after(at: Option<Duration>, now: Duration) -> Duration {
    let left = at.map_or(*READ_AFTER.end(), |at| at.saturating_sub(now) / 2);
    left.clamp(*READ_AFTER.start(), *READ_AFTER.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_deadline_is_read_again_when_half_of_what_is_left_is_over() {
        assert_eq!(read_after(Some(ms(14_000)), ms(6_000)), ms(4_000));
        assert_eq!(read_after(Some(ms(14_000)), ms(13_900)), ms(100));
        assert_eq!(read_after(Some(ms(90_000)), ms(0)), ms(5_000));
        assert_eq!(read_after(None, ms(0)), ms(5_000));
    }
}
