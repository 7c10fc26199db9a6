//! Locks for programs outside of any run.

use serde_json::{Value, json};

use crate::outsider::{Outsider, Stream};
use crate::served::Served;
use crate::support::eventually;

fn waiting(served: &Served, key: &str) -> u64 {
    let shown = served.get(&format!("/v1/locks/show?key={key}")).json();
    shown["waiting"].as_u64().unwrap_or_default()
}

#[test]
fn a_lock_is_tried_refused_renewed_and_given_back() {
    let served = Served::new();
    let (ann, bob) = (Outsider::new(&served, "ann"), Outsider::new(&served, "bob"));
    let granted = ann.try_lock("deploy://api", "1").expect(200).json();
    assert_eq!((&granted["outcome"], &granted["holder"]["session"]), (&json!("granted"), &json!(ann.id)));
    assert_eq!(granted["ttl_ms"], 1_800_000, "as the project says");
    // Asked again with the same id, it has the one outcome.
    assert_eq!(ann.try_lock("deploy://api", "1").expect(200).json()["fence"], granted["fence"]);

    let busy = bob.try_lock("DEPLOY://API", "2").refused(409, "busy").json();
    assert_eq!(busy["holder"]["label"], "ann");
    bob.release("deploy://api").refused(409, "not_holder");
    bob.post("/v1/locks/renew", &json!({ "key": "deploy://api" })).refused(409, "not_holder");

    let fence = &granted["fence"];
    let renewed =
        ann.post("/v1/locks/renew", &json!({ "key": "deploy://api", "fence": fence, "ttl_ms": 60_000 }));
    assert_eq!(renewed.expect(200).json()["ttl_ms"], 60_000);
    let give_back = json!({ "key": "deploy://api", "fence": fence });
    assert_eq!(ann.post("/v1/locks/release", &give_back).expect(200).json()["outcome"], "released");
    ann.post("/v1/locks/release", &give_back).expect(200);
    ann.release("deploy://api").refused(404, "not_held");

    let next = bob.try_lock("deploy://api", "3").expect(200).json();
    assert!(next["fence"].as_u64() > fence.as_u64(), "{next}");
}

#[test]
fn several_keys_are_taken_together_and_readers_share() {
    let served = Served::new();
    let (ann, bob) = (Outsider::new(&served, "ann"), Outsider::new(&served, "bob"));
    let both = json!({ "keys": ["job:b", "job:a"], "request_id": "1" });
    let granted = ann.acquire(&both).expect(200).json();
    assert_eq!(granted["key"], "job:b");
    assert_eq!(granted["keys"].as_array().map(Vec::len), Some(2), "{granted}");
    let some = json!({ "keys": ["job:b", "job:c"], "request_id": "2" });
    bob.acquire(&some).refused(409, "busy");
    assert_eq!(served.get("/v1/locks/show?key=job:c").json()["outcome"], "free", "all or nothing");

    let shared = |request: &str| json!({ "keys": ["doc:x"], "mode": "shared", "request_id": request });
    ann.acquire(&shared("3")).expect(200);
    bob.acquire(&shared("4")).expect(200);
    let shown = served.get("/v1/locks/show?key=doc:x").expect(200).json();
    assert_eq!(shown["shared_with"].as_array().map(Vec::len), Some(1), "{shown}");
    let listed = bob.get("/v1/locks?prefix=job:").expect(200).json();
    let keys: Vec<&Value> = listed["locks"].as_array().unwrap().iter().map(|lock| &lock["key"]).collect();
    assert_eq!(keys, ["job:a", "job:b"]);
}

