//! Locks over HTTP while things go wrong: many clients at once, a daemon that is killed, a client that stands still.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::outsider::Outsider;
use crate::served::{Reply, Served};
use crate::support::{Place, eventually};

/// What a lock guards: only one may be inside, and each has a larger fence than the one before.
#[derive(Default)]
struct Room {
    is_taken: AtomicBool,
    fences: Mutex<Vec<u64>>,
}

impl Room {
    fn visit(&self, fence: u64) {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two are inside");
        std::thread::yield_now();
        let mut fences = self.fences.lock().unwrap();
        assert!(fences.last().is_none_or(|last| *last < fence), "{fence} after {fences:?}");
        fences.push(fence);
        drop(fences);
        assert!(self.is_taken.swap(false, Ordering::SeqCst));
    }

    fn visits(&self) -> usize {
        self.fences.lock().unwrap().len()
    }
}

fn fence(granted: &Value) -> u64 {
    granted["fence"].as_u64().unwrap_or_else(|| panic!("{granted}"))
}

#[test]
fn eight_clients_exclude_each_other_over_two_hundred_rounds() {
    const ROUNDS: usize = 200;
    let served = Served::new();
    let (room, rounds) = (Room::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (served, room, rounds) = (&served, &room, &rounds);
            scope.spawn(move || {
                let session = Outsider::new(served, &format!("client {client}"));
                loop {
                    let round = rounds.fetch_add(1, Ordering::SeqCst);
                    if round >= ROUNDS {
                        return;
                    }
                    let granted = session.wait_for("job:a", &format!("r{round}"));
                    room.visit(fence(&granted));
                    session.release("job:a").expect(200);
                }
            });
        }
    });
    assert_eq!(room.visits(), ROUNDS);
}

/// A client that goes on through silence: it repeats what it asked, with the same request id.
struct Stubborn {
    address: String,
    token: String,
}

impl Stubborn {
    fn ask(&self, path: &str, body: &Value) -> Reply {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let mut reply = None;
        eventually("somebody answers", || {
            reply = self.attempt(&request);
            reply.is_some()
        });
        reply.unwrap()
    }

    fn attempt(&self, request: &str) -> Option<Reply> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        Reply::parse(&answer)
    }

    fn acquire(&self, key: &str, request: &str) -> Value {
        let ask = json!({ "keys": [key], "request_id": request, "wait_ms": 60_000, "ttl_ms": 300_000 });
        loop {
            let answer = self.ask("/v1/locks/acquire", &ask);
            if answer.status != 202 {
                return answer.expect(200).json();
            }
        }
    }
}

#[test]
fn a_daemon_that_is_killed_takes_no_session_with_it_and_grants_nothing_twice() {
    // The same port before and after, so that clients find it again.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", free.port()));
    let mut served = Served::of(place);
    let address = served.address.clone();
    let stubborn = |label: &str| {
        let session = Outsider::with(&served, &json!({ "label": label, "ttl_ms": 300_000 }));
        Stubborn { address: address.clone(), token: session.token }
    };
    let keeper = stubborn("keeper");
    let kept = fence(&keeper.acquire("job:kept", "1"));
    let clients: Vec<Stubborn> = (0..4).map(|number| stubborn(&format!("client {number}"))).collect();
    let (room, is_done) = (Room::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in &clients {
            let (room, is_done) = (&room, &is_done);
            scope.spawn(move || {
                for round in 0.. {
                    if is_done.load(Ordering::SeqCst) {
                        return;
                    }
                    let fence = fence(&client.acquire("job:a", &format!("r{round}")));
                    room.visit(fence);
                    let released =
                        client.ask("/v1/locks/release", &json!({ "key": "job:a", "fence": fence }));
                    // Repeated because its answer was lost, it may find that the next one holds the key already.
                    assert!(matches!(released.status, 200 | 409), "{released:?}");
                }
            });
        }
        for _ in 0..2 {
            let before = room.visits();
            eventually("they go on", || room.visits() >= before + 20);
            served.kill();
            served.start();
        }
        let before = room.visits();
        eventually("they go on after that", || room.visits() >= before + 20);
        is_done.store(true, Ordering::SeqCst);
    });
    let renewed = keeper.ask("/v1/locks/renew", &json!({ "key": "job:kept", "fence": kept }));
    assert_eq!(fence(&renewed.expect(200).json()), kept, "it was held all the while");
}

