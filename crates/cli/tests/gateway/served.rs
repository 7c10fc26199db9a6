//! A project whose daemon runs, and requests to it, written by hand so that wrong ones can be sent too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Place, Running};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A project whose daemon runs.
pub(crate) struct Served {
    /// Before the place: what still runs in a folder writes into it while it is removed.
    daemon: Option<Running>,
    pub(crate) place: Place,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    /// The key that the daemon made for the project's owner.
    pub(crate) key: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Served {
    /// A project with one agent, called `worker`, that does nothing and succeeds.
    pub(crate) fn new() -> Self {
        let place = Place::sqlite();
        place.agent("worker", "true", "");
        Self::of(place)
    }

    /// The project in this place. A port is chosen for it unless it has a `config.toml`.
    pub(crate) fn of(place: Place) -> Self {
        if !place.path("config.toml").exists() {
            place.write("config.toml", "[gateway]\nport = 0\n");
        }
        let mut served = Self { place, daemon: None, address: String::new(), key: String::new() };
        served.start();
        served
    }

    /// As above, with a wall clock that shows `moment` (RFC 3339) now.
    pub(crate) fn at(place: Place, moment: &str) -> Self {
        let daemon = place.up_at(moment);
        let mut served = Self { place, daemon: Some(daemon), address: String::new(), key: String::new() };
        served.find();
        served
    }

    /// Starts the daemon, which must not run.
    pub(crate) fn start(&mut self) {
        self.daemon = Some(self.place.up());
        self.find();
    }

    /// The project in this place, whose daemon somebody else looks after.
    pub(crate) fn beside(place: Place) -> Self {
        let mut served = Self { place, daemon: None, address: String::new(), key: String::new() };
        served.find();
        served
    }

    fn find(&mut self) {
        let read = |name| std::fs::read_to_string(self.place.path(name)).unwrap();
        let gateway: Value = serde_json::from_str(&read(".bell/gateway.json")).unwrap();
        let url = gateway["url"].as_str().unwrap();
        self.address = url.strip_prefix("http://").unwrap().to_owned();
        self.key = read(".bell/api-key").trim().to_owned();
    }

    pub(crate) fn daemon(&self) -> &Running {
        self.daemon.as_ref().unwrap()
    }

    /// Stops the daemon gracefully.
    pub(crate) fn stop(&mut self) {
        self.daemon.take().unwrap().stop();
    }

    /// The end of a daemon that stops by itself.
    pub(crate) fn end(&mut self) -> crate::support::Ran {
        self.daemon.take().unwrap().end()
    }

    /// Kills the daemon at once.
    pub(crate) fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    /// Looks, with the owner's key.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[("Authorization", &format!("Bearer {}", self.key))], b"")
    }

    /// Acts, with the owner's key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_as(&self.key, path, body)
    }

    /// Acts with this key or token.
    pub(crate) fn post_as(&self, bearer: &str, path: &str, body: &Value) -> Reply {
        let bearer = format!("Bearer {bearer}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.ask("POST", path, &headers, body.to_string().as_bytes())
    }

    /// Sends a request with these headers beside `Host`, `Content-Length` and `Connection: close`.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
        let answer = self.raw(&[head.as_bytes(), body].concat());
        Reply::parse(&answer).unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&answer)))
    }

    /// Sends these bytes and reads until the connection ends.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // A server that has read enough may answer and hang up before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// A connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Reply {
    /// Reads an answer; `None` if it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<(String, String)> = lines.filter_map(header).collect();
        let body = bytes[end + 4..].to_vec();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Some(Self { status, headers, body: if is_chunked { unchunked(&body) } else { body } })
    }

    /// The body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The header of this name, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// This answer, which must have that status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// This answer, which must be a refusal that says what happened, why, and what to do.
    pub(crate) fn refused(self, status: u16, code: &str) -> Self {
        let reply = self.expect(status);
        let body = reply.json();
        assert_eq!((&body["outcome"], &body["error"]["code"]), (&code.into(), &code.into()), "{body}");
        for field in ["message", "hint"] {
            assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{body}");
            assert_eq!(body[field], body["error"][field]);
        }
        reply
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size =
            std::str::from_utf8(&body[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size.filter(|size| *size > 0 && end + 2 + size <= body.len()) else { break };
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = body.get(end + 4 + size..).unwrap_or_default();
    }
    whole
}
