//! Hearing of what others commit.
//!
//! The server tells over a connection that stays the same (LISTEN and NOTIFY), and only of topics that somebody
//! listens to: the listening connection holds a lock on the number of each, which ends with it, and who commits
//! sees by that whether there is anybody to tell. A pooler that changes the
//! connection with every transaction swallows that, so it is tried out before it is promised; where it
//! does not work, the revision is looked at every quarter of a second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_store::Name;
use bell_store::hub::Hub;
use bell_store::info::Push;
use bell_store::topic::Topic;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::fault::Fault;
use crate::link::{Asked, Parameters, Session};
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

/// Waits for a commit that has found nobody listening, until it can be read.
const HOLD: &str = "SELECT pg_advisory_lock_shared($1)";

const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// The one who listens.
pub(crate) struct Listener {
    route: Route,
    channel: String,
    hub: Arc<Hub>,
    reader: Arc<Reader>,
    /// Marks our own notifications: of those everybody here knows already.
    sender: String,
    schema: Schema,
    /// What somebody here has ever watched.
    topics: BTreeSet<Topic>,
    wanted: UnboundedReceiver<Wanted>,
}

/// A topic to listen to from now on, and whom to tell when that is so.
pub(crate) type Wanted = (Topic, oneshot::Sender<()>);

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
        wanted: UnboundedReceiver<Wanted>,
    ) -> Self {
        let (channel, schema) = (schema.channel(), schema.clone());
        Self { route, channel, hub, reader, sender, schema, topics: BTreeSet::new(), wanted }
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
        let ear = Ear { session, heard };
        for topic in &self.topics {
            self.hold(&ear, topic).await?;
        }
        Ok(ear)
    }

    /// Is told of this topic from now on.
    async fn hold(&self, ear: &Ear, topic: &Topic) -> Result<(), Fault> {
        let number = self.schema.number_of(topic);
        ear.session.ask(HOLD, &[(&number, Type::INT8)]).await.map(drop)
    }

    /// Whether what is told over another connection arrives here.
    async fn hears_itself(&self, ear: &mut Ear) -> Result<bool, Fault> {
        let trial = format!("{TRIAL}{}", self.sender);
        let parameters: &Parameters<'_> = &[(&self.channel, Type::TEXT), (&trial, Type::TEXT)];
        self.reader.link().read(NOTIFY, parameters, Asked::Seldom).await?;
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

    async fn hear(mut self, mut ear: Ear) {
        loop {
            // Commits between opening the store and this moment were told to nobody.
            self.hub.look();
            let asked = self.hear_until_lost(&mut ear).await;
            tracing::warn!("the listening connection was lost");
            ear = self.listen_again(asked).await;
            tracing::info!("listening again");
        }
    }

    /// Answers who asked for a topic when it was found to be lost.
    async fn hear_until_lost(&mut self, ear: &mut Ear) -> Option<oneshot::Sender<()>> {
        loop {
            let (topic, done) = tokio::select! {
                payload = ear.heard.recv() => match payload {
                    Some(payload) => {
                        self.take(&payload);
                        continue;
                    }
                    None => return None,
                },
                Some(wanted) = self.wanted.recv() => wanted,
            };
            let is_new = self.topics.insert(topic.clone());
            if is_new && self.hold(ear, &topic).await.is_err() {
                return Some(done);
            }
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }

    /// A new connection, which holds all topics: `asked` for one of them, and is told so.
    async fn listen_again(&mut self, mut asked: Option<oneshot::Sender<()>>) -> Ear {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(ear) = self.listen().await {
                // Whoever asked may have gone.
                let _ = asked.map(|done| done.send(()));
                return ear;
            }
            // Nobody waits for a server that is gone.
            asked = None;
            while let Ok((topic, _)) = self.wanted.try_recv() {
                self.topics.insert(topic);
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

    async fn poll(mut self) {
        let mut seen = self.reader.revision();
        loop {
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                // All is looked at anyway.
                Some((_, done)) = self.wanted.recv() => {
                    let _ = done.send(());
                    continue;
                }
            }
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
