//! The record of what operators did: by every way, and found out when it was touched.

use bell_coord::Coord;
use bell_store::{Name, Stamp, Txn, Write};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::Served;
use crate::support::{Place, finish};

fn acts(place: &Place) -> Vec<Value> {
    place.json(&["audit"])["acts"].as_array().unwrap().clone()
}

/// What was done, on what, by whom and by which way.
fn told(act: &Value) -> [&str; 4] {
    ["act", "on", "who", "via"].map(|field| act[field].as_str().unwrap())
}

#[test]
fn every_act_is_on_record_with_who_did_it_and_how_they_came_in() {
    let served = Served::new();
    served.place.agent("sleeper", crate::fleet::WAIT, "");
    served.post("/v1/reload", &json!({})).expect(200);
    served.post("/v1/pause", &json!({"reason": "deploying", "by": "ann"})).expect(200);
    served.post("/v1/pause", &json!({})).expect(200);
    served.post("/v1/agents/worker/run", &json!({})).expect(200);
    served.post("/v1/agents/worker/clear", &json!({})).expect(200);
    let mut by_socket = served.place.command(&["resume"]);
    by_socket.env_remove("BELL_STORE");
    finish(by_socket).expect(0);
    served.place.run(&["pause", "worker"]).expect(0);
    served.place.run(&["keys", "add", "ci"]).expect(0);
    served.place.run(&["keys", "revoke", "ci"]).expect(0);
    served.post("/v1/agents/worker/scale", &json!({"scale": 3})).expect(200);
    let acts = acts(&served.place);
    let told: Vec<[&str; 4]> = acts.iter().map(told).collect();
    let uid = format!("uid {}", rustix::process::getuid().as_raw());
    assert_eq!(told[0], ["reload", "the project", "key local", "http"]);
    assert_eq!(told[1], ["pause", "the fleet", "ann (key local)", "http"]);
    assert_eq!(told[2], ["run", "worker", "key local", "http"], "a pause that changes nothing is no act");
    assert_eq!(told[3], ["clear", "worker", "key local", "http"]);
    assert_eq!(told[4], ["resume", "the fleet", "key local", "socket"]);
    assert_eq!(told[5], ["pause", "the agent worker", uid.as_str(), "cli"]);
    assert_eq!(told[6], ["keys add", "ci", uid.as_str(), "cli"]);
    assert_eq!(told[7], ["keys revoke", "ci", uid.as_str(), "cli"]);
    assert_eq!(told[8], ["scale", "worker", "key local", "http"]);
    assert_eq!(
        (acts.len(), &acts[1]["reason"], &acts[8]["reason"]),
        (9, &"deploying".into(), &"to 3: by hand".into())
    );
    served.place.run(&["audit", "verify"]).expect(0);
}

#[test]
fn it_is_read_and_verified_while_no_daemon_runs() {
    let mut served = Served::new();
    served.post("/v1/stop", &json!({})).expect(200);
    served.end().expect(0);
    served.start();
    served.place.run(&["stop"]).expect(0);
    served.end().expect(0);
    let acts = acts(&served.place);
    let stops: Vec<[&str; 4]> = acts.iter().map(told).collect();
    assert_eq!((stops[0][0], stops[0][3]), ("stop", "http"));
    assert_eq!((stops[1][0], stops[1][3]), ("stop", "cli"));
    let verified = served.place.json(&["audit", "verify"]);
    assert_eq!((&verified["holds"], &verified["chains"][0]["entries"]), (&true.into(), &2.into()));
    assert_eq!(
        served.place.json(&["audit", "--since", "1h", "--limit", "1"])["acts"].as_array().unwrap().len(),
        1
    );
    assert!(
        served.place.json(&["audit", "--since", "2100-01-01T00:00Z"])["acts"].as_array().unwrap().is_empty()
    );
}

