//! A trace from the trigger to the exit of its agent reaches a collector. Needs the feature `otel`.

#![cfg(feature = "otel")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "support/fleet.rs"]
mod fleet;
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use support::{Place, start};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes one request as a collector does, and answers its head and body.
fn collect(collector: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = collector.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (head, mut body) = head(&mut stream);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let mut rest = vec![0; length.unwrap() - body.len()];
    stream.read_exact(&mut rest).unwrap();
    body.append(&mut rest);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    (head, body)
}

/// The head of a request in lower case, and what came of its body with it.
fn head(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window: &[u8]| window == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return (String::from_utf8(bytes).unwrap().to_ascii_lowercase(), body);
        }
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the request ends before its body");
        bytes.extend_from_slice(&part[..count]);
    }
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_run_is_told_to_the_collector_under_the_id_of_its_job() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::sqlite();
    place.agent("worker", "exit 3", "");
    place.write("config.toml", "[gateway]\nport = 0\n");
    let mut up = place.command(&["--json", "up"]);
    up.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.local_addr().unwrap()));
    let mut daemon = start(up);
    daemon.line();
    let job = place.ask("worker");
    let (head, body) = collect(&collector);
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    let trace: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&job[2 * at..2 * at + 2], 16).unwrap()).collect();
    assert!(has(&body, &trace), "the trace has the id of the job");
    for part in ["trigger", "queue", "run", "agent", "bell.outcome", "failed", "worker"] {
        assert!(has(&body, part.as_bytes()), "{part} is told");
    }
    daemon.stop();
}
