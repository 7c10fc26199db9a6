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
use redis::{Cmd, ErrorKind, PushInfo, ServerErrorKind, cmd, from_redis_value};
use tokio::sync::mpsc::UnboundedSender;

use crate::address::Address;
use crate::batch::{self, Ended};
use crate::fault::Fault;
use crate::find::{self, Connection};
use crate::reply::{Reply, Rewound, Times, Word};
use crate::scripts::Script;
use crate::server::{SECTIONS, Server};
use crate::witness::Witness;

/// A recorded time that is older is recorded anew: so much of the past a clock that goes back may repeat.
const RECORD_AFTER: Duration = Duration::from_secs(2);

/// Jumps of the server's clock in a row before a request gives up on it.
const MAX_JUMPS: usize = 3;

/// What most requests fit into: a commit that takes or gives back one lock.
const COMMON_ARGS: usize = 24;
const COMMON_BYTES: usize = 1_000;

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
    topics: Mutex<BTreeMap<Topic, Listened>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listened {
    NotYet,
    Always,
}

impl Shared {
    /// Notes that this is to be listened to. Whether it is already.
    pub(crate) fn wants(&self, topic: &Topic) -> bool {
        *self.topics().entry(topic.clone()).or_insert(Listened::NotYet) == Listened::Always
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<Topic, Listened>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
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
    keys: [String; 3],
    channel: String,
    /// The scripts' names on the server.
    digests: Vec<String>,
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
        let digests = load_scripts(&connection).await?;
        let known = Known {
            keys: address.keys(),
            channel: address.channel(),
            digests,
            is_replicated: server.is_replicated(&address.place),
            server,
            shared: Arc::clone(shared),
        };
        let session = Self { connection, known: Arc::new(known) };
        if ears == Ears::Open {
            session.listen_to_all().await?;
        }
        let rewound = session.attach().await.map_err(Fault::of_question)?;
        Ok((session, rewound))
    }

    /// The server we are connected to.
    pub(crate) fn server(&self) -> &Server {
        &self.known.server
    }

    async fn listen_to_all(&self) -> Result<(), Fault> {
        let channel = &self.known.channel;
        self.connection.subscribe(channel).await.map_err(question)?;
        let topics: Vec<Topic> = self.known.shared.topics().keys().cloned().collect();
        for topic in topics {
            self.listen(&topic).await?;
        }
        Ok(())
    }

    /// Hears of changes in this topic from now on.
    pub(crate) async fn listen(&self, topic: &Topic) -> Result<(), Fault> {
        let (connection, channel) = (&self.connection, &self.known.channel);
        match topic {
            Topic::One(topic) => connection.subscribe(&batch::topic_channel(channel, topic)).await,
            Topic::Everything => connection.psubscribe(&pattern(channel)).await,
        }
        .map_err(question)?;
        self.known.shared.topics().insert(topic.clone(), Listened::Always);
        Ok(())
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
            Word::Ok => Ok(None),
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
                request.arg(&lowest).arg(&highest).arg(limit + 1);
            })
            .await?;
        reply.scanned(limit)
    }

    /// Commits each of these, or says why not. An error: of all of them, together.
    pub(crate) async fn commit(&self, txns: &[Txn]) -> Result<Vec<Result<Outcome, Fault>>, Fault> {
        let reply = self.call(Script::Commit, |request| self.add_txns(request, txns)).await?;
        if let Word::Rewound(why) = reply.word {
            return Err(why.fault());
        }
        let believed = self.believes(&reply).await;
        let latest = self.known.shared.witness.latest(reply.told.arrived).unwrap_or(u64::MAX);
        let now = reply.now().min(Timestamp::from_ms(latest));
        let mut outcomes = Vec::with_capacity(txns.len());
        for (ended, txn) in reply.ended(txns).into_iter().zip(txns) {
            outcomes.push(match (ended, &believed) {
                (Ok(Ended::Committed(revision)), _) => Ok(Outcome::Committed(Committed { revision, now })),
                (Ok(Ended::Conflict(found)), Ok(Belief::Believed)) => Ok(Outcome::Conflict(found)),
                // The conflict stands; its time does not.
                (Ok(Ended::Conflict(_)), _) => {
                    let expected: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
                    self.read(&expected).await.map(Outcome::Conflict).map_err(Fault::of_question)
                }
                (Err(fault), _) => Err(fault),
            });
        }
        Ok(outcomes)
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
                request.arg(earliest).arg(latest).arg(ms(RECORD_AFTER));
            })
            .await
            .map_err(Fault::of_question)?;
        match reply.word {
            Word::Ok => self.believes(&reply).await.map(drop),
            Word::Rewound(_) => Ok(()),
        }
    }

    /// Asks something that changes nothing, until the time in the answer can be true.
    async fn question(&self, script: Script, add: impl Fn(&mut Cmd)) -> Result<Reply, Fault> {
        for _ in 0..MAX_JUMPS {
            let earliest = self.bounds().0;
            let with_time = |request: &mut Cmd| {
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
        let latest = witness.latest(boottime()).unwrap_or(0);
        let corrected = self
            .call(Script::Absorb, |request| {
                request.arg(reply.offset_ms).arg(latest);
            })
            .await
            .map_err(Fault::of_question)?;
        // Whatever it says now is agreed upon: others have recorded that time if it is still ahead of ours.
        witness.follow(corrected.told);
        Ok(Belief::Corrected)
    }

    /// Runs a script, which is loaded again if the server has forgotten it.
    async fn call(&self, script: Script, add: impl FnOnce(&mut Cmd)) -> Result<Reply, Fault> {
        let connection = &self.connection;
        let mut request = Cmd::with_capacity(COMMON_ARGS, COMMON_BYTES);
        request.arg("EVALSHA");
        let digest = self.known.digests.get(script as usize).map(String::as_str).unwrap_or_default();
        request.arg(digest).arg(self.known.keys.len()).arg(&self.known.keys);
        add(&mut request);
        let mut sent = boottime();
        let mut answered = connection.ask(&request).await;
        if answered.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            load_scripts(connection).await?;
            sent = boottime();
            answered = connection.ask(&request).await;
        }
        let reply = Reply::parse(answered?, Times { sent, arrived: boottime() })?;
        self.known.shared.seen.fetch_max(reply.revision, Ordering::Relaxed);
        Ok(reply)
    }

    fn add_txns(&self, request: &mut Cmd, txns: &[Txn]) {
        request.arg(&self.known.server.run);
        batch::add(request, txns, self.known.shared.seen.load(Ordering::Relaxed), &self.known.channel);
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
    let mut about = cmd("INFO");
    about.arg(&SECTIONS);
    let info: String = from_redis_value(connection.ask(&about).await.map_err(question)?)
        .map_err(|error| question(error.into()))?;
    let mut setting = cmd("CONFIG");
    setting.arg("GET").arg("appendfsync");
    // Hosted servers often forbid it, which is no reason not to use them.
    let config = connection.ask(&setting).await.ok();
    let config = config.and_then(|config| from_redis_value::<HashMap<String, String>>(config).ok());
    Server::parse(&info, config.and_then(|mut config| config.remove("appendfsync")))
}

async fn load_scripts(connection: &Connection) -> Result<Vec<String>, Fault> {
    let load = Script::ALL.map(|script| {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(script.source());
        load
    });
    let digests = connection.ask_all(&load).await.map_err(question)?;
    let digests = digests.into_iter().map(from_redis_value);
    digests.collect::<Result<_, _>>().map_err(|error| question(error.into()))
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

fn add_all(request: &mut Cmd, names: &[Name]) {
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