#[test]
fn who_waits_is_granted_in_turn_and_who_gives_up_or_goes_away_is_passed_over() {
    let served = Served::new();
    let [ann, bob, cyd, dan] = ["ann", "bob", "cyd", "dan"].map(|name| Outsider::new(&served, name));
    ann.try_lock("job:a", "1").expect(200);
    let ask = |request: &str| json!({ "keys": ["job:a"], "request_id": request, "wait_ms": 120_000 });
    // Bob's connection is cut while it waits: it never comes back.
    let gone = bob.send_acquire(&ask("2"));
    eventually("bob waits", || waiting(&served, "job:a") == 1);
    drop(gone);
    std::thread::scope(|scope| {
        let cyd_waits = scope.spawn(|| cyd.acquire(&ask("3")));
        eventually("cyd waits", || waiting(&served, "job:a") == 2);
        let dan_waits = scope.spawn(|| dan.wait_for("job:a", "4"));
        eventually("dan waits", || waiting(&served, "job:a") == 3);
        cyd.post("/v1/locks/leave", &json!({ "request_id": "3" })).expect(200);
        cyd_waits.join().unwrap().refused(408, "timed_out");
        ann.release("job:a").expect(200);
        assert_eq!(dan_waits.join().unwrap()["holder"]["label"], "dan");
    });
    dan.release("job:a").expect(200);
    // Whatever bob may have been granted was given back: nobody came for it.
    ann.wait_for("job:a", "5");
}

#[test]
fn a_session_that_waits_on_a_lost_connection_and_asks_again_for_longer_is_granted_the_longer_ttl() {
    let served = Served::new();
    let (ann, bob) = (Outsider::new(&served, "ann"), Outsider::new(&served, "bob"));
    let ask = |key: &str, request: &str, ttl: u64| json!({ "keys": [key], "request_id": request, "ttl_ms": ttl, "wait_ms": 120_000 });
    // The second request has an id of its own, or repeats the first one.
    for (key, first, second) in [("job:a", "1", "2"), ("job:b", "3", "3")] {
        ann.try_lock(key, key).expect(200);
        let lost = bob.send_acquire(&ask(key, first, 1000));
        eventually("bob waits", || waiting(&served, key) == 1);
        drop(lost);
        let answer = std::thread::scope(|scope| {
            let again = scope.spawn(|| bob.acquire(&ask(key, second, 3000)));
            if second != first {
                eventually("the second request waits", || waiting(&served, key) == 2);
            }
            ann.release(key).expect(200);
            again.join().unwrap().expect(200).json()
        });
        let shown = served.get(&format!("/v1/locks/show?key={key}")).expect(200).json();
        assert_eq!((&answer["ttl_ms"], &shown["ttl_ms"]), (&json!(3000), &json!(3000)), "{answer} {shown}");
        bob.release(key).expect(200);
    }
}

#[test]
fn a_wait_that_is_over_and_one_that_never_would_be_are_told_apart() {
    let served = Served::new();
    let (ann, bob) = (Outsider::new(&served, "ann"), Outsider::new(&served, "bob"));
    ann.try_lock("job:a", "1").expect(200);
    bob.try_lock("job:b", "2").expect(200);
    let ask = |key: &str, request: &str, wait: u64| json!({ "keys": [key], "request_id": request, "wait_ms": wait });
    bob.acquire(&ask("job:a", "3", 50)).refused(408, "timed_out");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ann.acquire(&ask("job:b", "4", 120_000)));
        eventually("ann waits", || waiting(&served, "job:b") == 1);
        let deadlock = bob.acquire(&ask("job:a", "5", 120_000)).refused(409, "deadlock").json();
        assert_eq!(deadlock["cycle"].as_array().map(Vec::len), Some(4), "{deadlock}");
        bob.release("job:b").expect(200);
        waits.join().unwrap().expect(200);
    });
}

#[test]
fn a_session_ends_with_everything_it_holds_by_its_own_word_or_for_want_of_a_heartbeat() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    ann.try_lock("job:a", "1").expect(200);
    assert_eq!(ann.end().expect(200).json()["outcome"], "ended");
    assert_eq!(served.get("/v1/locks/show?key=job:a").json()["outcome"], "free");
    ann.try_lock("job:a", "2").refused(410, "lost");
    ann.heartbeat().refused(410, "lost");

    let bob =
        Outsider::with(&served, &json!({ "label": "bob", "ttl_ms": 5_000, "pid": 7, "node": "laptop" }));
    let held = bob.try_lock("job:a", "3").expect(200).json();
    assert_eq!((&held["holder"]["pid"], &held["holder"]["node"]), (&json!(7), &json!("laptop")));
    assert_eq!(bob.heartbeat().expect(200).json()["ttl_ms"], 5_000);
    eventually("nobody has heard of bob", || {
        served.get("/v1/locks/show?key=job:a").json()["outcome"] == "free"
    });
    // The lease began before the heartbeat, so it may be over a moment earlier than the session.
    let renew = || bob.post("/v1/locks/renew", &json!({ "key": "job:a", "fence": held["fence"] }));
    eventually("bob's session is over", || renew().status != 404);
    renew().refused(410, "lost");
}

