//! What `bell up` serves on its port and its socket: for operators, for programs outside of any run, for senders of
//! webhooks.
//!
//! The desk of a run (see the crate's own page) is another thing: a run's agent talks to its supervisor. Here the
//! daemon answers, and every request shows an API key, or is one of the few that need none.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`guard`] | whose name a request may come under, from where, and with which key |
//! | `guesses` | how often somebody may be wrong about a key |
//! | `login` | pages: logging in and out |
//! | `headers` | what every answer tells a browser |
//! | [`routes`](mod@routes) | the router: one line for each topic |
//! | `quick` | the short way to what is asked most |
//! | `health` | whether anybody is there, and can work |
//! | `metrics` | the numbers that operators watch |
//! | `control`, [`levers`] | what operators ask and do |
//! | `events`, `logs` | what happens and what runs print, as it comes |
//! | `mcp` | the same as tools for models, and the tools of runs |
//! | `locks`, `sessions` | locks for programs outside of any run |
//! | `outside`, `outsiders` | what they have, and how they are known |
//! | `webhooks`, `deliveries` | what is told from outside, and what came of it |
//! | `stream` | answers that go on |
//! | [`openapi`] | what can be asked of it |
//! | `question` | reading a query |

#[cfg(test)]
mod both_ways;
mod control;
mod deliveries;
mod events;
pub mod guard;
mod guesses;
mod headers;
mod health;
pub mod levers;
mod locks;
mod login;
mod logs;
mod mcp;
mod metrics;
pub mod openapi;
mod outside;
mod outsiders;
pub(crate) mod question;
mod quick;
pub mod routes;
#[cfg(test)]
mod scene;
mod sessions;
mod stream;
mod webhooks;

use std::sync::{Arc, OnceLock};

use bell_control::Control;
use bell_coord::Session;
use bell_coord::keys::KeyRing;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use events::Events;
use guard::Hosts;
use guesses::Guesses;
use levers::Levers;
use outside::Outside;
use stream::Streams;
use webhooks::Webhooks;

/// What the routes of the daemon act on. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    control: Control,
    keys: KeyRing,
    guesses: Guesses,
    hosts: Hosts,
    stopping: CancellationToken,
    streams: Streams,
    events: Events,
    levers: Arc<dyn Levers>,
    outside: Outside,
    webhooks: Webhooks,
    vitals: OnceLock<Vitals>,
}

/// What a daemon knows about how it is.
#[derive(Clone, Default)]
pub struct Vitals {
    /// Its numbers.
    pub metrics: Metrics,
    /// Its own session in the fleet.
    pub presence: Option<watch::Receiver<Session>>,
}

impl Server {
    /// A server of this project that answers under these names, and hands on what only its daemon can do.
    pub fn new(control: Control, hosts: Hosts, levers: Arc<dyn Levers>) -> Self {
        let keys = KeyRing::new(control.coord.clone());
        let stopping = CancellationToken::new();
        let streams = Streams::new(stopping.clone());
        let events = Events::new(control.coord.clone(), stopping.clone());
        let outside = Outside::new(control.locks.clone(), stopping.clone());
        Self {
            inner: Arc::new(Inner {
                control,
                keys,
                guesses: Guesses::default(),
                hosts,
                stopping,
                streams,
                events,
                levers,
                outside,
                webhooks: Webhooks::default(),
                vitals: OnceLock::new(),
            }),
        }
    }

    /// The fleet.
    pub(crate) fn control(&self) -> &Control {
        &self.inner.control
    }

    pub(crate) fn keys(&self) -> &KeyRing {
        &self.inner.keys
    }

    /// How often those who ask were wrong.
    pub(crate) fn guesses(&self) -> &Guesses {
        &self.inner.guesses
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.inner.hosts
    }

    /// Programs outside of any run.
    pub(crate) fn outside(&self) -> &Outside {
        &self.inner.outside
    }

    fn webhooks(&self) -> &Webhooks {
        &self.inner.webhooks
    }

    /// Answers that go on.
    pub(crate) fn streams(&self) -> &Streams {
        &self.inner.streams
    }

    pub(crate) fn events(&self) -> &Events {
        &self.inner.events
    }

    pub(crate) fn levers(&self) -> &dyn Levers {
        &*self.inner.levers
    }

    /// Shows how the daemon is: to be told before it is asked. The first one counts.
    pub fn show(&self, vitals: Vitals) {
        let _ = self.inner.vitals.set(vitals);
    }

    /// The numbers that this server shows and adds to.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.vitals().metrics
    }

    pub(crate) fn vitals(&self) -> &Vitals {
        self.inner.vitals.get_or_init(Vitals::default)
    }

    /// Cancelled when the daemon stops: whoever waits or streams comes to an end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }
}
