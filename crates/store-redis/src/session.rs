//! A connection to the server that has the store, and what can be asked over it.
//!
//! One connection carries everything: many requests at a time, each one round trip, and what the server
//! pushes. Requests that are dropped half-way have happened or not, never half.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::hub::Hub;
use bell_store::topic::Topic;
use bell_store::{Committed, Kind, Name, Outcome, Revision, Snapshot, Timestamp, Txn};
use redis::{ErrorKind, PushInfo, ServerErrorKind, from_redis_value};
use tokio::sync::mpsc::UnboundedSender;

use crate::address::Address;
use crate::batch::{self, Ended};
use crate::fault::Fault;
use crate::find::{self, Connection};
use crate::listened::{self, Listened};
use crate::reply::{FORMAT, Reply, Rewound, Times, Word};
use crate::request::Request;
use crate::scripts::Script;
use crate::server::{SECTIONS, Server};
use crate::witness::Witness;

/// A recorded time that is older is recorded anew: so much of the past a clock that goes back may repeat.
const RECORD_AFTER: Duration = Duration::from_secs(2);

/// Jumps of the server's clock in a row before a request gives up on it.
const MAX_JUMPS: usize = 3;

/// Lists of listened topics in a row that turn out to be old before a commit gives up. Lists grow when somebody watches
/// something of a new kind, which is rare.
const MAX_OUTDATED: usize = 8;

/// What outlives a connection: all that this process knows of the store.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    witness: Witness,
    /// The highest revision seen.
    seen: AtomicU64,
    /// Whether there was a store when we first connected. From then on a missing one is a lost one.
    attached: AtomicBool,
    /// What somebody has watched, and whether it is listened to. Written down before it is asked for, so every
    /// connection that is made from then on listens to it as well.
    topics: Mutex<BTreeMap<Topic, Heard>>,
    /// What anybody listens to, as far as this process knows.
    listened: Mutex<Arc<Listened>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    NotYet,
    Always,
}