#[test]
fn an_open_connection_keeps_a_session_and_tells_it_what_an_operator_did() {
    let served = Served::new();
    let ann = Outsider::with(&served, &json!({ "label": "ann", "ttl_ms": 5_000 }));
    let mut held = ann.follow("/v1/sessions/hold");
    let fence = ann.try_lock("job:a", "1").expect(200).json()["fence"].clone();
    // The longest that it would live without.
    std::thread::sleep(std::time::Duration::from_millis(6_000));
    assert_eq!(served.get("/v1/locks/show?key=job:a").json()["outcome"], "held");

    let break_it = json!({ "key": "job:a", "reason": "it hangs" });
    assert_eq!(served.post("/v1/locks/break", &break_it).expect(200).json()["holder"]["label"], "ann");
    let told = held.next();
    assert_eq!(
        (told.name.as_str(), &told.data["reason"], &told.data["fence"]),
        ("revoked", &json!("it hangs"), &fence)
    );
    ann.post("/v1/locks/renew", &json!({ "key": "job:a", "fence": fence })).refused(410, "lost");
    let told = ann.post("/v1/locks/renew", &json!({ "key": "job:a" })).refused(410, "lost").json();
    assert_eq!(told["message"], "an operator broke the lock: it hangs");
    served.post("/v1/locks/break", &break_it).refused(404, "not_held");
    ann.end().expect(200);
    assert_eq!(held.next().name, "ended");
}

#[test]
fn changes_are_followed_and_a_reader_that_comes_back_misses_nothing() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    ann.try_lock("job:a", "1").expect(200);
    let mut stream = ann.follow("/v1/locks/watch?prefix=job:");
    let state = stream.next();
    assert_eq!((state.name.as_str(), &state.data["locks"][0]["key"]), ("state", &json!("job:a")));
    ann.try_lock("other:b", "2").expect(200);
    ann.try_lock("job:c", "3").expect(200);
    let changed = stream.next();
    assert_eq!((changed.name.as_str(), &changed.data["key"]), ("changed", &json!("job:c")));
    ann.release("job:a").expect(200);
    let freed = stream.next();
    assert_eq!((&freed.data["key"], &freed.data["outcome"]), (&json!("job:a"), &json!("free")));
    drop(stream);

    ann.release("job:c").expect(200);
    let path = "/v1/locks/watch?prefix=job:";
    let state = Stream::open(&served, &served.key, path, freed.id.as_deref()).next();
    assert_eq!((state.name.as_str(), &state.data["locks"]), ("state", &json!([])));
    let after = ann.get("/v1/locks/changes").expect(200).json()["revision"].clone();
    let none = ann.get(&format!("/v1/locks/changes?after={after}&wait_ms=50")).expect(202).json();
    assert_eq!(none["outcome"], "waiting");
}

#[test]
fn a_session_takes_locks_and_does_nothing_else_and_a_key_takes_none() {
    let served = Served::new();
    let ann = Outsider::new(&served, "ann");
    for path in ["/v1/status", "/v1/agents"] {
        ann.get(path).refused(401, "unauthorized");
    }
    ann.post("/v1/pause", &json!({})).refused(401, "unauthorized");
    ann.post("/v1/locks/break", &json!({ "key": "job:a", "reason": "x" })).refused(401, "unauthorized");
    ann.post("/v1/sessions", &json!({})).refused(403, "unauthorized");
    let ask = json!({ "keys": ["job:a"], "request_id": "1" });
    served.post("/v1/locks/acquire", &ask).refused(403, "unauthorized");
    served.post("/v1/sessions/end", &json!({})).refused(403, "unauthorized");
    ann.try_lock("bell://fleet/nodes", "1").refused(403, "unauthorized");

    let made = served.place.json(&["keys", "add", "looker", "--role", "read"]);
    let looker = made["key"].as_str().unwrap();
    served.post_as(looker, "/v1/sessions", &json!({})).refused(403, "unauthorized");
    let bearer = format!("Bearer {looker}");
    served.ask("GET", "/v1/locks", &[("Authorization", &bearer)], b"").expect(200);
}
