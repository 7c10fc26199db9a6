//! The reference sink, over HTTP.

mod support;

use std::io::Write;
use std::sync::Arc;
use std::thread;

use bell_fence_http::sink::VALUE_BYTES_MAX;
use bell_store::memory::Memory;
use support::{Serving, get, put, request, send, serving};

const PATH: &str = "/fenced/deploy:%2F%2Fapi-prod";

fn sink() -> Serving {
    serving(async { bell_fence_http::sink(Arc::new(Memory::new())) })
}

#[test]
fn a_value_is_stored_with_its_fence_and_a_stale_write_changes_nothing() {
    let server = sink();
    let none = get(server.address, PATH).expect(404).json();
    assert_eq!((&none["outcome"], &none["key"]), (&"not_found".into(), &"deploy://api-prod".into()));
    let written = put(server.address, PATH, 7, "v7").expect(200).json();
    assert_eq!((&written["outcome"], &written["fence"]), (&"written".into(), &7.into()));
    for fence in 0..7 {
        let stale = put(server.address, PATH, fence, "stale").expect(412).json();
        assert_eq!((&stale["fence"], &stale["seen_fence"]), (&fence.into(), &7.into()));
    }
    put(server.address, PATH, u64::MAX, "last").expect(200);
    let kept = get(server.address, PATH).expect(200);
    assert_eq!((kept.body.as_str(), kept.headers["x-fence"].as_str()), ("last", "18446744073709551615"));
    assert_eq!(kept.headers["content-type"], "application/octet-stream");
}

#[test]
fn two_spellings_of_a_key_are_one_value() {
    let server = sink();
    put(server.address, "/fenced/DEPLOY:%2F%2FAPI-prod%2F", 7, "x").expect(200);
    put(server.address, PATH, 6, "stale").expect(412);
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let server = sink();
    let cases: [(&str, &[&str], u16); 7] = [
        ("PUT /fenced/deploy:%2F%2Fx", &[], 428),
        ("PUT /fenced/deploy:%2F%2Fx", &["x-fence: one"], 400),
        ("PUT /fenced/deploy:%2F%2Fx", &["x-fence: 1", "X-Fence: 2"], 400),
        ("PUT /fenced/no-key", &["x-fence: 1"], 400),
        ("PUT /fenced/%ff", &["x-fence: 1"], 400),
        ("GET /fenced/no-key", &[], 400),
        ("DELETE /fenced/deploy:%2F%2Fx", &["x-fence: 1"], 405),
    ];
    for (line, headers, status) in cases {
        let answer = request(server.address, line, headers, b"").expect(status).json();
        assert_eq!(answer["outcome"], "invalid", "{line}");
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["message"]), (&answer["outcome"], &answer["message"]), "{answer}");
        assert!(answer["message"].is_string() && error["hint"].is_string(), "{answer}");
    }
    get(server.address, "/fenced/deploy:%2F%2Fx").expect(404);
    let nowhere = get(server.address, "/elsewhere").expect(404).json();
    assert_eq!(nowhere["error"]["code"], "not_found", "{nowhere}");
}

#[test]
fn a_value_may_have_as_many_bytes_as_any_store_takes() {
    let server = sink();
    let largest = "x".repeat(VALUE_BYTES_MAX);
    put(server.address, PATH, 1, &largest).expect(200);
    assert_eq!(get(server.address, PATH).expect(200).body.len(), VALUE_BYTES_MAX);
    // Refused by what it says of itself, before it is sent.
    let refused =
        support::answer(send(server.address, &format!("PUT {PATH}"), &["x-fence: 2"], VALUE_BYTES_MAX + 1));
    assert_eq!(refused.expect(413).json()["outcome"], "invalid");
}

#[test]
fn a_client_that_goes_away_in_the_middle_writes_nothing() {
    let server = sink();
    let mut gone = send(server.address, &format!("PUT {PATH}"), &["x-fence: 9"], 100);
    gone.write_all(b"half").unwrap();
    drop(gone);
    put(server.address, PATH, 1, "whole").expect(200);
    assert_eq!(get(server.address, PATH).expect(200).body, "whole");
}

#[test]
fn writers_at_once_leave_the_value_of_the_highest_fence() {
    let server = sink();
    let address = server.address;
    let writers: Vec<_> = (1..=24_u64)
        .map(|fence| thread::spawn(move || put(address, PATH, fence, &fence.to_string()).status))
        .collect();
    for writer in writers {
        assert!([200, 412].contains(&writer.join().unwrap()));
    }
    let kept = get(address, PATH).expect(200);
    assert_eq!((kept.body.as_str(), kept.headers["x-fence"].as_str()), ("24", "24"));
}