impl Shared {
    /// Notes that this is to be listened to. Whether it is already.
    pub(crate) fn wants(&self, topic: &Topic) -> bool {
        *self.topics().entry(topic.clone()).or_insert(Heard::NotYet) == Heard::Always
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<Topic, Heard>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listened(&self) -> Arc<Listened> {
        Arc::clone(&self.listened.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what is listened to. Whoever waits looks: as long as the store had another list, it may not have been told.
    fn learn(&self, listened: Listened) {
        *self.listened.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(listened);
        self.hub.look();
    }
}

/// Whether changes are heard of over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ears {
    Open,
    Closed,
}

/// A connection with everything set up. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Session {
    connection: Connection,
    known: Arc<Known>,
}

struct Known {
    channel: String,
    /// What the call of each script begins with.
    calls: Vec<Request>,
    server: Server,
    is_replicated: bool,
    shared: Arc<Shared>,
}

impl Session {
    /// Finds the node, connects, listens for changes, and makes the store if there is none. Also says why the
    /// store may have gone back; it can be read then.
    pub(crate) async fn open(
        address: &Address,
        shared: &Arc<Shared>,
        ears: Ears,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<(Self, Option<Rewound>), Fault> {
        let host = find::find(address).await?;
        let connection = match ears {
            Ears::Open => find::connect(address, &host, pushes).await?,
            Ears::Closed => find::connect_near(address, &host, pushes).await?,
        };
        let server = examine(&connection).await?;
        server.check()?;
        let (digests, keys) = (load_scripts(&connection).await?, address.keys());
        let known = Known {
            channel: address.channel(),
            calls: digests.iter().map(|digest| call_of(digest, &keys)).collect(),
            is_replicated: server.is_replicated(&address.place),
            server,
            shared: Arc::clone(shared),
        };
        let session = Self { connection, known: Arc::new(known) };
        if ears == Ears::Open {
            session.subscribe_to_all().await?;
        }
        let rewound = session.attach().await.map_err(Fault::of_question)?;
        session.learn().await?;
        Ok((session, rewound))
    }

    /// The server we are connected to.
    pub(crate) fn server(&self) -> &Server {
        &self.known.server
    }

    async fn subscribe_to_all(&self) -> Result<(), Fault> {
        let channel = &self.known.channel;
        self.connection.subscribe(channel).await.map_err(question)?;
        for topic in self.wanted() {
            self.subscribe(&topic).await?;
        }
        Ok(())
    }

    async fn subscribe(&self, topic: &Topic) -> Result<(), Fault> {
        let (connection, channel) = (&self.connection, &self.known.channel);
        match topic {
            Topic::One(topic) => connection.subscribe(&batch::topic_channel(channel, topic)).await,
            Topic::Everything => connection.psubscribe(&pattern(channel)).await,
        }
        .map_err(question)
    }

    /// Hears of changes in this topic, which is wanted, from now on.
    pub(crate) async fn listen(&self, topic: &Topic) -> Result<(), Fault> {
        self.subscribe(topic).await?;
        self.learn().await?;
        self.known.shared.topics().insert(topic.clone(), Heard::Always);
        Ok(())
    }

    /// Sees to it that what this process wants to hear is told, and learns what else is.
    async fn learn(&self) -> Result<(), Fault> {
        let wanted = self.wanted();
        let add = |request: &mut Request| {
            for topic in &wanted {
                request.arg(listened::word(topic));
            }
        };
        let reply = self.call(Script::Listen, add).await.map_err(Fault::of_question)?;
        // Where there is no store, nothing is committed; when there is one again, its list is another.
        if reply.word == Word::Ok {
            self.known.shared.learn(reply.listened()?);
        }
        Ok(())
    }

    /// What somebody in this process has watched.
    fn wanted(&self) -> Vec<Topic> {
        self.known.shared.topics().keys().cloned().collect()
    }

    async fn attach(&self) -> Result<Option<Rewound>, Fault> {
        let Known { server, shared, .. } = &*self.known;
        let reply = self
            .call(Script::Attach, |request| {
                request.arg(&server.run).arg(&server.replication).arg(flag(server.promoted));
                request.arg(flag(server.keeps_all())).arg(flag(self.known.is_replicated));
                request.arg(self.seen_text()).arg(batch::topic_channel(&self.known.channel, ""));
            })
            .await?;
        shared.attached.store(true, Ordering::Relaxed);
        match reply.word {
            Word::Rewound(why) => Ok(Some(why)),
            Word::Ok | Word::Outdated => Ok(None),
        }
    }

    /// The named records.
    pub(crate) async fn read(&self, names: &[Name]) -> Result<Snapshot, Fault> {
        let reply = self.question(Script::Read, |request| add_all(request, names)).await?;
        reply.records_of(names)
    }

    /// Records under a prefix.
    pub(crate) async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot, Fault> {
        let lowest = format!("[{}", prefix.max(from));
        // No UTF-8 contains this byte, so it is above everything that starts with the prefix.
        let highest = [b"(", prefix.as_bytes(), b"\xff"].concat();
        let reply = self
            .question(Script::Scan, |request| {
                request.arg(&lowest).arg(&highest).arg((limit + 1).to_string());
            })
            .await?;
        reply.scanned(limit)
    }

    /// Commits each of these, or says why not. An error: of all of them, together.
    ///
    /// What is rarely needed on the way is in boxes: whoever commits moves and keeps room for the rest, every time.
    pub(crate) async fn commit(&self, txns: &[Txn]) -> Result<Vec<Result<Outcome, Fault>>, Fault> {
        let reply = self.commit_knowing(txns).await?;
        let believed = self.believes(&reply).await;
        let latest = self.known.shared.witness.latest(reply.told.arrived).unwrap_or(u64::MAX);
        let now = reply.now().min(Timestamp::from_ms(latest));
        let mut outcomes = Vec::with_capacity(txns.len());
        for (ended, txn) in reply.ended(txns).into_iter().zip(txns) {
            outcomes.push(match (ended, &believed) {
                (Ok(Ended::Committed(revision)), _) => {
                    // Whoever waits here need not wait for what the server tells the store's thread.
                    self.known.shared.hub.committed(txn.written());
                    Ok(Outcome::Committed(Committed { revision, now }))
                }
                (Ok(Ended::Conflict(found)), Ok(Belief::Believed)) => Ok(Outcome::Conflict(found)),
                // The conflict stands; its time does not.
                (Ok(Ended::Conflict(_)), _) => {
                    let expected: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
                    let read = Box::pin(self.read(&expected)).await;
                    read.map(Outcome::Conflict).map_err(Fault::of_question)
                }
                (Err(fault), _) => Err(fault),
            });
        }
        Ok(outcomes)
    }

    /// Commits these with the list of listened topics that the store has.
    async fn commit_knowing(&self, txns: &[Txn]) -> Result<Reply, Fault> {
        for _ in 0..MAX_OUTDATED {
            let listened = self.known.shared.listened();
            let reply = self.call(Script::Commit, |request| self.add_txns(request, txns, &listened)).await?;
            match reply.word {
                Word::Ok => return Ok(reply),
                Word::Rewound(why) => return Err(why.fault()),
                Word::Outdated => Box::pin(self.learn()).await?,
            }
        }
        Err(Fault::new(
            Kind::Unavailable,
            "what has to be told changes again and again",
            "Try again; report this if it stays so.",
        ))
    }

    /// Begins a new epoch. Answers its first revision.
    pub(crate) async fn raise_epoch(&self) -> Result<Revision, Fault> {
        let Known { server, channel, .. } = &*self.known;
        let reply = self
            .call(Script::Raise, |request| {
                request.arg(&server.run).arg(&server.replication);
                request.arg(flag(server.keeps_all())).arg(flag(self.known.is_replicated));
                request.arg(self.seen_text()).arg(channel);
            })
            .await?;
        Ok(reply.revision)
    }

    /// Sees that the server answers, that it is still a primary, and what its clock does.
    pub(crate) async fn watch(&self) -> Result<(), Fault> {
        let (earliest, latest) = self.bounds();
        let reply = self
            .call(Script::Watch, |request| {
                request.arg(earliest).arg(latest).arg(ms(RECORD_AFTER).to_string());
            })
            .await
            .map_err(Fault::of_question)?;
        if reply.word != Word::Ok {
            return Ok(());
        }
        if reply.listened()?.hash() != self.known.shared.listened().hash() {
            self.learn().await?;
        }
        self.believes(&reply).await.map(drop)
    }

    /// Asks something that changes nothing, until the time in the answer can be true.
    async fn question(&self, script: Script, add: impl Fn(&mut Request)) -> Result<Reply, Fault> {
        for _ in 0..MAX_JUMPS {
            let earliest = self.bounds().0;
            let with_time = |request: &mut Request| {
                request.arg(&earliest);
                add(request);
            };
            let reply = self.call(script, with_time).await.map_err(Fault::of_question)?;
            if let Word::Rewound(why) = reply.word {
                return Err(why.fault());
            }
            if self.believes(&reply).await? == Belief::Believed {
                return Ok(reply);
            }
        }
        Err(Fault::new(
            Kind::Unavailable,
            "the server's clock jumps again and again",
            "Stop what sets the server's clock; let NTP slew it.",
        ))
    }

    /// Whether the time in an answer can be true. If not, the jump is taken out of the store's clock.
    async fn believes(&self, reply: &Reply) -> Result<Belief, Fault> {
        if matches!(reply.word, Word::Rewound(_)) {
            return Ok(Belief::Believed);
        }
        let witness = &self.known.shared.witness;
        let Err(jump) = witness.judge(reply.told) else { return Ok(Belief::Believed) };
        tracing::warn!(jump_ms = ms(jump.by), "the redis server's clock jumped forward: not followed");
        Box::pin(self.absorb(reply)).await
    }

    /// Takes a jump out of the store's clock.
    async fn absorb(&self, reply: &Reply) -> Result<Belief, Fault> {
        let witness = &self.known.shared.witness;
        let latest = witness.latest(boottime()).unwrap_or(0);
        let corrected = self
            .call(Script::Absorb, |request| {
                request.arg(reply.offset_ms.to_string()).arg(latest.to_string());
            })
            .await
            .map_err(Fault::of_question)?;
        // Whatever it says now is agreed upon: others have recorded that time if it is still ahead of ours.
        witness.follow(corrected.told);
        Ok(Belief::Corrected)
    }

    /// Runs a script, which is loaded again if the server has forgotten it.
    async fn call(&self, script: Script, add: impl FnOnce(&mut Request)) -> Result<Reply, Fault> {
        let connection = &self.connection;
        let mut request = self.known.calls[script as usize].begun();
        add(&mut request);
        let mut sent = boottime();
        let mut answered = connection.ask(&mut request).await;
        if answered.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            Box::pin(load_scripts(connection)).await?;
            sent = boottime();
            answered = connection.ask(&mut request).await;
        }
        let reply = Reply::parse(answered?, Times { sent, arrived: boottime() })?;
        self.known.shared.seen.fetch_max(reply.revision, Ordering::Relaxed);
        Ok(reply)
    }

