//! `bell fence serve` with the real binary and requests over loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use support::{Place, Running};

const LOCAL: [&str; 4] = ["fence", "serve", "--listen", "127.0.0.1:0"];
const PATH: &str = "/fenced/deploy:%2F%2Fapi-prod";

/// The server, and the address that it says it has.
fn serve(place: &Place) -> (Running, String) {
    let mut server = place.start(&LOCAL);
    let line = server.line();
    let address = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
    (server, address)
}

/// Status and body of the answer to one request.
fn ask(address: &str, line: &str, header: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}{header}\r\n{body}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn put(address: &str, fence: u64, body: &str) -> (u16, String) {
    ask(address, &format!("PUT {PATH}"), &format!("x-fence: {fence}\r\n"), body)
}

#[test]
fn a_stale_write_is_refused_also_after_the_server_was_killed() {
    for place in Place::each() {
        let (server, address) = serve(&place);
        assert_eq!(put(&address, 7, "seven").0, 200);
        assert_eq!(put(&address, 6, "six").0, 412);
        server.kill();
        let (_server, address) = serve(&place);
        let (status, refused) = put(&address, 6, "six");
        assert_eq!(status, 412);
        let refused: serde_json::Value = serde_json::from_str(&refused).unwrap();
        assert_eq!((&refused["outcome"], &refused["seen_fence"]), (&"stale".into(), &7.into()));
        assert_eq!(ask(&address, &format!("GET {PATH}"), "", ""), (200, "seven".to_owned()));
    }
}

#[test]
fn it_stops_cleanly_when_it_is_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::sqlite();
        let (server, address) = serve(&place);
        assert_eq!(put(&address, 1, "one").0, 200);
        server.signal(signal);
        let ran = server.end().expect(0);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
        assert!(TcpStream::connect(&address).is_err());
    }
}

#[test]
fn a_client_that_sends_nothing_does_not_keep_it_from_stopping() {
    let place = Place::sqlite();
    let (server, address) = serve(&place);
    let mut idle = TcpStream::connect(&address).unwrap();
    idle.write_all(b"PUT /fenced/x:y HTTP/1.1\r\nhost: x\r\nx-fence: 1\r\ncontent-length: 9\r\n\r\nhalf")
        .unwrap();
    // Answered, so the one before has arrived as well.
    assert_eq!(put(&address, 1, "one").0, 200);
    server.signal(Signal::TERM);
    server.end().expect(0);
}

#[test]
fn it_tells_its_address_and_store_as_json() {
    let place = Place::sqlite();
    let mut server = place.start(&[&["--json"], LOCAL.as_slice()].concat());
    let line: serde_json::Value = serde_json::from_str(&server.line()).unwrap();
    assert!(line["listening"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{line}");
    assert_eq!(line["store"], place.url);
}

#[test]
fn wrong_addresses_are_refused_with_the_reason() {
    let place = Place::sqlite();
    let public = place.run(&["fence", "serve", "--listen", "0.0.0.0:0"]).expect(4);
    assert!(
        public.err.contains("nobody is asked who they are") && public.err.contains("--public"),
        "{public:?}"
    );
    let wrong = place.run(&["fence", "serve", "--listen", "localhost"]).expect(4);
    assert!(wrong.err.contains("127.0.0.1:7777"), "{wrong:?}");
    let (_server, address) = serve(&place);
    let taken = place.run(&["fence", "serve", "--listen", &address]).expect(5);
    assert!(taken.err.contains("hint: Choose another port"), "{taken:?}");
}
