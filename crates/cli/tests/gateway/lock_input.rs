//! What wrong requests for locks get from the daemon: a 4xx that says what to do, and nothing is stored.

use serde_json::{Value, json};

use crate::outsider::Outsider;
use crate::served::{Reply, Served};
use crate::support::{bare_command, finish};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Everything that locks and sessions have in the store. The daemon's own session is heard of all the time, so it is
/// the names that count.
fn stored(served: &Served) -> Vec<String> {
    served.place.names(&["lock/", "session/", "held/"])
}

fn send(
    served: &Served,
    bearer: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let bearer = format!("Bearer {bearer}");
    let mut all = vec![("Authorization", bearer.as_str())];
    all.extend(headers);
    served.ask(method, path, &all, body)
}

fn check(reply: Reply, status: u16, sent: &str) {
    assert_eq!(reply.status, status, "{sent}: {}", String::from_utf8_lossy(&reply.body));
    let body = reply.json();
    for field in ["outcome", "message", "hint"] {
        assert!(body[field].as_str().is_some_and(|words| !words.is_empty()), "{sent}: {body}");
    }
    assert_eq!(body["error"]["code"], body["outcome"], "{sent}: {body}");
}

#[test]
fn bodies_that_are_no_requests_are_refused() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    let deep = format!(r#"{{"keys":{}{},"request_id":"r"}}"#, "[".repeat(100), "]".repeat(100));
    let many: Vec<String> = (0..17).map(|number| format!("job:{number}")).collect();
    let many = json!({ "keys": many, "request_id": "r" }).to_string();
    let acquire = "/v1/locks/acquire";
    let cases: &[(&str, &[u8], u16)] = &[
        (acquire, b"", 400),
        (acquire, b"{", 400),
        (acquire, b"[]", 400),
        (acquire, b"null", 400),
        (acquire, b"\xff\xfe{}", 400),
        (acquire, b"{\"keys\":[\"job:\xff\"],\"request_id\":\"r\"}", 400),
        (acquire, br#"{"keys":[],"request_id":"r"}"#, 400),
        (acquire, br#"{"keys":["no key"],"request_id":"r"}"#, 400),
        (acquire, br#"{"keys":"job:a","request_id":"r"}"#, 400),
        (acquire, br#"{"keys":["job:a"]}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"a b"}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"r","mode":"greedy"}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"r","ttl_ms":1}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"r","ttl_ms":604800001}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"r","wait_ms":604800001}"#, 400),
        (acquire, br#"{"keys":["job:a"],"request_id":"r","colour":"blue"}"#, 400),
        (acquire, br#"{"keys":["job:a"],"keys":["job:b"],"request_id":"r"}"#, 400),
        (acquire, many.as_bytes(), 400),
        (acquire, deep.as_bytes(), 400),
        ("/v1/locks/renew", br#"{"key":"job:a"}"#, 404),
        ("/v1/locks/renew", br#"{"key":5}"#, 400),
        ("/v1/locks/release", br#"{"key":"job:a"}"#, 404),
        ("/v1/locks/release", br#"{"key":"job:a","fence":-1}"#, 400),
        ("/v1/locks/leave", br#"{"request_id":""}"#, 400),
        ("/v1/sessions/heartbeat", br#"{"ttl_ms":5}"#, 400),
        ("/v1/sessions/end", b"5", 400),
        ("/v1/locks/nowhere", b"{}", 404),
    ];
    let before = stored(&served);
    for (path, body, status) in cases {
        let sent = format!("{path} {}", String::from_utf8_lossy(body).chars().take(80).collect::<String>());
        check(send(&served, &ann.token, "POST", path, &[JSON], body), *status, &sent);
    }
    let long = "x".repeat(201);
    let requests = [
        json!({ "label": long }),
        json!({ "node": long }),
        json!({ "label": 5 }),
        json!({ "ttl_ms": 4_999 }),
        json!({ "ttl_ms": 86_400_001 }),
        json!({ "pid": -1 }),
        json!({ "detached": true, "ttl_ms": 15_000 }),
        json!({ "agent": "worker" }),
        json!({ "token": "mine" }),
    ];
    for request in requests {
        check(served.post("/v1/sessions", &request), 400, &request.to_string());
    }
    assert_eq!(stored(&served), before, "nothing was stored");
}

#[test]
fn methods_types_queries_and_headers_that_are_wrong_are_refused() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    let body = br#"{"keys":["job:a"],"request_id":"r"}"#;
    let before = stored(&served);
    for (method, path) in [
        ("GET", "/v1/locks/acquire"),
        ("DELETE", "/v1/locks"),
        ("PUT", "/v1/sessions"),
        ("POST", "/v1/sessions/hold"),
    ] {
        check(send(&served, &ann.token, method, path, &[JSON], body), 405, path);
    }
    let text = ("Content-Type", "text/plain");
    for headers in [&[][..], &[text], &[JSON, JSON], &[("Content-Type", "application/json; charset=latin1")]]
    {
        check(
            send(&served, &ann.token, "POST", "/v1/locks/acquire", headers, body),
            415,
            &format!("{headers:?}"),
        );
    }
    let twice = format!("Bearer {}", ann.token);
    let twice = [JSON, ("Authorization", twice.as_str())];
    check(send(&served, &ann.token, "POST", "/v1/locks/acquire", &twice, body), 400, "two tokens");
    let queries = [
        "/v1/locks/show",
        "/v1/locks/show?key=",
        "/v1/locks/show?key=job:a&key=job:b",
        "/v1/locks/show?key=%ff",
        "/v1/locks?limit=many",
        "/v1/locks?colour=blue",
        "/v1/locks/changes?after=soon",
        "/v1/locks/watch?after=soon",
        "/v1/locks/watch?colour=blue",
    ];
    for path in queries {
        check(ann.get(path), 400, path);
    }
    let last = [("Last-Event-ID", "yesterday")];
    check(send(&served, &ann.token, "GET", "/v1/locks/watch", &last, b""), 400, "Last-Event-ID");
    assert_eq!(stored(&served), before, "nothing was stored");
}

#[test]
fn tokens_that_prove_nothing_are_refused() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    let bob = Outsider::new(&served, "bob");
    let secret = bob.token.split_once('.').unwrap().1;
    let foreign = [
        (format!("{}.{secret}", ann.id), 401),
        (format!("{}.{}", ann.id, "0".repeat(64)), 401),
        (format!("nobody.{secret}"), 410),
        (ann.id.clone(), 401),
        (format!("{}x", ann.token), 401),
        (String::new(), 401),
    ];
    let before = stored(&served);
    for (token, status) in foreign {
        check(
            served.post_as(&token, "/v1/locks/acquire", &json!({ "keys": ["job:a"], "request_id": "r" })),
            status,
            &token,
        );
        check(served.post_as(&token, "/v1/sessions/end", &json!({})), status, &token);
    }
    assert_eq!(stored(&served), before, "nothing was stored");
    ann.heartbeat().expect(200);
}

#[test]
fn a_body_that_is_too_large_or_never_ends_is_not_read() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    let before = stored(&served);
    let head = |length: &str| {
        format!(
            "POST /v1/locks/acquire HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\n{length}\r\n\r\n",
            served.address, ann.token
        )
    };
    let announced = Reply::parse(&served.raw(head("Content-Length: 99999999999").as_bytes())).unwrap();
    check(announced, 413, "a length that is too large");
    let mut endless = head("Transfer-Encoding: chunked").into_bytes();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    (0..20).for_each(|_| endless.extend_from_slice(chunk.as_bytes()));
    check(Reply::parse(&served.raw(&endless)).unwrap(), 413, "a body without an end");
    assert_eq!(stored(&served), before, "nothing was stored");
}

#[test]
fn one_session_may_not_have_everything() {
    let served = Served::new();
    let greedy = Outsider::new(&served, "greedy");
    let keys =
        |from: usize, to: usize| (from..to).map(|number| format!("job:{number}")).collect::<Vec<String>>();
    let ask = |from: usize, to: usize| json!({ "keys": keys(from, to), "request_id": format!("r{from}") });
    for from in (0..1_000).step_by(16) {
        greedy.acquire(&ask(from, (from + 16).min(1_000))).expect(200);
    }
    let refused = greedy.try_lock("job:one-more", "x").refused(429, "limit");
    assert!(refused.header("retry-after").is_some(), "a lease may end by then");
    greedy.try_lock("job:7", "again").expect(200);
    greedy.release("job:7").expect(200);
    greedy.try_lock("job:one-more", "y").expect(200);

    let other = Outsider::new(&served, "other");
    let wait =
        |number: usize| json!({ "keys": ["job:1"], "request_id": format!("w{number}"), "wait_ms": 600_000 });
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..64)
            .map(|number| {
                scope.spawn({
                    let (other, wait) = (&other, &wait);
                    move || other.acquire(&wait(number))
                })
            })
            .collect();
        crate::support::eventually("all of them wait", || {
            let shown: Value = served.get("/v1/locks/show?key=job:1").json();
            shown["waiting"] == 64
        });
        let refused = other.acquire(&wait(64)).refused(429, "limit");
        assert!(refused.header("retry-after").is_some(), "a wait may end by then");
        greedy.end().expect(200);
        for wait in waits {
            wait.join().unwrap().expect(200);
        }
    });
}

#[test]
fn all_sessions_of_one_key_may_not_have_everything_and_other_keys_are_unharmed() {
    const MOST: usize = 24_000;
    let served = Served::new();
    let ask = |from: usize| {
        let keys: Vec<String> = (from..from + 16).map(|number| format!("job:{number}")).collect();
        json!({ "keys": keys, "request_id": format!("r{from}") })
    };
    // A thousand for each, as far as the key goes.
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (served, ask) = (&served, &ask);
            scope.spawn(move || {
                for first in (half * MOST / 2..(half + 1) * MOST / 2).step_by(960) {
                    let session = Outsider::new(served, "greedy");
                    for from in (first..(first + 960).min((half + 1) * MOST / 2)).step_by(16) {
                        session.acquire(&ask(from)).expect(200);
                    }
                }
            });
        }
    });
    let one_more = Outsider::new(&served, "greedy");
    let reply = one_more.try_lock("job:one-more", "x").refused(429, "limit");
    assert!(reply.header("retry-after").is_some());
    assert!(reply.json()["message"].as_str().unwrap().contains("the key local holds 24000"), "{reply:?}");
    let run = |key: &str| {
        let mut command = bare_command();
        command.env("BELL_API_KEY", key).args(["--url", &format!("http://{}", served.address)]);
        command.env("HOME", served.place.path("home")).env("XDG_STATE_HOME", served.place.path("state"));
        command.args(["lock", "run", "job:another", "--", "true"]);
        finish(command)
    };
    let refused = run(&served.key).expect(10);
    assert!(refused.err.contains("that is the most"), "{refused:?}");
    let other = served.place.json(&["keys", "add", "other"])["key"].as_str().unwrap().to_owned();
    run(&other).expect(0);
}
