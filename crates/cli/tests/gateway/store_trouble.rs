//! A store that is removed, replaced or brought back from a backup under a daemon: nothing is accepted that would be gone,
//! and everything that can be asked says so.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::Served;
use crate::support::{Place, Ran, eventually, finish};

fn place() -> Place {
    let place = Place::sqlite();
    place.write("config.toml", "[gateway]\nport = 0\nmetrics = \"open\"\n");
    place.agent("worker", "true", "");
    place
}

fn remove(store: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = store.as_os_str().to_owned();
        file.push(suffix);
        let _ = fs::remove_file(file);
    }
}

/// A copy that holds everything up to now.
fn back_up(store: &Path, copy: &Path) {
    let store = Connection::open(store).unwrap();
    store.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
}

fn bring_back(copy: &Path, store: &Path) {
    remove(store);
    fs::copy(copy, store).unwrap();
}

fn revision(store: &Path) -> u64 {
    let store = Connection::open(store).unwrap();
    store.query_row("SELECT revision FROM meta", [], |row| row.get(0)).unwrap()
}

impl Served {
    fn readiness(&self) -> Value {
        self.ask("GET", "/readyz", &[], b"").json()["checks"][0].clone()
    }

    fn run_worker(&self) -> u16 {
        self.post("/v1/agents/worker/run", &json!({})).status
    }

    fn shows(&self, line: &str) -> bool {
        let page = self.ask("GET", "/metrics", &[], b"").expect(200).body;
        String::from_utf8(page).unwrap().contains(line)
    }
}

#[test]
fn a_daemon_whose_store_is_replaced_takes_nothing_more_and_everything_says_so() {
    let mut served = Served::of(place());
    let (store, copy) = (served.place.path("bell.db"), served.place.path("copy.db"));
    assert!((200..300).contains(&served.run_worker()));
    eventually("it ran", || served.place.ends() == ["completed"]);
    assert!(served.shows("bell_store_refused{reason=\"replaced\"} 0"));
    back_up(&store, &copy);
    bring_back(&copy, &store);
    // At once, not after a while: what would be answered now is what would be gone.
    assert_eq!(served.run_worker(), 503);
    let check = served.readiness();
    assert_eq!(check["ok"], false);
    assert!(check["reason"].as_str().unwrap().contains("removed or replaced"), "{check}");
    eventually("the numbers say so", || served.shows("bell_store_refused{reason=\"replaced\"} 1"));
    eventually("attention says so", || {
        served.place.json(&["stat"])["attention"][0]["kind"] == "store_replaced"
    });
    let shown = served.place.run(&["stat"]).out;
    assert!(!shown.contains("no daemon runs"), "{shown}");
    let checkup = finish(served.place.command(&["--json", "doctor"]));
    assert_eq!(checkup.code, 1, "{checkup:?}");
    let findings = checkup.json()["findings"].clone();
    let found = findings.as_array().unwrap().iter().find(|finding| finding["about"] == "store").unwrap();
    assert_eq!(found["level"], "broken", "{found}");
    served.kill();
    served.place.run(&["store", "raise-epoch", "--yes"]).expect(0);
    served.start();
    assert!((200..300).contains(&served.run_worker()));
    assert_eq!(served.readiness()["ok"], true);
    assert!(served.place.json(&["stat"])["attention"].is_null());
    served.stop();
}

#[test]
fn a_daemon_whose_store_is_removed_takes_nothing_more_and_none_starts_over_an_older_copy() {
    let mut served = Served::of(place());
    let (store, copy) = (served.place.path("bell.db"), served.place.path("copy.db"));
    served.run_worker();
    eventually("it ran", || served.place.ends() == ["completed"]);
    back_up(&store, &copy);
    let older = revision(&store);
    served.run_worker();
    eventually("it ran again", || served.place.ends() == ["completed", "completed"]);
    let history = served.place.path(".bell/stores.json");
    let seen =
        || -> Value { serde_json::from_slice(&fs::read(&history).unwrap_or_default()).unwrap_or_default() };
    eventually("how far it is was written down", || seen()[0]["revision"].as_u64() > Some(older + 5));
    remove(&store);
    assert_eq!(served.run_worker(), 503);
    served.kill();
    bring_back(&copy, &store);
    let refused = start_refused(&served.place);
    assert!(refused.err.contains("went back in time") && refused.err.contains("raise-epoch"), "{refused:?}");
    let checkup = finish(served.place.command(&["doctor"]));
    assert!(checkup.out.contains("went back in time"), "{checkup:?}");
    let lock = served.place.run(&["lock", "acquire", "deploy://x"]).expect(5);
    assert!(lock.err.contains("went back in time"), "{lock:?}");
    served.place.run(&["store", "raise-epoch", "--yes"]).expect(0);
    served.start();
    assert!((200..300).contains(&served.run_worker()));
    served.stop();
}

#[test]
fn a_copy_from_just_before_a_daemon_stopped_is_refused_at_the_next_start() {
    let mut served = Served::of(place());
    let (store, copy) = (served.place.path("bell.db"), served.place.path("copy.db"));
    served.run_worker();
    eventually("it ran", || served.place.ends() == ["completed"]);
    back_up(&store, &copy);
    // The last that it writes says that this node leaves.
    served.stop();
    assert!(revision(&copy) < revision(&store));
    bring_back(&copy, &store);
    let refused = start_refused(&served.place);
    assert!(refused.err.contains("went back in time"), "{refused:?}");
}

fn start_refused(place: &Place) -> Ran {
    // One that starts would never end by itself.
    place.start(&["up"]).end().expect(5)
}

#[test]
fn a_folder_whose_disk_fails_with_every_sync_is_unavailable_in_time_and_left_in_peace() {
    let place = Place::folder();
    place.run(&["lock", "acquire", "job:first"]).expect(0);
    let trace = place.path("trace");
    #[expect(clippy::disallowed_methods, reason = "the disk is made to fail below the real binary")]
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace);
    strace.args(["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO"]);
    strace.arg(env!("CARGO_BIN_EXE_bell")).args(["lock", "acquire", "job:second"]);
    strace.env("HOME", place.path("home")).env("XDG_STATE_HOME", place.path("state"));
    strace.env("BELL_STORE", &place.url).current_dir(place.folder.path());
    let refused = finish(strace).expect(5);
    assert!(refused.err.contains("make the commit durable"), "{refused:?}");
    let syncs = fs::read_to_string(&trace).unwrap().lines().filter(|line| line.contains("INJECTED")).count();
    assert!((1..100).contains(&syncs), "{syncs} syncs");
    place.run(&["lock", "acquire", "job:second"]).expect(0);
}