    fn add_txns(&self, request: &mut Request, txns: &[Txn], listened: &Listened) {
        let Known { server, shared, channel, .. } = &*self.known;
        // What the head ends with, if this is the process that we know, and the list.
        request.joined(&[&[FORMAT], listened.hash(), server.run.as_bytes()]);
        let seen = shared.seen.load(Ordering::Relaxed);
        batch::add(request, txns, &batch::Known { seen, listened, channel });
    }

    /// What the store's clock can be showing, as arguments.
    fn bounds(&self) -> (String, String) {
        let (witness, now) = (&self.known.shared.witness, boottime());
        let text = |bound: Option<u64>| bound.map(|ms| ms.to_string()).unwrap_or_default();
        (text(witness.earliest(now)), text(witness.latest(now)))
    }

    fn seen_text(&self) -> String {
        let shared = &self.known.shared;
        if shared.attached.load(Ordering::Relaxed) {
            shared.seen.load(Ordering::Relaxed).to_string()
        } else {
            String::new()
        }
    }
}

/// What came of judging a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Belief {
    Believed,
    /// It was not true; the store's clock has been corrected since.
    Corrected,
}

async fn examine(connection: &Connection) -> Result<Server, Fault> {
    let mut about = Request::new("INFO");
    for section in SECTIONS {
        about.arg(section);
    }
    let info: String = from_redis_value(connection.ask(&mut about).await.map_err(question)?)
        .map_err(|error| question(error.into()))?;
    let mut setting = Request::new("CONFIG");
    // Hosted servers often forbid it, which is no reason not to use them.
    let config = connection.ask(setting.arg("GET").arg("appendfsync")).await.ok();
    let config = config.and_then(|config| from_redis_value::<HashMap<String, String>>(config).ok());
    Server::parse(&info, config.and_then(|mut config| config.remove("appendfsync")))
}

