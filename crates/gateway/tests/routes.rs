//! What the routes do, over a real socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bell_api::ask::{AcquireRequest, ReleaseRequest, RenewRequest};
use bell_api::call::{CallRequest, CallState};
use bell_api::outcome::Outcome;
use bell_client::Failure;
use bell_coord::new_request;
use bell_coord::work::running::Work;
use bell_core::key::Key;
use bell_core::work::line::Caps;
use bell_core::work::run::End;
use bell_core::work::speak::Word;
use serde_json::json;
use support::{Office, acquire, begin, eventually, name};

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

async fn waiting(office: &Office, text: &str) -> usize {
    office.coord.show(&key(text)).await.unwrap().waiting.len()
}

fn release(key: &str) -> ReleaseRequest {
    ReleaseRequest { key: key.to_owned(), fence: None }
}

#[tokio::test]
async fn the_socket_is_its_owners_alone() {
    let office = Office::open().await;
    let mode = std::fs::metadata(&office.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_lock_is_taken_kept_seen_and_given_back() {
    let office = Office::open().await;
    let client = office.client();
    let granted = client.acquire(&acquire("JOB:a", 0)).await.unwrap();
    assert_eq!((granted.outcome, granted.key.clone()), (Outcome::Granted, Some(key("job:a"))));
    assert_eq!(granted.holder.as_ref().unwrap().run.as_deref(), Some(office.run.as_str()));
    let renewed = RenewRequest { key: "job:a".to_owned(), fence: None, ttl_ms: Some(5_000) };
    let renewed = client.renew(&renewed).await.unwrap();
    assert_eq!((renewed.fence, renewed.ttl_ms), (granted.fence, Some(5_000)));
    assert_eq!(client.show("job:a").await.unwrap().outcome, Outcome::Held);
    assert_eq!(client.list("job:").await.unwrap().locks.len(), 1);
    client.release(&release("job:a")).await.unwrap();
    assert_eq!(client.show("job:a").await.unwrap().outcome, Outcome::Free);
    assert!(client.list("").await.unwrap().locks.is_empty());
}

#[tokio::test]
async fn the_same_request_has_the_one_outcome() {
    let office = Office::open().await;
    let client = office.client();
    let request = acquire("job:a", 0);
    let first = client.acquire(&request).await.unwrap();
    let again = client.acquire(&request).await.unwrap();
    assert_eq!((first.fence, again.already_held), (again.fence, false));
}

#[tokio::test]
async fn the_id_of_a_request_that_waits_can_not_name_another() {
    let office = Office::open().await;
    let other = Office::on(&office.coord).await;
    other.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let (client, request) = (office.client(), acquire("job:a", 600_000));
    let misused = AcquireRequest { keys: vec!["job:b".to_owned()], ..request.clone() };
    let wait = tokio::spawn(async move { client.acquire(&request).await });
    eventually("it waits", || async { waiting(&office, "job:a").await == 1 }).await;
    let refused = office.client().acquire(&misused).await;
    assert!(matches!(refused, Err(Failure::Refused(no)) if no.outcome == Outcome::Invalid));
    wait.abort();
}

#[tokio::test]
async fn a_wait_is_answered_when_its_turn_comes_and_when_its_time_is_up() {
    let office = Office::open().await;
    let other = Office::on(&office.coord).await;
    other.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let refused = office.client().acquire(&acquire("job:a", 200)).await;
    assert!(matches!(refused, Err(Failure::Refused(no)) if no.outcome == Outcome::TimedOut));
    let (client, request) = (office.client(), acquire("job:a", 600_000));
    let wait = tokio::spawn(async move { client.acquire(&request).await });
    eventually("it waits", || async { waiting(&office, "job:a").await == 1 }).await;
    other.client().release(&release("job:a")).await.unwrap();
    assert_eq!(wait.await.unwrap().unwrap().outcome, Outcome::Granted);
}

#[tokio::test]
async fn a_caller_that_is_cut_off_keeps_its_place_if_it_comes_back() {
    let office = Office::open().await;
    let (first, last) = (Office::on(&office.coord).await, Office::on(&office.coord).await);
    first.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let request = acquire("job:a", 600_000);
    let (client, asked) = (office.client(), request.clone());
    let cut = tokio::spawn(async move { client.acquire(&asked).await });
    eventually("it waits", || async { waiting(&office, "job:a").await == 1 }).await;
    let (client, asked) = (last.client(), acquire("job:a", 600_000));
    let behind = tokio::spawn(async move { client.acquire(&asked).await });
    eventually("another waits behind it", || async { waiting(&office, "job:a").await == 2 }).await;
    cut.abort();
    assert!(cut.await.unwrap_err().is_cancelled());
    let (client, asked) = (office.client(), request);
    let back = tokio::spawn(async move { client.acquire(&asked).await });
    first.client().release(&release("job:a")).await.unwrap();
    assert_eq!(back.await.unwrap().unwrap().outcome, Outcome::Granted);
    assert!(!behind.is_finished(), "nobody overtook it");
    office.client().release(&release("job:a")).await.unwrap();
    assert_eq!(behind.await.unwrap().unwrap().outcome, Outcome::Granted);
}

#[tokio::test]
async fn a_caller_that_does_not_come_back_loses_its_place_and_what_it_was_granted() {
    let office = Office::open().await;
    let (first, last) = (Office::on(&office.coord).await, Office::on(&office.coord).await);
    first.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let (client, asked) = (office.client(), acquire("job:a", 600_000));
    let gone = tokio::spawn(async move { client.acquire(&asked).await });
    eventually("it waits", || async { waiting(&office, "job:a").await == 1 }).await;
    gone.abort();
    // Granted to nobody: it comes back by itself.
    first.client().release(&release("job:a")).await.unwrap();
    let granted = last.client().acquire(&acquire("job:a", 600_000)).await.unwrap();
    assert_eq!(granted.outcome, Outcome::Granted);
}

#[tokio::test]
async fn a_wait_can_be_given_up_at_once() {
    let office = Office::open().await;
    let other = Office::on(&office.coord).await;
    other.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let (client, request) = (office.client(), acquire("job:a", 600_000));
    let id = request.request_id.clone();
    let wait = tokio::spawn(async move { client.acquire(&request).await });
    eventually("it waits", || async { waiting(&office, "job:a").await == 1 }).await;
    office.client().leave(&id).await.unwrap();
    assert!(matches!(wait.await.unwrap(), Err(Failure::Refused(no)) if no.outcome == Outcome::TimedOut));
    eventually("its place is free", || async { waiting(&office, "job:a").await == 0 }).await;
    office.client().leave("never-asked").await.unwrap();
}

#[tokio::test]
async fn changes_are_told_when_they_happen() {
    let office = Office::open().await;
    let client = office.client();
    let revision = client.revision().await.unwrap();
    let (watcher, asked) = (office.client(), revision);
    let change = tokio::spawn(async move { watcher.changed("job:", asked).await });
    client.acquire(&acquire("job:a", 0)).await.unwrap();
    let change = change.await.unwrap().unwrap();
    assert_eq!(change.outcome, Outcome::Listed);
    assert!(change.revision > revision);
}

#[tokio::test]
async fn what_a_run_says_is_on_its_record() {
    let office = Office::open().await;
    let client = office.client();
    client.status("reading").await.unwrap();
    client.give_back("42").await.unwrap();
    client.rerun().await.unwrap();
    let (run, _) = office.coord.run(&office.run).await.unwrap().unwrap();
    assert_eq!((run.status.as_deref(), run.returned.as_deref()), (Some("reading"), Some("42")));
    assert!(run.wants_rerun);
    client.exit(3).await.unwrap();
    client.exit(0).await.unwrap();
    assert_eq!(office.desk.exit_wanted().await, 3, "who asks first decides");
}

#[tokio::test]
async fn a_call_is_made_once_and_followed_to_its_end() {
    let office = Office::open().await;
    let client = office.client();
    let request = CallRequest {
        agent: "helper".to_owned(),
        context: json!({ "number": 42 }),
        request_id: new_request().to_string(),
    };
    let called = client.call(&request).await.unwrap();
    assert_eq!((called.outcome, called.state), (Outcome::Written, CallState::Queued));
    assert_eq!(client.call(&request).await.unwrap().job, called.job, "repeated, it is the same call");
    assert_eq!(office.coord.payload(&called.job).await.unwrap().as_deref(), Some(r#"{"number":42}"#));
    let job = called.job.to_string();
    let still = client.wait_call(&job, Duration::from_millis(50)).await.unwrap();
    assert_eq!((still.outcome, still.state), (Outcome::Waiting, CallState::Queued));

    let caps = Caps { agent: 1, fleet: None };
    let Ok(Work::Job(claim)) = office.coord.claim(&name("helper"), caps, "here").await else { panic!() };
    let session = office.coord.take_over(&claim.session.token()).await.unwrap();
    office.coord.begin(&claim.run, None).await.unwrap();
    assert_eq!(client.check_call(&job).await.unwrap().state, CallState::Running);
    let (waiter, asked) = (office.client(), job.clone());
    let wait = tokio::spawn(async move { waiter.wait_call(&asked, Duration::from_secs(55)).await });
    office.coord.speak(&claim.run, &session, &Word::Return("yes".to_owned())).await.unwrap();
    office.coord.finish(&claim.run, &End::Completed).await.unwrap();
    let over = wait.await.unwrap().unwrap();
    assert_eq!((over.state, over.returned.as_deref()), (CallState::Completed, Some("yes")));
}

#[tokio::test]
async fn a_call_that_failed_says_so() {
    let office = Office::open().await;
    let client = office.client();
    let request = CallRequest {
        agent: "helper".to_owned(),
        context: serde_json::Value::Null,
        request_id: new_request().to_string(),
    };
    let job = client.call(&request).await.unwrap().job;
    office.coord.cancel(&job).await.unwrap();
    let over = client.wait_call(job.as_str(), Duration::from_secs(55)).await.unwrap();
    assert_eq!((over.state, over.message.as_deref()), (CallState::Failed, Some("cancelled")));
}

#[tokio::test]
async fn a_run_that_is_over_can_not_call() {
    let office = Office::open().await;
    office.coord.kill(&office.run, "enough").await.unwrap();
    let request = CallRequest {
        agent: "helper".to_owned(),
        context: serde_json::Value::Null,
        request_id: "r".to_owned(),
    };
    let refused = office.client().call(&request).await;
    assert!(matches!(refused, Err(Failure::Refused(no)) if no.outcome == Outcome::Lost));
    let (other, _session) = begin(&office.coord, "worker").await;
    assert_ne!(other, office.run);
}
