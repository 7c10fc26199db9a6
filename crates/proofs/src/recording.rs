//! A backend that writes down what it is asked and what it answers. Renewals by the library's keep-alive pass here too.

use std::sync::Arc;

use async_trait::async_trait;
use bell_locks::{Ask, Capabilities, Denied, Key, Lease, LockBackend, PublicHolder, Session};
use bell_store::{Error, Kind};

use crate::history::{self, Answer, Recorder};

/// Writes down everything on the way to another backend.
pub struct Recording {
    inner: Arc<dyn LockBackend>,
    recorder: Arc<Recorder>,
}

impl Recording {
    /// Writes to `recorder` what passes to `inner`.
    pub fn new(inner: Arc<dyn LockBackend>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }

    fn asked(&self, session: &Session, key: &str, ask: history::Ask) -> Result<u64, Denied> {
        self.recorder.asked(session.id().as_str(), key, ask).map_err(unwritten)
    }

    fn answered(&self, op: u64, answer: Answer) -> Result<(), Denied> {
        self.recorder.answered(op, answer).map_err(unwritten)
    }
}

#[async_trait]
impl LockBackend for Recording {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let key = ask.keys.first().map_or("", Key::as_str);
        let asked = history::Ask::Acquire { ttl_ms: ms(ask.ttl.length()), wait_ms: ms(ask.wait) };
        let op = self.asked(session, key, asked)?;
        let answer = self.inner.acquire(session, ask).await;
        let told = match &answer {
            Ok(leases) => leases.first().map_or(Answer::Refused, granted),
            // A request that had queued keeps its place for a while, and may be granted yet.
            Err(Denied::Unavailable(_)) if !ask.wait.is_zero() => Answer::Unknown,
            Err(denied) => refusal(denied),
        };
        self.answered(op, told)?;
        answer
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        let asked = history::Ask::Renew { fence: lease.fence.0, ttl_ms: ms(lease.ttl.length()) };
        let op = self.asked(session, lease.key.as_str(), asked)?;
        let answer = self.inner.renew(session, lease).await;
        let told = match &answer {
            Ok(lease) => Answer::Renewed { deadline_us: us(lease.deadline) },
            Err(denied) => refusal(denied),
        };
        self.answered(op, told)?;
        answer
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        let op = self.asked(session, lease.key.as_str(), history::Ask::Release { fence: lease.fence.0 })?;
        let answer = self.inner.release(session, lease).await;
        self.answered(op, answer.as_ref().map_or_else(refusal, |()| Answer::Done))?;
        answer
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        self.inner.is_held(key).await
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::new(Self::new(self.inner.scope(path)?, Arc::clone(&self.recorder))))
    }

    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        let op = self.asked(session, "", history::Ask::End)?;
        let answer = self.inner.end_session(session).await;
        self.answered(op, answer.as_ref().map_or_else(refusal, |()| Answer::Done))?;
        answer
    }
}

fn granted(lease: &Lease) -> Answer {
    Answer::Granted { fence: lease.fence.0, deadline_us: us(lease.deadline) }
}

fn refusal(denied: &Denied) -> Answer {
    match denied {
        Denied::Busy(busy) => {
            Answer::Busy { holder: busy.holders.first().and_then(|holder| holder.fence).map(|fence| fence.0) }
        }
        Denied::TimedOut(_) => Answer::TimedOut,
        Denied::NotHolder(_) | Denied::NotHeld => Answer::Over,
        Denied::Unavailable(error) if error.kind() == Kind::Unknown => Answer::Unknown,
        _ => Answer::Refused,
    }
}

/// What is not written down must not happen.
fn unwritten(error: std::io::Error) -> Denied {
    Error::new(Kind::Unavailable, "write down what was asked").because(error).into()
}

fn ms(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn us(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
