//! What wrong input gets: a 4xx with the reason and what to do next, and nothing is stored.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bell_store::Store;
use serde_json::Value;
use support::{Office, acquire};

const JSON: &str = "Content-Type: application/json\r\n";

/// Everything that is stored.
async fn stored(office: &Office) -> u64 {
    let store: &dyn Store = office.coord.store().as_ref();
    store.read(&[]).await.unwrap().revision
}

/// Sends it, and checks that it is refused with this status in words that help.
async fn refused(office: &Office, line: &str, headers: &str, body: &str, status: u16) {
    let before = stored(office).await;
    let (got, text) = office.send(line, headers, body).await;
    let sent = format!("{line} {headers:?} {}", body.chars().take(80).collect::<String>());
    assert_eq!(got, status, "{sent}: {text}");
    let (_, answer) = text.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {text}"));
    for field in ["outcome", "message", "hint"] {
        assert!(answer[field].as_str().is_some_and(|words| !words.is_empty()), "{sent}: {text}");
    }
    assert_eq!(stored(office).await, before, "{sent} stored something");
}

#[tokio::test]
async fn bodies_that_are_no_requests_are_refused() {
    let office = Office::open().await;
    let deep =
        format!(r#"{{"agent":"helper","request_id":"r","context":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    let cases: &[(&str, &str, u16)] = &[
        ("/v1/locks/acquire", "", 400),
        ("/v1/locks/acquire", "{", 400),
        ("/v1/locks/acquire", "not json", 400),
        ("/v1/locks/acquire", "[]", 400),
        ("/v1/locks/acquire", "\"keys\"", 400),
        ("/v1/locks/acquire", r#"{"keys":[],"request_id":"r"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["no key"],"request_id":"r"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":"job:a","request_id":"r"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"]}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"a b"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":""}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","mode":"greedy"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","ttl_ms":1}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","ttl_ms":-5}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","wait_ms":1e400}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","wait_ms":999999999999}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"request_id":"r","waitms":5}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["job:a"],"keys":["job:b"],"request_id":"r"}"#, 400),
        ("/v1/locks/acquire", r#"{"keys":["bell://fleet/nodes"],"request_id":"r"}"#, 403),
        ("/v1/locks/renew", r#"{"key":"job:a"}"#, 404),
        ("/v1/locks/release", r#"{"key":"job:a"}"#, 404),
        ("/v1/locks/release", r#"{"key":"job:a","fence":"1"}"#, 400),
        ("/v1/run/status", r#"{"text":5}"#, 400),
        ("/v1/run/status", r#"{"text":"x","colour":"blue"}"#, 400),
        ("/v1/run/exit", r#"{"code":256}"#, 400),
        ("/v1/run/rerun", r#"{"now":true}"#, 400),
        ("/v1/calls", r#"{"agent":"nobody","request_id":"r"}"#, 400),
        ("/v1/calls", r#"{"agent":"worker","request_id":"r"}"#, 400),
        ("/v1/calls", r#"{"agent":"../x","request_id":"r"}"#, 400),
        ("/v1/calls", &deep, 400),
        ("/v1/sessions/end", "{}", 400),
        ("/v1/nowhere", "{}", 404),
    ];
    for (path, body, status) in cases {
        refused(&office, &format!("POST {path}"), JSON, body, *status).await;
    }
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(70_000));
    refused(&office, "POST /v1/run/status", JSON, &long, 400).await;
}

#[tokio::test]
async fn methods_types_queries_and_headers_that_are_wrong_are_refused() {
    let office = Office::open().await;
    let body = r#"{"keys":["job:a"],"request_id":"r"}"#;
    refused(&office, "GET /v1/locks/acquire", JSON, body, 405).await;
    refused(&office, "DELETE /v1/locks", "", "", 405).await;
    for headers in
        ["", "Content-Type: text/plain\r\n", &format!("{JSON}{JSON}"), "Content-Type: application/jsonx\r\n"]
    {
        refused(&office, "POST /v1/locks/acquire", headers, body, 415).await;
    }
    let token = office.token();
    refused(&office, "POST /v1/run/rerun", &format!("{JSON}Authorization: Bearer {token}\r\n"), "{}", 400)
        .await;
    for query in ["", "?key=", "?key=job:a&key=job:b", "?colour=blue", "?key=no%20key"] {
        refused(&office, &format!("GET /v1/locks/show{query}"), "", "", 400).await;
    }
    for query in ["?limit=many", "?after=x", "?prefix=a&prefix=b"] {
        refused(&office, &format!("GET /v1/locks{query}"), "", "", 400).await;
    }
    refused(&office, "GET /v1/locks/changes?after=0&wait_ms=soon", "", "", 400).await;
    refused(&office, "GET /v1/calls/nothing", "", "", 404).await;
    refused(&office, "GET /v1/calls/..%2F..", "", "", 404).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_read() {
    let office = Office::open().await;
    let token = office.token();
    let before = stored(&office).await;
    let head = |length: &str| {
        format!(
            "POST /v1/run/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{JSON}{length}\r\n\r\n"
        )
    };
    let (status, text) = office.raw(head("Content-Length: 99999999999").as_bytes()).await;
    assert_eq!(status, 413, "{text}");
    let mut endless = head("Transfer-Encoding: chunked").into_bytes();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..20 {
        endless.extend_from_slice(chunk.as_bytes());
    }
    let (status, text) = office.raw(&endless).await;
    assert_eq!(status, 413, "{text}");
    assert_eq!(stored(&office).await, before);
}

#[tokio::test]
async fn heads_that_are_too_large_or_can_be_read_in_two_ways_are_refused() {
    let office = Office::open().await;
    let token = office.token();
    let request = |headers: &str| {
        format!(
            "POST /v1/run/rerun HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{JSON}{headers}\r\n\r\n{{}}"
        )
    };
    let huge = format!("X-Filler: {}\r\nContent-Length: 2", "x".repeat(20 << 10));
    let (status, _) = office.raw(request(&huge).as_bytes()).await;
    assert_eq!(status, 431);
    for smuggled in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Content-Length: 2\r\nContent-Length: 3",
        "Transfer-Encoding: identity, x",
        "Content-Length: two",
        " Folded: yes\r\nContent-Length: 2",
    ] {
        let (status, text) = office.raw(request(smuggled).as_bytes()).await;
        assert_eq!(status, 400, "{smuggled}: {text}");
    }
}

#[tokio::test]
async fn more_than_a_run_may_have_is_refused_and_others_are_unharmed() {
    let office = Office::open().await;
    let client = office.client();
    for i in 0..1_000 / 16 {
        let keys = (0..16).map(|j| format!("job:{i}-{j}")).collect();
        client.acquire(&bell_api::ask::AcquireRequest { keys, ..acquire("job:x", 0) }).await.unwrap();
    }
    for i in 0..8 {
        client.acquire(&acquire(&format!("job:rest-{i}"), 0)).await.unwrap();
    }
    let (status, text) = office.post("/v1/locks/acquire", r#"{"keys":["job:over"],"request_id":"r"}"#).await;
    assert_eq!(status, 429, "{text}");
    let release = bell_api::ask::ReleaseRequest { key: "job:rest-0".to_owned(), fence: None };
    client.release(&release).await.unwrap();
    client.acquire(&acquire("job:over", 0)).await.unwrap();
    let other = Office::on(&office.coord).await;
    other.client().acquire(&acquire("job:others", 0)).await.unwrap();
}
