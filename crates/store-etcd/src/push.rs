//! Changes as etcd tells them: watches on what is said of the time, and on each topic that somebody has watched.
//!
//! After watches break, everybody who waits for a record looks for itself. What is said of the time goes on from
//! where it was; so nothing is missed, unless etcd has forgotten that revision.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bell_store::Name;
use bell_store::hub::Hub;
use bell_store::topic::Topic;
use etcd_client::{KeyValue, WatchOptions, WatchRequestSender, WatchResponse};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::fault::Fault;
use crate::keys::Keys;
use crate::line::{Answer, Line};
use crate::timekeeper::Timekeeper;
use crate::wire::{TIME_LIMIT, Wire};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Listens to changes.
pub(crate) struct Listener {
    pub(crate) wire: Arc<Wire>,
    pub(crate) keys: Keys,
    pub(crate) timekeeper: Arc<Timekeeper>,
    pub(crate) hub: Arc<Hub>,
    /// The first revision of what is said of the time that was not heard of yet.
    pub(crate) next: i64,
    pub(crate) topics: Topics,
    pub(crate) wanted: UnboundedReceiver<Wanted>,
}

/// A topic to listen to from now on, and whom to tell when that is so.
pub(crate) type Wanted = (Topic, oneshot::Sender<()>);

/// What somebody here has ever watched.
#[derive(Default)]
pub(crate) struct Topics {
    all: BTreeSet<Topic>,
    /// Whom to tell, in the order in which etcd was asked to watch.
    asked: VecDeque<Vec<oneshot::Sender<()>>>,
}

impl Topics {
    /// Tells that a topic is listened to which was asked for before: when everything asked for so far is.
    fn tell_later(&mut self, done: oneshot::Sender<()>) {
        match self.asked.back_mut() {
            None => drop(done.send(())),
            Some(last) => last.push(done),
        }
    }
}

impl Listener {
    /// Listens for as long as the store is open, through one connection after the other.
    pub(crate) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let heard_before = self.next;
            let fault = match self.listen().await {
                Ok(()) => "etcd ended the watch".to_owned(),
                Err(fault) => fault.to_string(),
            };
            tracing::debug!(fault, "changes are not heard of for a moment");
            self.wire.leave_current();
            // Changes may come late from here on; whoever waits sees for itself that etcd is there, or is not.
            self.hub.look();
            // Nobody waits for an etcd that is gone.
            while let Ok((topic, _)) = self.wanted.try_recv() {
                self.topics.all.insert(topic);
            }
            self.topics.asked.clear();
            pause = if self.next > heard_before { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }

    async fn listen(&mut self) -> Result<(), Fault> {
        let client = self.wire.connection().await?;
        let mut watches = client.watch_client().max_decoding_message_size(i32::MAX as usize);
        let (start, end) = self.keys.talk();
        let options = WatchOptions::new().with_range(end).with_start_revision(self.next);
        let watching = timeout(TIME_LIMIT, watches.watch(start, Some(options)));
        let (mut asking, mut told) = watching.await.map_err(|_| Fault::late())??.split();
        // Whoever asked over the last connection asks again.
        self.topics.asked = [Vec::new()].into();
        let options = WatchOptions::new().with_start_revision(self.next);
        self.add(&mut asking, self.keys.line(), options, Vec::new()).await?;
        for topic in self.topics.all.clone() {
            self.add_topic(&mut asking, &topic, Vec::new()).await?;
        }
        loop {
            tokio::select! {
                message = told.message() => match message? {
                    None => return Ok(()),
                    Some(message) if message.canceled() => {
                        self.next = self.next.max(message.compact_revision());
                        return Ok(());
                    }
                    Some(message) => self.take(&message),
                },
                Some((topic, done)) = self.wanted.recv() => {
                    if self.topics.all.insert(topic.clone()) {
                        self.add_topic(&mut asking, &topic, vec![done]).await?;
                    } else {
                        self.topics.tell_later(done);
                    }
                }
            }
        }
    }

