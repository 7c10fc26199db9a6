//! What is refused before anybody reads it, and clients that take their time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::served::{Reply, Served};
use crate::support::eventually;

/// Connections that send a byte now and then. With a thousand a machine of two cores shows nothing else.
const SLOW: usize = 600;

fn status(answer: &[u8]) -> Option<u16> {
    Reply::parse(answer).map(|reply| reply.status)
}

/// A head whose lines end as they should, with this `Host`.
fn head(served: &Served, first: &str, lines: &[&str]) -> Vec<u8> {
    let mut text = format!("{first}\r\nHost: {}\r\n", served.address);
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn resident_kb(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.daemon().pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_answered() {
    let served = Served::new();
    let host = &served.address;
    let get = "GET /healthz HTTP/1.1";
    let post = "POST /login HTTP/1.1";
    let smuggled = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let chunked = "Transfer-Encoding: chunked";
    let form = "Content-Type: application/x-www-form-urlencoded";
    let chunks = |text: &str| [head(&served, post, &[form, chunked]), text.as_bytes().to_vec()].concat();
    let raw = |text: String| text.into_bytes();
    let corpus: Vec<(&str, Vec<u8>)> = vec![
        ("length, then chunks", head(&served, post, &["Content-Length: 4", chunked])),
        ("chunks, then length", head(&served, post, &[chunked, "Content-Length: 4"])),
        ("two lengths that differ", head(&served, post, &["Content-Length: 4", "Content-Length: 5"])),
        ("two lengths that agree", head(&served, post, &["Content-Length: 4", "Content-Length: 4"])),
        ("a list of lengths", head(&served, post, &["Content-Length: 4, 4"])),
        ("a signed length", head(&served, post, &["Content-Length: +4"])),
        ("a length in hexadecimal", head(&served, post, &["Content-Length: 0x4"])),
        ("an empty length", head(&served, post, &["Content-Length:"])),
        ("a space before the colon", head(&served, post, &["Content-Length : 4"])),
        ("chunks twice", head(&served, post, &[chunked, chunked])),
        ("chunks that are packed", head(&served, post, &["Transfer-Encoding: gzip, chunked"])),
        ("chunks by another name", head(&served, post, &["Transfer-Encoding: xchunked"])),
        ("chunks after a tab of another kind", head(&served, post, &["Transfer-Encoding: \x0bchunked"])),
        ("a chunk with an extension", chunks("1;a=b\r\na\r\n0\r\n\r\n")),
        ("a chunk's size with a sign", chunks("+1\r\na\r\n0\r\n\r\n")),
        ("a chunk without its end", chunks("1\r\nab\r\n0\r\n\r\n")),
        ("fields after the chunks", chunks("1\r\na\r\n0\r\nX-A: b\r\n\r\n")),
        ("a folded field", head(&served, get, &["X-A: b", " c"])),
        ("a field folded with a tab", head(&served, get, &["X-A: b", "\tc: d"])),
        ("LF alone after the first line", raw(format!("{get}\nHost: {host}\r\n\r\n"))),
        ("LF alone after a field", raw(format!("{get}\r\nHost: {host}\n\r\n"))),
        ("LF alone at the end", raw(format!("{get}\r\nHost: {host}\r\n\n"))),
        ("CR alone in a field", raw(format!("{get}\r\nHost: {host}\r\nX-A: b\rX-B: c\r\n\r\n"))),
        ("NUL in a field", raw(format!("{get}\r\nHost: {host}\r\nX-A: b\0c\r\n\r\n"))),
        ("NUL in a name", raw(format!("{get}\r\nHost: {host}\r\nX\0A: b\r\n\r\n"))),
        ("NUL in the target", raw(format!("GET /healthz\0 HTTP/1.1\r\nHost: {host}\r\n\r\n"))),
        ("a field without a colon", head(&served, get, &["nonsense"])),
        ("a field without a name", head(&served, get, &[": b"])),
        ("a target that names the host", head(&served, &format!("GET http://{host}/healthz HTTP/1.1"), &[])),
        ("a target that names another", head(&served, "GET http://evil.example/healthz HTTP/1.1", &[])),
        ("an authority for a target", head(&served, &format!("GET {host} HTTP/1.1"), &[])),
        ("a tunnel", head(&served, &format!("CONNECT {host} HTTP/1.1"), &[])),
        ("two hosts", head(&served, get, &[&format!("Host: {host}")])),
        ("two hosts that differ", head(&served, get, &["Host: evil.example"])),
        ("no host", raw(format!("{get}\r\n\r\n"))),
        ("another protocol", raw(format!("GET /healthz HTTP/3.0\r\nHost: {host}\r\n\r\n"))),
        ("no protocol", raw(format!("GET /healthz\r\nHost: {host}\r\n\r\n"))),
        ("two spaces", raw(format!("GET  /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"))),
        ("a method that is none", raw(format!("G@T /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"))),
    ];
    for (what, bytes) in corpus {
        let whole = [bytes.as_slice(), smuggled.as_bytes()].concat();
        let mut stream = served.connect();
        let _ = stream.write_all(&whole);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(status(&answer), Some(400), "{what}: {:?}", String::from_utf8_lossy(&answer));
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.contains("alive"), "{what}: the rest was answered: {text}");
    }
    served.get("/healthz").expect(200);
}

#[test]
fn a_head_that_is_too_large_is_refused_before_it_has_arrived() {
    let served = Served::new();
    let long = "a".repeat(17 << 10);
    for line in [format!("X-Long: {long}"), format!("{long}: b")] {
        let answer = served.raw(&head(&served, "GET /healthz HTTP/1.1", &[&line]));
        assert_eq!(status(&answer), Some(431), "{:?}", String::from_utf8_lossy(&answer));
    }
    let many: Vec<String> = (0..200).map(|number| format!("X-{number}: b")).collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(status(&served.raw(&head(&served, "GET /healthz HTTP/1.1", &lines))), Some(431));
    let endless = served.raw(&[b"GET /".to_vec(), b"a".repeat(1 << 20)].concat());
    assert!(matches!(status(&endless), Some(414 | 431)), "{:?}", String::from_utf8_lossy(&endless));
}

#[test]
fn a_body_that_is_too_large_is_refused_at_once_and_takes_no_room() {
    let served = Served::new();
    served.get("/healthz").expect(200);
    let bearer = format!("Authorization: Bearer {}", served.key);
    let json = "Content-Type: application/json";
    let before = resident_kb(&served);
    // It says so beforehand: it is refused before a byte of it was sent.
    let announced = head(&served, "POST /v1/pause HTTP/1.1", &[&bearer, json, "Content-Length: 1073741824"]);
    assert_eq!(status(&served.raw(&announced)), Some(413));
    // It does not: it is refused once it is too large, however much would follow.
    let mut stream = served.connect();
    let chunked = head(&served, "POST /v1/pause HTTP/1.1", &[&bearer, json, "Transfer-Encoding: chunked"]);
    stream.write_all(&chunked).unwrap();
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x1_0000], b"\r\n".to_vec()].concat();
    let sent = (0..16_384).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 16_384, "a gigabyte was taken");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(matches!(status(&answer), Some(413) | None), "{:?}", String::from_utf8_lossy(&answer));
    let grown = resident_kb(&served).saturating_sub(before);
    assert!(grown < 64 << 10, "it grew by {grown} kB");
    served.get("/healthz").expect(200);
}

