//! Being told to stop. A command that waits gives up what it wanted before it goes.

use bell_locks::Session;
use tokio::signal::unix::{Signal, SignalKind, signal};

use bell_coord::Coord;
use bell_core::key::Key;
use std::time::Duration;

use crate::answer::Refusal;

/// The signals that ask a command to stop.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// What a command was told to stop by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stop(SignalKind);

impl Interrupts {
    /// From now on the signals arrive here and end nothing by themselves.
    pub(crate) fn listen() -> Result<Self, Refusal> {
        let on = |kind| signal(kind).map_err(|error| no_signals(&error));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// The next signal. Dropped, it has taken none.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop(SignalKind::interrupt()),
            _ = self.terminate.recv() => Stop(SignalKind::terminate()),
            _ = self.hang_up.recv() => Stop(SignalKind::hangup()),
        }
    }
}

impl Stop {
    /// The exit code of a process that such a signal ended.
    pub(crate) fn exit(self) -> u8 {
        u8::try_from(128 + self.0.as_raw_value()).unwrap_or(u8::MAX)
    }
}

pub(crate) fn no_signals(error: &std::io::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not listen for signals: {error}"),
        "Look at the limits of this process (ulimit -a) and try again.",
    )
}

/// How long to wait for the store when leaving a queue.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until a dropped request of `session` has left the queues: that happens in the background.
pub(crate) async fn has_left(coord: &Coord, session: &Session, keys: &[Key]) {
    let gone = async {
        for key in keys {
            while is_waiting(coord, session, key).await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    // After that its place lapses with the wait that it asked for.
    let _ = tokio::time::timeout(LEAVE_WITHIN, gone).await;
}

async fn is_waiting(coord: &Coord, session: &Session, key: &Key) -> bool {
    let state = coord.show(key).await;
    state.is_ok_and(|state| state.waiting.iter().any(|waiter| waiter.session == *session.id()))
}
