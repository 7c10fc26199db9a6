//! Deliveries that come together, on a store in which others get a turn while it answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_coord::{Coord, Denied};
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::delivery::{Delivery, DeliveryKey, DeliveryVerdict, Judged, Judgement};
use bell_core::work::job::{JobSpec, Rules, Trigger};
use bell_core::work::receive::{Receipt, Received, most_together};
use bell_store::info::Limits;
use bell_store::memory::Memory;
use bell_store::{
    Error, Info, Kind, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch,
};
use tokio::task::JoinSet;

const ROOM: Room = Room { size: 1_000_000, overflow: Overflow::Reject };

/// A store that counts commits, takes a while for each, and loses the answer to one if it is told to.
#[derive(Default)]
struct Far {
    inner: Memory,
    commits: AtomicUsize,
    loses_the_next: AtomicBool,
    refuses_the_next: AtomicBool,
}

#[async_trait]
impl Store for Far {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.inner.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.inner.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        if self.refuses_the_next.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Kind::Unavailable, "commit").hint("Try again."));
        }
        let outcome = self.inner.commit(txn).await?;
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.loses_the_next.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Kind::Unknown, "hear whether it was committed"));
        }
        Ok(outcome)
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.inner.changed(watch).await
    }

    fn presence(&self) -> &dyn Presence {
        self.inner.presence()
    }
}

fn coord() -> (Coord, Arc<Far>) {
    let store = Arc::new(Far::default());
    (Coord::new(Arc::clone(&store) as _), store)
}

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

fn receipt(number: usize) -> Receipt {
    let key = DeliveryKey { source: "hub".into(), id: format!("d-{number}").into() };
    let trigger = Trigger::Webhook { source: key.source.clone(), delivery: key.id.clone() };
    let filters = vec![Judgement { matched: true, reasons: Vec::new() }];
    let spec = JobSpec { agent: agent(), trigger, rules: Rules::default() };
    let at = wall_now();
    let id = new_job();
    let delivery = Delivery {
        key,
        at,
        event: "issues".to_owned(),
        action: None,
        place: None,
        agents: vec![Judged { agent: agent(), filters, job: Some(id.clone()) }],
        unlisted: 0,
        replay: None,
        headers: Vec::new(),
        bytes: 2,
        body: Some(b"{}".as_slice().into()),
    };
    let offer = Offer { id, spec, payload: "{}".into(), once: None, at };
    Receipt { delivery: Arc::new(delivery), offers: vec![(offer, ROOM)] }
}

type Answers = JoinSet<std::result::Result<Received, Denied>>;

fn all_at_once(coord: &Coord, numbers: impl Iterator<Item = usize>) -> Answers {
    let mut tasks = JoinSet::new();
    for number in numbers {
        let coord = coord.clone();
        tasks.spawn(async move { coord.receive(receipt(number)).await });
    }
    tasks
}

async fn count(mut answers: Answers, verdict: DeliveryVerdict) -> usize {
    let mut count = 0;
    while let Some(answer) = answers.join_next().await {
        count += usize::from(answer.unwrap().unwrap().verdict == verdict);
    }
    count
}

#[tokio::test]
async fn deliveries_that_come_together_share_commits() {
    let (coord, store) = coord();
    let queued = count(all_at_once(&coord, 0..100), DeliveryVerdict::Queued).await;
    assert_eq!((queued, coord.line(&agent()).await.unwrap().waiting), (100, 100));
    // The first goes alone, and the others as many together as a commit holds.
    let most = most_together(Limits::CONTRACT.txn_ops);
    let commits = store.commits.load(Ordering::SeqCst);
    assert!(commits <= 2 + 100_usize.div_ceil(most), "{commits}");
}

#[tokio::test]
async fn who_goes_away_half_way_takes_nobody_along() {
    let (coord, _store) = coord();
    // The first has the turn, and the second is taken along by whoever is next.
    let mut first = Box::pin(coord.receive(receipt(1)));
    let mut second = Box::pin(coord.receive(receipt(2)));
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = &mut first => panic!("it takes a while"),
            _ = &mut second => panic!("it waits for the first"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(first);
    assert_eq!(second.await.unwrap().verdict, DeliveryVerdict::Queued);
    let told_again = coord.receive(receipt(1)).await.unwrap();
    assert_eq!(told_again.jobs.len(), 1);
    assert_eq!(coord.line(&agent()).await.unwrap().waiting, 2);
}

#[tokio::test]
async fn after_a_commit_without_an_answer_each_hears_what_became_of_its_own() {
    let (coord, store) = coord();
    store.loses_the_next.store(true, Ordering::SeqCst);
    assert_eq!(coord.receive(receipt(1)).await.unwrap().verdict, DeliveryVerdict::Queued);
    store.loses_the_next.store(true, Ordering::SeqCst);
    assert_eq!(count(all_at_once(&coord, 2..20), DeliveryVerdict::Queued).await, 18);
    assert_eq!(coord.line(&agent()).await.unwrap().waiting, 19);
}

#[tokio::test]
async fn what_a_store_refuses_is_refused_to_all_of_the_commit_and_works_when_told_again() {
    let (coord, store) = coord();
    store.refuses_the_next.store(true, Ordering::SeqCst);
    let refused = coord.receive(receipt(1)).await;
    assert!(matches!(refused, Err(Denied::Unavailable(_))), "{refused:?}");
    assert_eq!(coord.line(&agent()).await.unwrap().waiting, 0);
    assert_eq!(coord.receive(receipt(1)).await.unwrap().verdict, DeliveryVerdict::Queued);
}

#[tokio::test]
async fn others_who_change_the_queue_meanwhile_do_no_harm() {
    let (coord, _store) = coord();
    for round in 0..5 {
        let answers = all_at_once(&coord, round * 20..(round + 1) * 20);
        // What the next turn believes of the queue is wrong then.
        coord.clear(&agent()).await.unwrap();
        assert_eq!(count(answers, DeliveryVerdict::Queued).await, 20);
    }
}
