//! The same delivery makes one job, however often it is told; one that was not stored makes one when it is told again (X3).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bell_coord::Coord;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::webhook::{Field, Filter, Pattern};
use bell_core::work::Wall;
use bell_core::work::accept::{Overflow, Room};
use bell_core::work::delivery::DeliveryVerdict::{Duplicate, Full, Queued, Unmatched};
use bell_core::work::delivery::{Delivery, DeliveryKey};
use bell_core::work::job::{Rules, Trigger};
use bell_core::work::receive::Received;
use bell_intake::{Event, Fixture, Hooks, Kind, Source, Subscriber, Trust, Verified, rehearse};
use bell_store::memory::Memory;
use bell_store_sqlite::Sqlite;

fn subscriber(agent: &str, events: &[&str], size: u32) -> Subscriber {
    let patterns = events.iter().map(|event| Pattern::parse(event).unwrap()).collect();
    let filter = Filter { source: "hub".into(), fields: BTreeMap::from([(Field::Events, patterns)]) };
    let room = Room { size, overflow: Overflow::Reject };
    Subscriber { agent: agent.parse().unwrap(), filters: vec![filter], rules: Rules::default(), room }
}

fn hooks(agents: Vec<Subscriber>) -> Hooks {
    let source = Source::new("hub", Kind::Github, Trust::Signed(Vec::new()));
    Hooks { sources: [("hub".to_owned(), source)].into(), agents }
}

fn event(hooks: &Hooks, id: &str) -> Event {
    let body = br#"{"action":"opened","repository":{"full_name":"acme/app"},"issue":{"number":42}}"#.to_vec();
    let fixture = Fixture { headers: Vec::new(), event: Some("issues".into()), body };
    match rehearse(&hooks.sources["hub"], fixture, id, wall_now()).unwrap() {
        Verified::Event(event) => *event,
        Verified::Question(answer) => panic!("{answer:?}"),
    }
}

async fn tell(coord: &Coord, hooks: &Hooks, event: &Event) -> Received {
    coord.receive(hooks.receipt(event, wall_now(), new_job)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_replays_at_once_make_one_job() {
    let hooks = Arc::new(hooks(vec![subscriber("triage", &["issues"], 5_000)]));
    let event = Arc::new(event(&hooks, "d-1"));
    let coord = Coord::new(Arc::new(Memory::new()));
    let replays: Vec<_> = (0..1_000)
        .map(|_| {
            let (coord, hooks, event) = (coord.clone(), Arc::clone(&hooks), Arc::clone(&event));
            tokio::spawn(async move { tell(&coord, &hooks, &event).await })
        })
        .collect();
    let mut received = Vec::new();
    for replay in replays {
        received.push(replay.await.unwrap());
    }
    let count = |verdict| received.iter().filter(|one| one.verdict == verdict).count();
    assert_eq!((count(Queued), count(Duplicate)), (1, 999));
    assert!(received.iter().all(|one| one.jobs == received[0].jobs && one.jobs.len() == 1));
    assert_eq!(coord.queued(&"triage".parse().unwrap(), 10).await.unwrap().len(), 1);
}

fn sqlite(path: &Path) -> Coord {
    Coord::new(Arc::new(Sqlite::open(path).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_after_a_restart_is_known_and_another_delivery_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let hooks = hooks(vec![subscriber("triage", &["issues"], 100)]);
    let told = tell(&sqlite(&path), &hooks, &event(&hooks, "d-1")).await;
    assert_eq!(told.verdict, Queued);
    let again = tell(&sqlite(&path), &hooks, &event(&hooks, "d-1")).await;
    assert_eq!((again.verdict, &again.jobs), (Duplicate, &told.jobs));
    let other = tell(&sqlite(&path), &hooks, &event(&hooks, "d-2")).await;
    assert_eq!(other.verdict, Queued);
}

#[tokio::test]
async fn a_delivery_that_found_no_room_is_taken_when_it_is_told_again() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let full = hooks(vec![subscriber("triage", &["issues"], 1)]);
    tell(&coord, &full, &event(&full, "d-1")).await;
    let refused = tell(&coord, &full, &event(&full, "d-2")).await;
    assert_eq!((refused.verdict, refused.full), (Full, vec!["triage".parse().unwrap()]));
    assert_eq!(record(&coord, "d-2").await.verdict(), Full);
    let roomy = hooks(vec![subscriber("triage", &["issues"], 100)]);
    let again = tell(&coord, &roomy, &event(&roomy, "d-2")).await;
    assert_eq!(again.verdict, Queued);
    assert_eq!(record(&coord, "d-2").await.verdict(), Queued);
}

async fn record(coord: &Coord, id: &str) -> Delivery {
    let key = DeliveryKey { source: "hub".into(), id: id.into() };
    coord.delivery(&key).await.unwrap().unwrap()
}

#[tokio::test]
async fn each_agent_that_wants_it_gets_one_job_and_a_retelling_makes_only_the_missing_ones() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let one = hooks(vec![subscriber("triage", &["issues"], 100), subscriber("deploy", &["push"], 100)]);
    let event = event(&one, "d-1");
    let first = tell(&coord, &one, &event).await;
    assert_eq!(first.jobs.len(), 1);
    let two =
        hooks(vec![subscriber("triage", &["issues"], 100), subscriber("label", &["issues", "push"], 100)]);
    let told = tell(&coord, &two, &event).await;
    assert_eq!((told.verdict, told.jobs.len()), (Queued, 2));
    assert!(told.jobs.contains(&first.jobs[0]));
    assert_eq!(tell(&coord, &two, &event).await.verdict, Duplicate);
}

#[tokio::test]
async fn one_that_nobody_wants_is_kept_with_the_reasons_and_makes_a_job_once_somebody_does() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let nobody = hooks(vec![subscriber("deploy", &["push"], 100)]);
    let event = event(&nobody, "d-1");
    assert_eq!(tell(&coord, &nobody, &event).await.verdict, Unmatched);
    let kept = record(&coord, "d-1").await;
    assert_eq!((kept.verdict(), kept.place.as_deref()), (Unmatched, Some("acme/app")));
    assert_eq!(kept.agents[0].filters[0].reasons, ["+ source: hub", "- events: issues is not push"]);
    let somebody = hooks(vec![subscriber("triage", &["issues"], 100)]);
    assert_eq!(tell(&coord, &somebody, &event).await.verdict, Queued);
}

#[tokio::test]
async fn the_record_has_the_body_as_it_came_and_no_signature() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let hooks = hooks(vec![subscriber("triage", &["issues"], 100)]);
    let event = event(&hooks, "d-1");
    let told = tell(&coord, &hooks, &event).await;
    let kept = record(&coord, "d-1").await;
    assert_eq!(kept.body, event.kept().body);
    let names: Vec<&str> = kept.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-github-event", "x-github-delivery"]);
    let page = coord.deliveries(None, 10).await.unwrap();
    assert_eq!((page.rows.len(), page.rows[0].0), (1, told.since));
}

