//! Hearing of what others commit.
//!
//! The server tells over a connection that stays the same (LISTEN and NOTIFY). A pooler that changes the
//! connection with every transaction swallows that, so it is tried out before it is promised; where it
//! does not work, the revision is looked at every quarter of a second.

use std::sync::Arc;
use std::time::Duration;

use bell_store::Name;
use bell_store::hub::Hub;
use bell_store::info::Push;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::fault::Fault;
use crate::link::{Parameters, Session};
use crate::reader::Reader;
use crate::route::Route;

/// How often a store that can't tell is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long a notification to ourselves may take. It takes a millisecond; only a pooler that swallows it, or
/// a machine in great distress, makes anybody wait.
const TRIAL_LIMIT: Duration = Duration::from_secs(3);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Begins a payload that is nobody's commit.
const TRIAL: char = '?';

const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// The one who listens.
pub(crate) struct Listener {
    route: Route,
    channel: String,
    hub: Arc<Hub>,
    reader: Arc<Reader>,
    /// Marks our own notifications: of those everybody here knows already.
    sender: String,
}

/// A listening connection.
struct Ear {
    session: Session,
    heard: UnboundedReceiver<String>,
}

impl Listener {
    pub(crate) fn new(
        route: Route,
        schema: &Schema,
        hub: Arc<Hub>,
        reader: Arc<Reader>,
        sender: String,
    ) -> Self {
        Self { route, channel: schema.channel(), hub, reader, sender }
    }

    /// Starts listening. Answers how changes will arrive, and with the task that makes them.
    pub(crate) async fn start(self) -> Result<(Push, JoinHandle<()>), Fault> {
        let mut ear = self.listen().await?;
        if self.hears_itself(&mut ear).await? {
            return Ok((Push::Push, tokio::spawn(self.hear(ear))));
        }
        ear.session.close().await;
        let interval_ms = u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        Ok((Push::Poll { interval_ms }, tokio::spawn(self.poll())))
    }

    async fn listen(&self) -> Result<Ear, Fault> {
        let (told, heard) = mpsc::unbounded_channel();
        let session = Session::open(&self.route, Some(told)).await?;
        session.run(&format!("LISTEN {}", self.channel)).await?;
        Ok(Ear { session, heard })
    }

    /// Whether what is told over another connection arrives here.
    async fn hears_itself(&self, ear: &mut Ear) -> Result<bool, Fault> {
        let trial = format!("{TRIAL}{}", self.sender);
        let parameters: &Parameters<'_> = &[(&self.channel, Type::TEXT), (&trial, Type::TEXT)];
        self.reader.link().read(NOTIFY, parameters).await?;
        let arrives = async {
            while let Some(payload) = ear.heard.recv().await {
                if payload == trial {
                    return true;
                }
            }
            false
        };
        Ok(timeout(TRIAL_LIMIT, arrives).await.unwrap_or(false))
    }

    async fn hear(self, mut ear: Ear) {
        loop {
            // Commits between opening the store and this moment were told to nobody.
            self.hub.look();
            while let Some(payload) = ear.heard.recv().await {
                self.take(&payload);
            }
            tracing::warn!("the listening connection was lost");
            ear = self.listen_again().await;
            tracing::info!("listening again");
        }
    }

    async fn listen_again(&self) -> Ear {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(ear) = self.listen().await {
                return ear;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn take(&self, payload: &str) {
        match Heard::parse(payload, &self.sender) {
            Heard::Nothing => {}
            Heard::Names(names) => self.hub.committed(&names),
            Heard::Something => self.hub.look(),
        }
    }

    async fn poll(self) {
        let mut seen = self.reader.revision();
        loop {
            sleep(POLL_INTERVAL).await;
            // While the server is away there is nothing to see.
            let Ok(now) = self.reader.read(&[]).await else { continue };
            if now.revision != seen {
                seen = now.revision;
                self.hub.look();
            }
        }
    }
}

/// What a notification says.
#[derive(PartialEq, Eq, Debug)]
enum Heard {
    /// Nothing that is not known here.
    Nothing,
    /// Somebody has committed these.
    Names(Vec<Name>),
    /// Somebody has committed something.
    Something,
}

impl Heard {
    /// `sender name name …`, the names in hexadecimal.
    fn parse(payload: &str, ourselves: &str) -> Self {
        let mut words = payload.split(' ');
        let sender = words.next().unwrap_or_default();
        if sender == ourselves || sender.starts_with(TRIAL) {
            return Self::Nothing;
        }
        match words.map(name_in_hex).collect::<Option<Vec<Name>>>() {
            Some(names) if !names.is_empty() => Self::Names(names),
            _ => Self::Something,
        }
    }
}

fn name_in_hex(word: &str) -> Option<Name> {
    let (pairs, rest) = word.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    Some(Name::from(String::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_commit_is_heard_by_name() {
        let names = vec![Name::from("lock/ü"), Name::from("b")];
        assert_eq!(Heard::parse("other 6c6f636b2fc3bc 62", "me"), Heard::Names(names));
    }

    #[test]
    fn our_own_commits_and_trials_are_no_news() {
        assert_eq!(Heard::parse("me 62", "me"), Heard::Nothing);
        assert_eq!(Heard::parse("?other", "me"), Heard::Nothing);
    }

    #[test]
    fn whatever_can_not_be_read_makes_everybody_look() {
        for payload in ["", "other", "other xyz", "other 6", "other ff", "other  "] {
            assert_eq!(Heard::parse(payload, "me"), Heard::Something, "{payload:?}");
        }
    }
}