#[test]
fn a_daemon_that_is_stopped_hands_those_who_wait_on_to_the_next_in_their_order() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", free.port()));
    let mut served = Served::of(place);
    let address = served.address.clone();
    let stubborn = |label: &str| {
        let session = Outsider::with(&served, &json!({ "label": label, "ttl_ms": 300_000 }));
        Stubborn { address: address.clone(), token: session.token }
    };
    let [holder, first, second] = ["holder", "first", "second"].map(stubborn);
    holder.acquire("job:a", "1");
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, client) in [&first, &second].into_iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                client.acquire("job:a", "2");
                order.lock().unwrap().push(number);
                client.ask("/v1/locks/release", &json!({ "key": "job:a" })).expect(200);
            });
            served.place.until_waiting("job:a", number as u64 + 1);
        }
        served.stop();
        assert_eq!(served.place.show("job:a")["waiting"], 2, "their places are kept");
        served.start();
        holder.ask("/v1/locks/release", &json!({ "key": "job:a" })).expect(200);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1]);
}

#[test]
fn a_client_that_stood_still_past_its_ttl_can_write_no_more() {
    let served = Served::new();
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let write = format!("{} fence write report", env!("CARGO_BIN_EXE_bell"));
    let script = format!(
        "echo up > up; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done; echo late | {write}; echo $? > code"
    );
    let remote = ["--url", &url, "--key-file", &key_file, "lock", "run", "--ttl", "5s", "job:a", "--"];
    let mut arguments = remote.to_vec();
    arguments.extend(["sh", "-c", &script]);
    let client = served.place.start(&arguments);
    served.place.until_file("up");
    assert_eq!(served.place.show("job:a")["outcome"], "held");
    // The client stands still, and what it runs does not: that is whom a lease that is lost can't be told to.
    client.pause();

    let other = Outsider::new(&served, "other");
    let granted = other.wait_for("job:a", "1");
    let fence = fence(&granted).to_string();
    let early = crate::support::finish_with(
        served.place.command(&["fence", "write", "report", "--fence", &fence]),
        "early",
    );
    early.expect(0);
    served.place.write("go", "");
    let code = served.place.until_file("code");
    assert_eq!(code.trim(), "7", "what a stale writer is told");
    assert_eq!(std::fs::read_to_string(served.place.path("report")).unwrap(), "early");
    client.kill();
}

#[test]
fn a_killed_lock_run_frees_its_lock_within_fifteen_seconds_whatever_its_ttl() {
    let served = Served::new();
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let remote = ["--json", "--url", &url, "--key-file", &key_file, "lock"];
    let run = ["run", "--ttl", "10m", "job:a", "--", "sh", "-c", "echo up > up; exec sleep 600"];
    let holder = served.place.start(&[&remote[..], &run].concat());
    served.place.until_file("up");
    assert_eq!(served.place.show("job:a")["outcome"], "held");
    holder.kill();
    // 15 s, and time for a machine that is busy; by its ttl the lock would be free after ten minutes.
    let next = served.place.run(&[&remote[..], &["acquire", "job:a", "--wait", "20s"]].concat());
    assert_eq!(next.expect(0).json()["outcome"], "granted");
}

#[test]
fn a_lock_run_outlives_several_ttls_and_a_daemon_that_starts_again() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", free.port()));
    let mut served = Served::of(place);
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let script = "echo up > up; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done";
    let remote = ["--url", &url, "--key-file", &key_file, "lock", "run", "--ttl", "10m", "job:a", "--"];
    let holder = served.place.start(&[&remote[..], &["sh", "-c", script]].concat());
    served.place.until_file("up");
    let fence = served.place.show("job:a")["fence"].clone();
    served.kill();
    served.start();
    let other = Outsider::new(&served, "other");
    // Longer than the session lasts without heartbeats.
    let ask = json!({ "keys": ["job:a"], "request_id": "1", "wait_ms": 20_000 });
    other.acquire(&ask).refused(408, "timed_out");
    assert_eq!(served.place.show("job:a")["fence"], fence);
    served.place.write("go", "");
    holder.end().expect(0);
}