/// Sends a request that is refused before its body was read, all of it, and reads the answer.
fn send_in_vain(mut stream: impl Read + Write, request: &[u8]) -> Option<u16> {
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    status(&answer)
}

#[test]
fn who_still_sends_a_body_that_was_refused_reads_the_refusal_by_socket_and_by_port() {
    let served = Served::new();
    let mut request = head(&served, "POST /healthz HTTP/1.1", &["Content-Length: 1000000"]);
    request.resize(request.len() + 1_000_000, b'x');
    let socket = UnixStream::connect(served.place.path(".bell/bell.sock")).unwrap();
    assert_eq!(send_in_vain(socket, &request), Some(405));
    assert_eq!(send_in_vain(served.connect(), &request), Some(405));
}

#[test]
fn json_that_is_nested_too_deep_is_refused() {
    let served = Served::new();
    for depth in [65, 1_000, 100_000] {
        let nested =
            [b"{\"reason\":".to_vec(), b"[".repeat(depth), b"]".repeat(depth), b"}".to_vec()].concat();
        let bearer = format!("Bearer {}", served.key);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        served.ask("POST", "/v1/pause", &headers, &nested).refused(400, "invalid");
    }
}

/// Enough for the connections of this process, beside those of the tests that run with this one.
fn allow_connections() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 1_024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn clients_that_take_their_time_are_cut_off_and_hold_nobody_up() {
    allow_connections();
    let served = Served::new();
    let bearer = format!("Authorization: Bearer {}", served.key);
    let mut slow: Vec<TcpStream> = (0..SLOW).map(|_| served.connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.set_nonblocking(true).unwrap();
        let begun = match number % 3 {
            // Nothing at all, half a head, and half a body.
            0 => Vec::new(),
            1 => b"GET /healthz HTTP/1.1\r\nX-Slow: ".to_vec(),
            _ => {
                let lines = [bearer.as_str(), "Content-Type: application/json", "Content-Length: 1000"];
                head(&served, "POST /v1/pause HTTP/1.1", &lines)
            }
        };
        let _ = stream.write_all(&begun);
    }
    let mut open = slow.len();
    eventually("every slow client was cut off", || {
        for (number, stream) in slow.iter_mut().enumerate() {
            if number % 3 > 0 {
                let _ = stream.write_all(b" ");
            }
        }
        served.get("/healthz").expect(200);
        slow.retain_mut(|stream| !is_closed(stream));
        open = open.min(slow.len());
        std::thread::sleep(Duration::from_millis(500));
        open == 0
    });
}

#[test]
fn a_connection_that_is_idle_after_an_answer_is_closed() {
    let served = Served::new();
    let mut stream = served.connect();
    stream.write_all(&head(&served, "GET /healthz HTTP/1.1", &[])).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(status(&answer), Some(200));
}

#[test]
fn a_client_that_never_reads_its_answers_keeps_no_more_than_a_bufferful() {
    let served = Served::new();
    served.get("/openapi.json").expect(200);
    let before = resident_kb(&served);
    let mut streams: Vec<TcpStream> = (0..20).map(|_| served.connect()).collect();
    let request = head(&served, "GET /openapi.json HTTP/1.1", &[]);
    for stream in &mut streams {
        stream.set_nonblocking(true).unwrap();
        // As many as it takes; it stops reading requests once nobody takes the answers.
        let _ = stream.write_all(&request.repeat(2_000));
    }
    for _ in 0..10 {
        served.get("/healthz").expect(200);
    }
    let grown = resident_kb(&served).saturating_sub(before);
    assert!(grown < 64 << 10, "it grew by {grown} kB");
}
