//! Changes as etcd tells them: one watch on the whole store, from the revision it was opened at.
//!
//! A watch that breaks goes on from where it was, so nothing is missed. If etcd has forgotten that revision,
//! everybody who waits looks for itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_store::Name;
use bell_store::hub::Hub;
use etcd_client::{KeyValue, WatchOptions, WatchResponse};
use tokio::time::{sleep, timeout};

use crate::fault::Fault;
use crate::keys::Keys;
use crate::line::{Answer, Line, Reached};
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
    /// The first revision that was not heard of yet.
    pub(crate) next: i64,
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
            pause = if self.next > heard_before { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }

    async fn listen(&mut self) -> Result<(), Fault> {
        let client = self.wire.connection().await?;
        let (start, end) = self.keys.all();
        let options = WatchOptions::new().with_range(end).with_start_revision(self.next);
        let mut watches = client.watch_client().max_decoding_message_size(i32::MAX as usize);
        let watching = timeout(TIME_LIMIT, watches.watch(start, Some(options)));
        let mut watch = watching.await.map_err(|_| Fault::late())??;
        while let Some(message) = watch.message().await? {
            if message.canceled() {
                self.next = self.next.max(message.compact_revision());
                return Ok(());
            }
            if message.created() {
                self.hub.look();
            }
            self.hear(&message);
        }
        Ok(())
    }

    fn hear(&mut self, message: &WatchResponse) {
        let mut changed = BTreeSet::new();
        for found in message.events().iter().filter_map(|event| event.kv()) {
            self.next = self.next.max(found.mod_revision() + 1);
            match self.keys.name(found.key()) {
                Some((name, _)) => {
                    changed.insert(name);
                }
                None => self.hear_of_time(found),
            }
        }
        self.hub.committed(changed.iter().collect::<Vec<&Name>>());
    }

    fn hear_of_time(&self, found: &KeyValue) {
        let (key, value, revision) = (found.key(), found.value(), found.mod_revision());
        if key == self.keys.head() {
            if let Some(head) = Reached::decode(value) {
                self.timekeeper.adopt_head(head, revision);
            }
        } else if key == self.keys.line() {
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
        client.compact(i64::try_from(seen).unwrap(), None).await.unwrap();

        let hub = Arc::new(Hub::default());
        let late = Listener {
            wire: Arc::clone(&store.client.wire),
            keys: store.client.keys.clone(),
            timekeeper: Arc::clone(&store.client.timekeeper),
            hub: Arc::clone(&hub),
            next: 1,
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
