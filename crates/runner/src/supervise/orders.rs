//! What a supervisor can be told from outside: by signal, and by a note in its directory.
//!
//! A note and a signal need no server, no socket path and no daemon, and a signal by process handle can't reach
//! the wrong process.

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};
use crate::handle::How;
use crate::run_dir::RunDir;

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The supervisor itself has to go.
    Stop,
    /// Somebody wants the run to end.
    Kill(KillRequest),
}

/// The content of `kill.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KillRequest {
    /// Who, or why.
    pub(crate) why: String,
    /// With how much patience.
    pub(crate) how: How,
}

/// The orders of one run.
pub(super) struct Orders {
    dir: RunDir,
    stop: [Signal; 2],
    look: Signal,
    /// Orders to leave that go unheard: a supervisor has no terminal to lose.
    _hang_up: Signal,
    seen: Option<KillRequest>,
}

impl Orders {
    /// From now on none of the signals ends this process.
    pub(super) fn listen(dir: &RunDir) -> Result<Self> {
        let on = |kind| signal(kind).map_err(|error| Error::io("listen for signals", error));
        Ok(Self {
            dir: dir.clone(),
            stop: [on(SignalKind::terminate())?, on(SignalKind::interrupt())?],
            look: on(SignalKind::user_defined1())?,
            _hang_up: on(SignalKind::hangup())?,
            seen: None,
        })
    }

    /// The next order. Dropped half-way, none is lost.
    pub(super) async fn next(&mut self) -> Order {
        loop {
            if let Some(request) = self.new_request() {
                return Order::Kill(request);
            }
            let [terminate, interrupt] = &mut self.stop;
            tokio::select! {
                _ = terminate.recv() => return Order::Stop,
                _ = interrupt.recv() => return Order::Stop,
                _ = self.look.recv() => {}
            }
        }
    }

    /// A note that can't be read is no order, and one that was read is none again.
    fn new_request(&mut self) -> Option<KillRequest> {
        let found: Option<KillRequest> = self.dir.kill_request().ok().flatten();
        if found.is_none() || found == self.seen {
            return None;
        }
        self.seen.clone_from(&found);
        found
    }
}
