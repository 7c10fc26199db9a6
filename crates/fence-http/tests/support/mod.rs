//! A client of a few lines, and a server in the test's own process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;

/// Long enough for a machine under any load: only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.headers["content-type"], "application/json", "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// One request on a connection of its own. `headers` are lines without their ends.
pub(crate) fn request(server: SocketAddr, line: &str, headers: &[&str], body: &[u8]) -> Answer {
    let mut stream = send(server, line, headers, body.len());
    // A server that has refused already may have closed: its answer is what matters.
    let _ = stream.write_all(body);
    answer(stream)
}

/// Sends everything but the body.
pub(crate) fn send(server: SocketAddr, line: &str, headers: &[&str], length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

pub(crate) fn answer(mut stream: TcpStream) -> Answer {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

pub(crate) fn put(server: SocketAddr, path: &str, fence: u64, body: &str) -> Answer {
    request(server, &format!("PUT {path}"), &[&format!("x-fence: {fence}")], body.as_bytes())
}

pub(crate) fn get(server: SocketAddr, path: &str) -> Answer {
    request(server, &format!("GET {path}"), &[], b"")
}

/// A server on a runtime of its own. Dropped, it is gone.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) fn serving<F: Future<Output = Router>>(router: F) -> Serving {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (address, listener, router) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        (listener.local_addr().unwrap(), listener, router.await)
    });
    runtime.spawn(async move { axum::serve(listener, router).await });
    Serving { address, _runtime: runtime }
}
