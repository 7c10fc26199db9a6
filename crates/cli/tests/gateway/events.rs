//! What happens and what runs print, followed over HTTP: nothing missed, nothing twice.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::WAIT;
use crate::schema::Document;
use crate::served::Served;
use crate::support::{Place, eventually};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reader of a stream that comes back where it was.
struct Reader {
    address: String,
    key: String,
    path: String,
    last: Option<String>,
    stream: Option<BufReader<TcpStream>>,
}

impl Reader {
    fn new(served: &Served, path: &str) -> Self {
        let (address, key) = (served.address.clone(), served.key.clone());
        Self { address, key, path: path.to_owned(), last: None, stream: None }
    }

    /// Opens the stream, as soon as somebody is there.
    fn connect(&mut self) {
        eventually("the stream opens", || {
            self.stream = self.attempt();
            self.stream.is_some()
        });
    }

    fn attempt(&self) -> Option<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let last = self.last.as_ref().map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let (path, address, key) = (&self.path, &self.address, &self.key);
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).ok()?;
        assert!(status.is_empty() || status.starts_with("HTTP/1.1 200"), "{status}");
        (!status.is_empty()).then_some(reader)
    }

    fn cut(&mut self) {
        self.stream = None;
    }

    /// The next event's name and data; connects first, and again if the stream ends.
    fn next(&mut self) -> (String, Value) {
        loop {
            if self.stream.is_none() {
                self.connect();
            }
            match self.read() {
                Some(event) => return event,
                None => self.cut(),
            }
        }
    }

    /// The next event of this connection; `None` when it has ended.
    fn read(&mut self) -> Option<(String, Value)> {
        let (mut name, mut id, mut line) = (String::new(), None, String::new());
        loop {
            line.clear();
            if self.stream.as_mut()?.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // The lines of the head and of chunks are no fields of an event.
            match line.trim_end().split_once(": ") {
                Some(("event", said)) => said.clone_into(&mut name),
                Some(("id", said)) => {
                    id = Some(said.to_owned());
                    // One that has no data counts too.
                    self.last.clone_from(&id);
                }
                Some(("data", said)) => {
                    let data: Value = serde_json::from_str(said).ok()?;
                    assert!(id.is_some());
                    return Some((name, data));
                }
                _ => {}
            }
        }
    }
}

/// A project that keeps its port, and does nothing by itself.
fn paused() -> Served {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "work_queue_size = 1000\n");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", free.port()));
    let served = Served::of(place);
    served.post("/v1/pause", &json!({})).expect(200);
    served
}

#[test]
fn a_reader_that_comes_back_ten_times_hears_everything_once_and_in_order() {
    const EVENTS: usize = 200;
    let mut served = paused();
    let mut reader = Reader::new(&served, "/v1/events?kinds=trigger");
    // Positions are good from the moment that the stream is open.
    reader.connect();
    let mut jobs = Vec::new();
    let heard = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut heard = Vec::new();
            while heard.len() < EVENTS {
                let (name, event) = reader.next();
                assert_eq!((name.as_str(), &event["id"]), ("trigger", &Value::from(reader.last.clone())));
                heard.push(event["job"].as_str().unwrap().to_owned());
                if heard.len() % (EVENTS / 10) == 0 {
                    reader.cut();
                }
            }
            heard
        });
        for number in 0..EVENTS {
            if number == EVENTS / 2 {
                served.kill();
                served.start();
            }
            let done = served.post("/v1/agents/worker/run", &json!({})).expect(200).json();
            jobs.push(done["job"].as_str().unwrap().to_owned());
        }
        reading.join().unwrap()
    });
    assert_eq!(heard, jobs);
}

#[test]
fn only_what_is_wanted_is_heard_and_streams_end_when_the_daemon_stops() {
    let mut served = paused();
    let mut reader = Reader::new(&served, "/v1/events?agent=worker&kinds=pause&since_ms=0");
    reader.connect();
    served.post("/v1/agents/worker/run", &json!({})).expect(200);
    served.post("/v1/pause", &json!({ "agent": "worker", "reason": "tea" })).expect(200);
    let (first, second) = (reader.next().1, reader.next().1);
    assert_eq!(first.get("agent"), None, "the whole fleet is also this agent: {first}");
    assert_eq!((&second["agent"], &second["kind"]), (&"worker".into(), &"pause".into()));
    served.stop();
    assert!(reader.read().is_none());
}

