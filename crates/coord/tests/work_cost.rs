//! What jobs cost a store: counted, so a cost that begins to grow with what is stored fails here on every machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use bell_coord::Coord;
use bell_coord::work::intake::new_job;
use bell_coord::work::running::{Claim, Work};
use bell_coord::work::wall_now;
use bell_core::work::accept::{Accepted, MAX_OFFERS, Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::claim::Begun;
use bell_core::work::job::{JobId, JobSpec, Rules, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::run::End;
use bell_store::layers::{Metered, Metrics, Op};
use bell_store::memory::Memory;
use bell_store::{Info, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch};
use tokio::task::JoinSet;

const ROOM: Room = Room { size: 1_000_000, overflow: Overflow::Reject };
const CAPS: Caps = Caps { agent: 1_000, fleet: None };

/// Requests to a store, and records that came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    commits: u64,
    conflicts: u64,
    reads: u64,
    scans: u64,
    records: u64,
}

/// A store that others get a turn in while it answers.
struct Distant(Memory);

#[async_trait]
impl Store for Distant {
    fn info(&self) -> &Info {
        self.0.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.0.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        tokio::task::yield_now().await;
        self.0.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        tokio::task::yield_now().await;
        self.0.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        tokio::task::yield_now().await;
        self.0.commit(txn).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.0.changed(watch).await
    }

    fn presence(&self) -> &dyn Presence {
        self.0.presence()
    }
}

struct Scene {
    coord: Coord,
    metrics: Arc<Metrics>,
}

impl Scene {
    /// With a first job done, so that every record that is ever made once is there.
    async fn new() -> Self {
        let metered = Metered::new(Arc::new(Distant(Memory::new())));
        let metrics = metered.metrics();
        let scene = Self { coord: Coord::new(Arc::new(metered)), metrics };
        scene.costs().await;
        scene
    }

    fn counts(&self) -> Cost {
        let all = self.metrics.snapshot();
        let of = |op: Op| all.iter().find(|one| one.op == op).unwrap().count;
        Cost {
            commits: of(Op::Commit),
            conflicts: self.metrics.conflicts(),
            reads: of(Op::Read),
            scans: of(Op::Scan),
            records: self.metrics.records(),
        }
    }

    async fn cost_of<T>(&self, act: impl Future<Output = T>) -> (T, Cost) {
        let before = self.counts();
        let answer = act.await;
        let after = self.counts();
        let cost = Cost {
            commits: after.commits - before.commits,
            conflicts: after.conflicts - before.conflicts,
            reads: after.reads - before.reads,
            scans: after.scans - before.scans,
            records: after.records - before.records,
        };
        (answer, cost)
    }

    async fn offer(&self) -> JobId {
        let offer = offer();
        let accepted = self.coord.accept(std::slice::from_ref(&offer), ROOM).await.unwrap();
        assert!(matches!(accepted[..], [Accepted::Queued { .. }]), "{accepted:?}");
        offer.id
    }

    async fn claim(&self) -> Claim {
        let Work::Job(claim) = self.coord.claim(&agent(), CAPS, "here").await.unwrap() else {
            panic!("nothing was claimed")
        };
        *claim
    }

    /// What offering, claiming, beginning and finishing one job cost now.
    async fn costs(&self) -> [(&'static str, Cost); 4] {
        let (_, offered) = self.cost_of(self.offer()).await;
        let (claim, claimed) = self.cost_of(self.claim()).await;
        let (_, begun) = self.cost_of(self.coord.begin(&claim.run, None)).await;
        let (_, finished) = self.cost_of(self.coord.finish(&claim.run, &End::Completed)).await;
        [("offer", offered), ("claim", claimed), ("begin", begun), ("finish", finished)]
    }

    async fn fill(&self, count: usize) {
        let offers: Vec<Offer> = (0..count).map(|_| offer()).collect();
        self.coord.accept(&offers, ROOM).await.unwrap();
    }
}

fn agent() -> AgentName {
    "triage".parse().unwrap()
}

fn offer() -> Offer {
    let spec = JobSpec { agent: agent(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
    Offer { id: new_job(), spec, payload: "{}".into(), once: None, at: wall_now() }
}

#[tokio::test]
async fn a_job_costs_the_store_the_same_whether_none_or_many_wait() {
    let scene = Scene::new().await;
    // More than a look ahead into the queue brings, so that every later one brings as much.
    scene.fill(20).await;
    let few = scene.costs().await;
    scene.fill(2_000).await;
    assert_eq!(scene.costs().await, few);
}

#[tokio::test]
async fn a_job_costs_the_store_the_same_whether_none_or_many_are_remembered() {
    let scene = Scene::new().await;
    scene.fill(20).await;
    let new = scene.costs().await;
    scene.fill(2_000).await;
    while scene.coord.line(&agent()).await.unwrap().waiting > 0 {
        scene.coord.clear(&agent()).await.unwrap();
    }
    scene.fill(20).await;
    assert_eq!(scene.costs().await, new);
}

#[tokio::test]
async fn each_step_of_a_job_is_one_commit_and_few_reads() {
    let scene = Scene::new().await;
    scene.fill(20).await;
    let most = [("offer", 1), ("claim", 3), ("begin", 2), ("finish", 3)];
    for ((act, cost), (expected, most)) in scene.costs().await.into_iter().zip(most) {
        assert_eq!((act, cost.commits, cost.conflicts), (expected, 1, 0), "{cost:?}");
        assert!(cost.reads + cost.scans <= most, "{act}: {cost:?}");
        assert!(cost.records <= 12, "{act}: {cost:?}");
    }
}

#[tokio::test]
async fn two_commits_lead_from_a_job_that_waits_to_an_agent_that_may_start() {
    let scene = Scene::new().await;
    scene.offer().await;
    let (begun, cost) = scene
        .cost_of(async {
            let claim = scene.claim().await;
            // Dropped, it would end.
            let session = scene.coord.take_over(&claim.session.token()).await.unwrap();
            (scene.coord.begin(&claim.run, None).await.unwrap(), session)
        })
        .await;
    assert_eq!(begun.0, Begun::Now);
    assert_eq!((cost.commits, cost.conflicts), (2, 0), "{cost:?}");
}

#[tokio::test]
async fn many_offers_to_one_agent_are_taken_on_in_few_commits() {
    let scene = Scene::new().await;
    let ((), cost) = scene.cost_of(scene.fill(10 * MAX_OFFERS)).await;
    assert_eq!((cost.commits, cost.conflicts, cost.reads), (10, 0, 1), "{cost:?}");
}

#[tokio::test]
async fn offers_that_come_together_are_taken_on_together_and_each_hears_its_own_place() {
    let scene = Arc::new(Scene::new().await);
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let scene = Arc::clone(&scene);
        callers.spawn(async move {
            let offer = offer();
            (offer.id.clone(), scene.coord.accept(&[offer], ROOM).await.unwrap())
        });
    }
    let (answers, cost) = scene.cost_of(callers.join_all()).await;
    let ahead = |answer: &Accepted| match answer {
        Accepted::Queued { ahead, .. } => *ahead,
        other => panic!("{other:?}"),
    };
    let mut places: Vec<u32> = answers.iter().map(|(_, answer)| ahead(&answer[0])).collect();
    places.sort_unstable();
    assert_eq!(places, (0..64).collect::<Vec<_>>());
    let queued = scene.coord.queued(&agent(), 100).await.unwrap();
    for (id, answer) in &answers {
        assert_eq!(&queued[ahead(&answer[0]) as usize], id, "everybody hears of their own");
    }
    assert_eq!(cost.conflicts, 0, "{cost:?}");
    assert!(cost.commits <= 4, "{cost:?}");
}

#[tokio::test]
async fn whoever_goes_away_while_others_wait_keeps_nobody_waiting() {
    let scene = Arc::new(Scene::new().await);
    for _ in 0..50 {
        let mut callers = JoinSet::new();
        let aborted: Vec<_> = (0..16)
            .map(|number| {
                let scene = Arc::clone(&scene);
                let caller = callers.spawn(async move { scene.offer().await });
                (number, caller)
            })
            .filter(|(number, _)| number % 3 == 0)
            .collect();
        tokio::task::yield_now().await;
        aborted.iter().for_each(|(_, caller)| caller.abort());
        let mut answered = 0;
        while let Some(done) = callers.join_next().await {
            answered += usize::from(done.is_ok());
        }
        assert!(answered >= 10, "{answered}");
    }
}