async fn load_scripts(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut load = Script::ALL.map(|script| {
        let mut load = Request::new("SCRIPT");
        load.arg("LOAD").arg(script.source());
        load
    });
    let digests = connection.ask_all(&mut load).await.map_err(question)?;
    let digests = digests.into_iter().map(from_redis_value);
    digests.collect::<Result<_, _>>().map_err(|error| question(error.into()))
}

/// The beginning of a call of the script with this name on the server.
fn call_of(digest: &str, keys: &[String]) -> Request {
    let mut call = Request::new("EVALSHA");
    call.arg(digest).arg(keys.len().to_string());
    for key in keys {
        call.arg(key);
    }
    call
}

/// All channels of topics, as Redis writes patterns.
fn pattern(channel: &str) -> String {
    let escaped = channel.chars().flat_map(|char| {
        let escape = matches!(char, '*' | '?' | '[' | ']' | '^' | '-' | '\\').then_some('\\');
        escape.into_iter().chain([char])
    });
    escaped.chain(":*".chars()).collect()
}

fn question(error: redis::RedisError) -> Fault {
    Fault::from(error).of_question()
}

fn add_all(request: &mut Request, names: &[Name]) {
    for name in names {
        request.arg(name.as_str());
    }
}

fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_with_special_characters_is_no_pattern() {
        assert_eq!(pattern("{be*l[l]}:changes"), "{be\\*l\\[l\\]}:changes:*");
    }
}
