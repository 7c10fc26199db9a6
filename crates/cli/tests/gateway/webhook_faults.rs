//! Deliveries while things go wrong: the same one a thousand times at once, and a daemon that is killed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::served::{Reply, Served};
use crate::signers;
use crate::support::{Place, eventually};
use crate::webhooks::{SECRET, secret, wants};

/// A project on a port of its own, before and after a restart, that starts nothing.
fn served() -> Served {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::sqlite();
    let port = free.port();
    place.write(
        "config.toml",
        &format!("[gateway]\nport = {port}\n[webhooks.hub]\ntype = \"github\"\nsecret = \"TEXT\"\n"),
    );
    secret(&place, "TEXT", SECRET);
    place.agent("hear", "true", &format!("work_queue_size = 10000\n{}", wants(&["hub"])));
    place.run(&["pause"]).expect(0);
    Served::of(place)
}

/// Sends deliveries of one body, which GitHub signs without their id.
struct Sender {
    address: String,
    signature: String,
    body: String,
}

impl Sender {
    fn new(served: &Served) -> Self {
        let body =
            json!({"action": "opened", "repository": {"full_name": "acme/app"}, "issue": {"number": 1}})
                .to_string();
        let ask = json!({"scheme": "github", "secret": SECRET, "body": body});
        let signature = signers::ask(&[ask])[0]["signature"].as_str().unwrap().to_owned();
        Self { address: served.address.clone(), signature, body }
    }

    /// The answer; `None`: nobody answered.
    fn send(&self, id: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let request = format!(
            "POST /webhooks/hub HTTP/1.1\r\nHost: {}\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: {id}\r\n\
             X-Hub-Signature-256: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
            self.address,
            self.signature,
            self.body.len(),
            self.body
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        Some(Reply::parse(&answer)?.expect(202).json())
    }

    /// Sends it until somebody answers, as services do.
    fn deliver(&self, id: &str) -> Value {
        let mut answer = None;
        eventually("somebody answers", || {
            answer = self.send(id);
            answer.is_some()
        });
        answer.unwrap()
    }
}

#[test]
fn a_thousand_replays_at_once_make_one_job_also_while_the_daemon_is_killed() {
    const REPLAYS: usize = 1_000;
    let mut served = served();
    let sender = Sender::new(&served);
    let (next, made) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (sender, next, made) = (&sender, &next, &made);
            scope.spawn(move || {
                while next.fetch_add(1, Ordering::SeqCst) < REPLAYS {
                    let answer = sender.deliver("d-1");
                    assert_eq!(answer["jobs"].as_array().unwrap().len(), 1, "{answer}");
                    made.fetch_add(usize::from(answer["verdict"] == "queued"), Ordering::SeqCst);
                }
            });
        }
        eventually("half of them are sent", || next.load(Ordering::SeqCst) >= REPLAYS / 2);
        served.kill();
        served.start();
    });
    assert!(made.load(Ordering::SeqCst) <= 1, "at most one was told that it made the job");
    assert_eq!(served.place.waiting("hear"), 1);
    served.stop();
    assert_eq!(served.place.json(&["webhook", "ls"])["deliveries"].as_array().unwrap().len(), 1);
}

#[test]
fn what_was_answered_is_there_after_a_kill_and_what_was_not_makes_one_job_when_it_is_sent_again() {
    let mut served = served();
    let sender = Sender::new(&served);
    let (sent, is_done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (sender, sent, is_done) = (&sender, &sent, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::SeqCst) {
                    let id = format!("d-{}", sent.fetch_add(1, Ordering::SeqCst));
                    let verdict = sender.deliver(&id)["verdict"].clone();
                    // A duplicate only of itself: it was stored, and the answer was lost with the daemon.
                    assert!(verdict == "queued" || verdict == "duplicate", "{id}: {verdict}");
                }
            });
        }
        for _ in 0..3 {
            let before = sent.load(Ordering::SeqCst);
            eventually("they go on", || sent.load(Ordering::SeqCst) >= before + 40);
            served.kill();
            served.start();
        }
        is_done.store(true, Ordering::SeqCst);
    });
    assert_eq!(
        served.place.waiting("hear") as usize,
        sent.load(Ordering::SeqCst),
        "one job for each delivery"
    );
}
