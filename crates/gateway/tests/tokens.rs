//! Whoever has a run's token acts for that run, for nothing else, and only while it lives (X1).

mod support;

use bell_api::ask::SessionRequest;
use bell_api::call::CallRequest;
use bell_api::control::logs::LogQuery;
use bell_api::outcome::Outcome;
use bell_client::Failure;
use bell_coord::new_request;
use serde_json::Value;
use support::{Office, acquire};

fn outcome<T: std::fmt::Debug>(answer: Result<T, Failure>) -> Outcome {
    match answer {
        Err(Failure::Refused(answer)) => answer.outcome,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn without_the_runs_token_nothing_is_done() {
    let office = Office::open().await;
    let token = office.token();
    let (id, secret) = token.split_once('.').unwrap();
    let flipped: String = secret.chars().map(|c| if c == '0' { '1' } else { '0' }).collect();
    let other = "00000000-0000-0000-0000-000000000000";
    for (header, status) in [
        (String::new(), 401),
        ("Authorization: Bearer \r\n".to_owned(), 401),
        ("Authorization: Bearer nonsense\r\n".to_owned(), 401),
        (format!("Authorization: Basic {token}\r\n"), 401),
        (format!("Authorization: Bearer {id}.{flipped}\r\n"), 401),
        (format!("Authorization: Bearer {id}\r\n"), 401),
        (format!("Authorization: Bearer {other}.{secret}\r\n"), 403),
        (format!("Authorization: Bearer {token}\r\n"), 200),
    ] {
        for path in ["/v1/locks", "/v1/locks/changes"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n");
            let (got, text) = office.raw(request.as_bytes()).await;
            assert_eq!(got, status, "{header:?} at {path}: {text}");
            assert!(!text.contains(secret), "{text}");
        }
    }
    let (status, _) = office.raw(b"GET /v1/nowhere HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(status, 401, "who is not known is not told what there is");
}

#[tokio::test]
async fn the_token_of_one_run_is_worth_nothing_at_another() {
    let one = Office::open().await;
    let other = Office::on(&one.coord).await;
    let stranger = other.client_with(&one.token());
    assert_eq!(outcome(stranger.status("x").await), Outcome::Unauthorized);
    assert_eq!(outcome(stranger.acquire(&acquire("job:a", 0)).await), Outcome::Unauthorized);
    assert!(one.coord.show(&bell_core::key::Key::parse("job:a").unwrap()).await.unwrap().holders.is_empty());
    assert_eq!(other.coord.run(&other.run).await.unwrap().unwrap().0.status, None);
}

#[tokio::test]
async fn the_calls_and_locks_of_one_run_are_not_anothers() {
    let one = Office::open().await;
    let other = Office::on(&one.coord).await;
    let call = CallRequest {
        agent: "helper".to_owned(),
        context: Value::Null,
        request_id: new_request().to_string(),
    };
    let job = one.client().call(&call).await.unwrap().job;
    assert!(one.client().check_call(job.as_str()).await.is_ok());
    let (status, text) = other.send(&format!("GET /v1/calls/{job}"), "", "").await;
    assert_eq!(status, 403, "{text}");
    one.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let release = bell_api::ask::ReleaseRequest { key: "job:a".to_owned(), fence: None };
    assert_eq!(outcome(other.client().release(&release).await), Outcome::NotHolder);
}

#[tokio::test]
async fn the_token_dies_with_the_run() {
    let office = Office::open().await;
    let client = office.client();
    client.status("at work").await.unwrap();
    office.desk.revoke();
    for (status, text) in
        [office.post("/v1/run/status", r#"{"text":"x"}"#).await, office.send("GET /v1/locks", "", "").await]
    {
        assert_eq!(status, 401, "{text}");
    }
    let office = Office::open().await;
    office.coord.end(&office.session).await.unwrap();
    let (status, text) = office.send("GET /v1/locks", "", "").await;
    assert_eq!(status, 401, "{text}");
}

#[tokio::test]
async fn a_wait_ends_when_the_token_does() {
    let office = Office::open().await;
    let other = Office::on(&office.coord).await;
    other.client().acquire(&acquire("job:a", 0)).await.unwrap();
    let (client, request) = (office.client(), acquire("job:a", 600_000));
    let wait = tokio::spawn(async move { client.acquire(&request).await });
    let key = bell_core::key::Key::parse("job:a").unwrap();
    support::eventually("it waits", || async { office.coord.show(&key).await.unwrap().waiting.len() == 1 })
        .await;
    office.desk.revoke();
    assert_eq!(outcome(wait.await.unwrap()), Outcome::Unauthorized);
    support::eventually("its place is given up", || async {
        office.coord.show(&key).await.unwrap().waiting.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_session_of_its_own_takes_locks_and_nothing_else() {
    let office = Office::open().await;
    let run = office.client();
    let own = run
        .session(&SessionRequest { label: Some("a step".to_owned()), ..SessionRequest::default() })
        .await
        .unwrap();
    run.acquire(&acquire("job:a", 0)).await.unwrap();
    assert_eq!(outcome(own.acquire(&acquire("job:a", 0)).await), Outcome::Busy, "it excludes the run's own");
    own.acquire(&acquire("job:b", 0)).await.unwrap();
    assert_eq!(run.show("job:b").await.unwrap().holder.unwrap().label.as_deref(), Some("a step"));
    assert_eq!(outcome(own.status("x").await), Outcome::Unauthorized);
    assert_eq!(outcome(own.session(&SessionRequest::default()).await), Outcome::Unauthorized);
    own.end_session().await.unwrap();
    assert_eq!(run.show("job:b").await.unwrap().outcome, Outcome::Free);
    assert_eq!(outcome(own.show("job:b").await), Outcome::Unauthorized);
    let own = run.session(&SessionRequest::default()).await.unwrap();
    own.acquire(&acquire("job:b", 0)).await.unwrap();
    office.desk.end_sessions().await;
    assert_eq!(run.show("job:b").await.unwrap().outcome, Outcome::Free);
}

#[tokio::test]
async fn a_run_is_shown_its_own_record_and_no_other() {
    let office = Office::open().await;
    let other = Office::on(&office.coord).await;
    let client = office.client();
    for name in [office.run.as_str(), "-"] {
        assert_eq!(client.run(name).await.unwrap().run, office.run);
    }
    assert_eq!(outcome(client.run(other.run.as_str()).await), Outcome::NotFound);
    assert_eq!(outcome(client.logs(other.run.as_str(), &LogQuery::default()).await), Outcome::NotFound);
    let follow = LogQuery { follow: true, ..LogQuery::default() };
    assert_eq!(outcome(client.logs("-", &follow).await), Outcome::Invalid);
    let own =
        client.session(&SessionRequest { label: Some("part".to_owned()), ..SessionRequest::default() }).await;
    assert_eq!(
        outcome(own.unwrap().run("-").await),
        Outcome::Unauthorized,
        "a session of a part has locks only"
    );
}