#[tokio::test]
async fn more_agents_than_one_commit_holds_get_a_job_each() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let agents = (0..100).map(|number| subscriber(&format!("agent-{number}"), &["issues"], 100)).collect();
    let hooks = hooks(agents);
    let told = tell(&coord, &hooks, &event(&hooks, "d-1")).await;
    assert_eq!((told.verdict, told.jobs.len()), (Queued, 100));
    assert_eq!(record(&coord, "d-1").await.jobs().count(), 100);
    assert_eq!(tell(&coord, &hooks, &event(&hooks, "d-1")).await.verdict, Duplicate);
}

#[tokio::test]
async fn what_is_forgotten_is_new_when_it_is_told_again() {
    let coord = Coord::new(Arc::new(Memory::new()));
    let hooks = hooks(vec![subscriber("triage", &["issues"], 100)]);
    let told = tell(&coord, &hooks, &event(&hooks, "d-1")).await;
    assert_eq!(coord.forget_deliveries(Wall(told.since.0 - 1)).await.unwrap(), 0);
    assert_eq!(coord.forget_deliveries(Wall(told.since.0 + 1)).await.unwrap(), 1);
    assert_eq!(coord.deliveries(None, 10).await.unwrap().rows.len(), 0);
    assert_eq!(tell(&coord, &hooks, &event(&hooks, "d-1")).await.verdict, Queued);
}

#[test]
fn an_offer_carries_the_trigger_and_the_context() {
    let hooks = hooks(vec![subscriber("triage", &["issues"], 100)]);
    let receipt = hooks.receipt(&event(&hooks, "d-1"), wall_now(), new_job);
    let (offer, room) = &receipt.offers[0];
    let trigger = Trigger::Webhook { source: "hub".into(), delivery: "d-1".into() };
    assert_eq!((&offer.spec.trigger, room.size), (&trigger, 100));
    let payload: serde_json::Value = serde_json::from_str(&offer.payload).unwrap();
    assert_eq!((payload["repo"].as_str(), payload["number"].as_u64()), (Some("acme/app"), Some(42)));
}
