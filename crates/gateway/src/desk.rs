//! What the routes of one run act on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bell_coord::{Coord, Denied, Session};
use bell_core::lock::Ttl;
use bell_core::session::RequestId;
use bell_core::work::accept::Room;
use bell_core::work::agent::AgentName;
use bell_core::work::job::Rules;
use bell_core::work::run::RunId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::counter::Counter;
use crate::limits::{CALLS_MAX, HELD_PER_RUN_MAX, WAITS_MAX};
use crate::quota::{Account, Quota};
use crate::refusal::Refusal;
use crate::sessions::Sessions;
use crate::waits::{AtEnd, Waits};

/// A run, as it stands in its stores.
pub struct Standing {
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub agent: AgentName,
    /// Where runs and jobs are.
    pub work: Coord,
    /// The session of the run there. Its token is the run's.
    pub session: Session,
    /// Where locks are: the same store, or another.
    pub locks: Coord,
    /// The session that the run's locks are held in: the same, or one of its own in the other store.
    pub holder: Session,
    /// How long a lock lasts if nobody says.
    pub ttl: Ttl,
    /// Where runs have their folders, with what they print.
    pub runs: PathBuf,
}

/// An agent that may be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callee {
    /// What follows from how its runs end.
    pub rules: Rules,
    /// How many of its jobs may wait.
    pub room: Room,
    /// How many calls in a row may lead to it.
    pub depth_max: u32,
}

/// Who may be called, as the project says at that moment.
#[async_trait]
pub trait Callees: Send + Sync + 'static {
    /// The agent that `caller` wants to call, or why it may not.
    async fn find(&self, caller: &AgentName, wanted: &AgentName) -> Result<Callee, Refusal>;
}

/// What the routes of one run act on. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    standing: Standing,
    callees: Box<dyn Callees>,
    waits: Waits,
    sessions: Sessions,
    quota: Quota,
    calls: AtomicUsize,
    exit: watch::Sender<Option<u8>>,
    over: CancellationToken,
}

impl Desk {
    /// A desk for this run. From now on its token counts.
    pub fn new(standing: Standing, callees: impl Callees) -> Self {
        let over = CancellationToken::new();
        let inner = Inner {
            standing,
            callees: Box::new(callees),
            waits: Waits::new(over.clone(), AtEnd::Leave, WAITS_MAX),
            sessions: Sessions::default(),
            quota: Quota::new(HELD_PER_RUN_MAX),
            calls: AtomicUsize::new(0),
            exit: watch::Sender::new(None),
            over,
        };
        Self { inner: Arc::new(inner) }
    }

    /// From now on the token counts for nothing, and nothing waits any more. Final.
    pub fn revoke(&self) {
        self.inner.over.cancel();
    }

    /// Whether the token counts for nothing any more.
    pub(crate) fn is_over(&self) -> bool {
        self.inner.over.is_cancelled() || self.inner.standing.session.is_over()
    }

    /// Returns when the token was revoked.
    pub(crate) fn over(&self) -> CancellationToken {
        self.inner.over.clone()
    }

    /// Returns when the run has asked to be ended, with its exit code.
    pub async fn exit_wanted(&self) -> u8 {
        let mut exit = self.inner.exit.subscribe();
        match exit.wait_for(Option::is_some).await.ok().and_then(|code| *code) {
            Some(code) => code,
            None => std::future::pending().await,
        }
    }

    /// Ends the sessions that the run has made for itself.
    pub async fn end_sessions(&self) {
        for session in self.inner.sessions.take_all() {
            if let Err(error) = self.inner.standing.locks.end(&session).await {
                tracing::warn!(%error, session = %session.id(), "could not end a session of a run; it lapses");
            }
        }
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.inner.standing
    }

    pub(crate) fn callees(&self) -> &dyn Callees {
        self.inner.callees.as_ref()
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    pub(crate) fn want_exit(&self, code: u8) {
        // Who asks first decides.
        self.inner.exit.send_if_modified(|wanted| {
            let first = wanted.is_none();
            wanted.get_or_insert(code);
            first
        });
    }

    /// Counts one more call. All calls of a run come through here, and it ends with this process.
    pub(crate) fn count_call(&self) -> Result<(), Refusal> {
        if self.inner.calls.fetch_add(1, Ordering::Relaxed) < CALLS_MAX {
            return Ok(());
        }
        Err(Refusal::limit(
            format!("could not make the call: this run has made {CALLS_MAX}, and that is the most"),
            "Let further runs make further calls.",
        ))
    }
}

impl Counter for Desk {
    type Caller = Caller;
    type Kept = ();

    fn locks(&self) -> &Coord {
        &self.inner.standing.locks
    }

    fn holder<'a>(&'a self, caller: &'a Caller) -> Result<&'a Session, Refusal> {
        Ok(match caller {
            Caller::Run => &self.inner.standing.holder,
            Caller::Own(session) => session,
        })
    }

    /// This process keeps them all.
    fn keep(&self, _session: &Session) {}

    fn waits(&self) -> &Waits {
        &self.inner.waits
    }

    fn quota(&self) -> &Quota {
        &self.inner.quota
    }

    fn account(&self, _session: &Session) -> Account {
        Account::Run
    }

    fn ttl(&self) -> Ttl {
        self.inner.standing.ttl
    }

    /// Whatever waits for this run waits here.
    async fn give_up(&self, _session: &Session, _request: &RequestId) -> Result<(), Denied> {
        Ok(())
    }
}