    /// Watches a topic from now on: what was before, whoever waits sees for itself.
    async fn add_topic(
        &mut self,
        asking: &mut WatchRequestSender,
        topic: &Topic,
        done: Vec<oneshot::Sender<()>>,
    ) -> Result<(), Fault> {
        let (start, end) = self.keys.topic(topic);
        self.add(asking, start, WatchOptions::new().with_range(end), done).await
    }

    async fn add(
        &mut self,
        asking: &mut WatchRequestSender,
        key: Vec<u8>,
        options: WatchOptions,
        done: Vec<oneshot::Sender<()>>,
    ) -> Result<(), Fault> {
        self.topics.asked.push_back(done);
        Ok(timeout(TIME_LIMIT, asking.watch(key, Some(options))).await.map_err(|_| Fault::late())??)
    }

    fn take(&mut self, message: &WatchResponse) {
        if message.created() {
            for done in self.topics.asked.pop_front().unwrap_or_default() {
                // Whoever asked may have gone.
                let _ = done.send(());
            }
            self.hub.look();
        }
        self.hear(message);
    }

    fn hear(&mut self, message: &WatchResponse) {
        let mut changed = BTreeSet::new();
        for found in message.events().iter().filter_map(|event| event.kv()) {
            match self.keys.name(found.key()) {
                Some((name, _)) => {
                    changed.insert(name);
                }
                None => {
                    self.next = self.next.max(found.mod_revision() + 1);
                    self.hear_of_time(found);
                }
            }
        }
        self.hub.committed(changed.iter().collect::<Vec<&Name>>());
    }

    fn hear_of_time(&self, found: &KeyValue) {
        let (key, value, revision) = (found.key(), found.value(), found.mod_revision());
        if key == self.keys.line() {
            if let Some(line) = Line::decode(value) {
                self.timekeeper.adopt_line(&line, revision);
            }
        } else if key == self.keys.answer() {
            if let Some(answer) = Answer::decode(value) {
                self.timekeeper.heard(answer);
            }
        } else if key == self.keys.ask() {
            let timekeeper = Arc::clone(&self.timekeeper);
            // Ends by itself, within the time limit of a request.
            drop(tokio::spawn(async move { timekeeper.answer(revision).await }));
        }
    }
}

#[cfg(test)]
mod tests {
    use bell_store::{Stamp, Store, Txn, Watch, Write};

    use super::*;
    use crate::Etcd;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_listener_whose_revision_was_compacted_away_goes_on() {
        let etcd = bell_e2e::Etcd::start();
        let store = Etcd::open(&etcd.url("bell")).await.unwrap();
        let put =
            || Txn { writes: vec![("a".into(), Write::Put(b"1".to_vec(), Stamp::Keep))], ..Txn::default() };
        for _ in 0..3 {
            store.commit(put()).await.unwrap();
        }
        let seen = store.read(&[]).await.unwrap().revision;
        let mut client = etcd_client::Client::connect([etcd.address(0)], None).await.unwrap();
        client.compact(crate::revision::transaction(seen), None).await.unwrap();

        let hub = Arc::new(Hub::default());
        let late = Listener {
            wire: Arc::clone(&store.lane.wire),
            keys: store.lane.keys.clone(),
            timekeeper: Arc::clone(&store.lane.timekeeper),
            hub: Arc::clone(&hub),
            next: 1,
            topics: Topics { all: [Topic::Everything].into(), ..Topics::default() },
            wanted: tokio::sync::mpsc::unbounded_channel().1,
        };
        store.engine.keep_running(late.run());
        // Waits on the late listener's hub alone.
        let watch = Watch::Names(vec![("a".into(), seen)]);
        let (heard, _) = tokio::join!(tokio::time::timeout(LONG, hub.changed(&store, &watch)), async {
            tokio::time::sleep(FIRST_PAUSE).await;
            store.commit(put()).await.unwrap()
        });
        heard.expect("heard").unwrap();
    }
}