#[test]
fn a_lock_that_is_broken_is_on_record_wherever_it_is_broken_from() {
    let place = Place::sqlite();
    let mut holder = place.start(&["lock", "run", "deploy://api", "--", "sh", "-c", "echo held; sleep 60"]);
    assert_eq!(holder.line(), "held");
    place.run(&["lock", "break", "deploy://api", "--reason", "stuck", "--yes"]).expect(0);
    let acts = acts(&place);
    assert_eq!(acts.len(), 1);
    assert_eq!((&acts[0]["act"], &acts[0]["on"]), (&"break".into(), &"deploy://api".into()));
    assert_eq!(acts[0]["touches"].as_array().unwrap().len(), 1);
}

/// Changes the record with nothing but the store's own file.
fn touched(place: &Place, sql: &str) -> Value {
    let file = Connection::open(place.path("bell.db")).unwrap();
    assert!(file.execute(sql, []).unwrap() > 0, "{sql}");
    drop(file);
    let ran = place.run(&["--json", "audit", "verify"]).expect(1);
    ran.json()["chains"][0]["broken"].clone()
}

fn five_acts() -> Place {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    for name in ["a", "b", "c", "d", "e"] {
        place.run(&["keys", "add", name]).expect(0);
    }
    place
}

#[test]
fn whoever_touches_the_file_of_the_store_is_found_out() {
    let table = "entries";
    let entry = |number: u64| format!("name = 'audit/chain/{number:016x}'");
    let cases = [
        (
            format!(
                "update {table} set value = cast(replace(cast(value as text), 'role full', 'role read') as blob) where {}",
                entry(3)
            ),
            "entry 3 was changed",
        ),
        (format!("delete from {table} where {}", entry(2)), "entry 2 is missing"),
        (format!("delete from {table} where {}", entry(5)), "entry 5 is missing"),
        (format!("delete from {table} where name = 'audit/head'"), "no record of where they end"),
        (
            format!(
                "update {table} set value = (select value from {table} where {}) where {}",
                entry(2),
                entry(4)
            ),
            "entry 2 stands in the place of entry 4",
        ),
    ];
    for (sql, found) in cases {
        let broken = touched(&five_acts(), &sql);
        assert!(broken.as_str().is_some_and(|broken| broken.contains(found)), "{sql}: {broken}");
    }
}

#[test]
fn a_record_that_was_written_anew_is_known_by_what_was_noted_elsewhere() {
    let place = five_acts();
    let noted = place.json(&["audit", "verify"])["chains"][0]["remember"].as_str().unwrap().to_owned();
    place.run(&["audit", "verify", "--remembered", &noted]).expect(0);
    place.run(&["audit", "verify", "--remembered", "5:nonsense"]).expect(4);
    // Somebody with the right to write removes everything, and goes on as if nothing had been.
    forget(&place);
    place.run(&["keys", "add", "f"]).expect(0);
    place.run(&["audit", "verify"]).expect(0);
    place.run(&["audit", "verify", "--remembered", &noted]).expect(1);
}

fn forget(place: &Place) {
    let names = (1..=5).map(|number| format!("audit/chain/{number:016x}")).chain(["audit/head".to_owned()]);
    let writes = names.map(|name| (Name::from(name), Write::Delete)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coord = Coord::new(bell_locks::open::open_store(&place.url).await.unwrap());
        coord.store().commit(Txn { writes, ..Txn::default() }).await.unwrap();
    });
}

#[test]
fn what_earlier_versions_recorded_is_shown_as_unchained() {
    let place = five_acts();
    let old = br#"{"act":"break","key":"deploy://api","by":"ada","reason":"stuck","holders":[],"at_ms":7}"#;
    let writes = vec![(Name::from("audit/0190-old"), Write::Put(old.to_vec(), Stamp::New))];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coord = Coord::new(bell_locks::open::open_store(&place.url).await.unwrap());
        coord.store().commit(Txn { writes, ..Txn::default() }).await.unwrap();
    });
    let acts = acts(&place);
    assert_eq!((&acts[0]["who"], acts[0].get("number")), (&"ada".into(), None));
    assert!(place.run(&["audit"]).expect(0).out.contains("unchained"));
    place.run(&["audit", "verify"]).expect(0);
}