#[test]
fn bell_events_says_the_same_from_a_gateway_and_from_the_store() {
    let mut served = paused();
    served.post("/v1/agents/worker/run", &json!({})).expect(200);
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let since = ["--json", "events", "--since", "1h"];
    let mut remote = served.place.start(&[&["--url", &url, "--key-file", &key_file], &since[..]].concat());
    let mut local = served.place.start(&since);
    for kind in ["pause", "trigger"] {
        let (far, near) = (remote.line(), local.line());
        assert_eq!(far, near);
        let event: Value = serde_json::from_str(&far).unwrap();
        assert_eq!(event["kind"], kind);
    }
    // While no daemon is there, the store tells; when one is, whoever asked it goes on where it was.
    served.stop();
    served.place.run(&["resume"]).expect(0);
    let near = [local.line(), local.line()];
    served.start();
    assert_eq!([remote.line(), remote.line()], near);
    let kinds = near.map(|line| serde_json::from_str::<Value>(&line).unwrap()["kind"].clone());
    assert_eq!(
        kinds,
        ["drop", "pause"],
        "the queue was cleared when the daemon stopped, then somebody resumed"
    );
    remote.kill();
    local.kill();
}

#[test]
fn output_is_followed_while_a_run_goes_on_and_resumed_by_its_offset() {
    let place = Place::sqlite();
    place.agent("talker", &format!("echo one; {WAIT}; echo two"), "");
    let served = Served::of(place);
    served.post("/v1/agents/talker/run", &json!({})).expect(200);
    served.place.until_file("up");
    let run = served.get("/v1/runs").json()["runs"][0]["run"].as_str().unwrap().to_owned();
    let mut reader = Reader::new(&served, &format!("/v1/runs/{run}/logs?follow=true"));
    let (name, first) = reader.next();
    assert_eq!((name.as_str(), &first["lines"][0]["text"]), ("output", &"one".into()));
    assert_eq!(first["is_last"], false);
    reader.cut();
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let mut follower = served.place.start(&["--url", &url, "--key-file", &key_file, "logs", "-f", &run]);
    assert_eq!(follower.line(), "one");
    served.place.write("go", "");
    assert_eq!(follower.end().expect(0).out, "two\n");
    let mut texts = Vec::new();
    let last = loop {
        let (_, part) = reader.next();
        texts.extend(
            part["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap().to_owned()),
        );
        if part["is_last"] == true {
            break part;
        }
    };
    assert_eq!(texts, ["two"]);
    assert!(reader.read().is_none(), "the stream has ended");

    // Once it is over: all of it as a stream, and from any offset as one answer.
    let mut again = Reader::new(&served, &format!("/v1/runs/{run}/logs?follow=true&tail=1"));
    let (_, part) = again.next();
    assert_eq!((&part["lines"][0]["text"], &part["is_last"]), (&"two".into(), &true.into()));
    let page = served.get(&format!("/v1/runs/{run}/logs?from={}", first["next"])).expect(200).json();
    assert_eq!((&page["lines"][0]["text"], &page["next"]), (&"two".into(), &last["next"]));
    served.get(&format!("/v1/runs/{run}/logs?from=999999999")).expect(200);
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let served = paused();
    let mut lazy = Reader::new(&served, "/v1/events");
    lazy.connect();
    let mut eager = Reader::new(&served, "/v1/events?kinds=trigger");
    eager.connect();
    for _ in 0..20 {
        served.post("/v1/agents/worker/run", &json!({})).expect(200);
        eager.next();
    }
    Document::of(&served);
    let mut some = [0; 64];
    lazy.stream.as_mut().unwrap().read_exact(&mut some).unwrap();
}
