//! A program outside of any run, which takes locks over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::served::{Reply, Served};

/// A session, and whom it talks to.
pub(crate) struct Outsider<'a> {
    served: &'a Served,
    pub(crate) id: String,
    pub(crate) token: String,
}

impl<'a> Outsider<'a> {
    /// A session of this label, made with the owner's key.
    pub(crate) fn new(served: &'a Served, label: &str) -> Self {
        Self::with(served, &json!({ "label": label }))
    }

    /// A session that asks for more than a label.
    pub(crate) fn with(served: &'a Served, request: &Value) -> Self {
        let made = served.post("/v1/sessions", request).expect(200).json();
        let text = |field: &str| made[field].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        Self { served, id: text("session"), token: text("token") }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.served.post_as(&self.token, path, body)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.served.ask("GET", path, &[("Authorization", &format!("Bearer {}", self.token))], b"")
    }

    /// Asks for one key, without waiting, under this request id.
    pub(crate) fn try_lock(&self, key: &str, request: &str) -> Reply {
        self.acquire(&json!({ "keys": [key], "request_id": request }))
    }

    /// Asks for one key and waits for it, as long as it takes.
    pub(crate) fn wait_for(&self, key: &str, request: &str) -> Value {
        let ask = json!({ "keys": [key], "request_id": request, "wait_ms": 120_000 });
        loop {
            let answer = self.acquire(&ask);
            if answer.status != 202 {
                return answer.expect(200).json();
            }
        }
    }

    pub(crate) fn acquire(&self, request: &Value) -> Reply {
        self.post("/v1/locks/acquire", request)
    }

    /// Sends a request for locks and reads no answer: the connection is the caller's to drop.
    pub(crate) fn send_acquire(&self, request: &Value) -> TcpStream {
        let mut connection = self.served.connect();
        let body = request.to_string();
        let head = format!(
            "POST /v1/locks/acquire HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.served.address,
            self.token,
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
        connection
    }

    pub(crate) fn release(&self, key: &str) -> Reply {
        self.post("/v1/locks/release", &json!({ "key": key }))
    }

    pub(crate) fn heartbeat(&self) -> Reply {
        self.post("/v1/sessions/heartbeat", &json!({}))
    }

    pub(crate) fn end(&self) -> Reply {
        self.post("/v1/sessions/end", &json!({}))
    }

    /// A stream of events at this path.
    pub(crate) fn follow(&self, path: &str) -> Stream {
        Stream::open(self.served, &self.token, path, None)
    }
}

/// A stream of events, as its reader has it.
pub(crate) struct Stream(BufReader<TcpStream>);

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Stream {
    /// Opens a stream; with `last`, after that event.
    pub(crate) fn open(served: &Served, bearer: &str, path: &str, last: Option<&str>) -> Self {
        let mut stream = served.connect();
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {bearer}\r\n{last}\r\n",
            served.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        Self(reader)
    }

    /// The next event; comments are passed over.
    pub(crate) fn next(&mut self) -> Event {
        let mut event = Event { name: String::new(), id: None, data: Value::Null };
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            // The lines of the head and of chunks are no fields of an event.
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("data", data)) => {
                    event.data = serde_json::from_str(data).unwrap();
                    return event;
                }
                _ => {}
            }
        }
    }
}
