//! What operators ask and do over HTTP.

use serde_json::{Value, json};

use crate::fleet::WAIT;
use crate::schema::Document;
use crate::served::{Reply, Served};
use crate::support::{Place, eventually};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A project with an agent that waits until the file `go` is there, and one that is done at once.
fn fleet() -> Served {
    let place = Place::sqlite();
    place.agent("worker", "echo hello; echo oops >&2", "");
    place.agent("waiter", WAIT, "");
    Served::of(place)
}

/// Has `worker` run to its end; answers the job and the run.
fn one_run(served: &Served) -> (String, String) {
    let job = text(&served.post("/v1/agents/worker/run", &json!({})).expect(200).json()["job"]);
    let mut over = Value::Null;
    eventually("the job is over", || {
        over = served.get(&format!("/v1/jobs/{job}?wait_ms=20000")).json();
        over["outcome"] == "listed"
    });
    (job, text(&over["run"]))
}

#[test]
fn every_question_and_act_answers_as_the_document_says() {
    let served = fleet();
    let document = Document::of(&served);
    let (job, run) = one_run(&served);
    let look = |path: &str, asked: &str| {
        let reply = served.get(asked);
        document.check("GET", path, &reply);
        reply.expect(200).json()
    };
    assert_eq!(look("/v1/status", "/v1/status?agent=worker")["agents"][0]["agent"], "worker");
    assert_eq!(look("/v1/agents", "/v1/agents")["agents"].as_array().map(Vec::len), Some(2));
    assert_eq!(look("/v1/agents/{agent}", "/v1/agents/worker")["scale"], 1);
    assert_eq!(look("/v1/runs", "/v1/runs?agent=worker&limit=5")["runs"][0]["run"], run);
    assert_eq!(look("/v1/runs/{run}", &format!("/v1/runs/{run}"))["job"], job);
    let log = look("/v1/runs/{run}/logs", &format!("/v1/runs/{run}/logs?stream=err"));
    assert_eq!((&log["lines"][0]["text"], &log["is_last"]), (&"oops".into(), &true.into()));
    assert_eq!(look("/v1/jobs/{job}", &format!("/v1/jobs/{job}"))["state"], "over");
    assert_eq!(look("/v1/why", &format!("/v1/why?of={run}"))["kind"], "run");
    look("/v1/jobs", "/v1/jobs");
    look("/v1/locks", "/v1/locks");
    look("/v1/locks/show", "/v1/locks/show?key=job%3Aa");
    look("/v1/locks/changes", "/v1/locks/changes");

    let act = |path: &str, asked: &str, body: &Value, status: u16| {
        let reply = served.post(asked, body);
        document.check("POST", path, &reply);
        reply.expect(status).json()
    };
    act("/v1/pause", "/v1/pause", &json!({ "reason": "lunch", "by": "ann" }), 200);
    assert_eq!(look("/v1/status", "/v1/status")["paused"], "lunch, says ann (key local)");
    let waiting =
        text(&act("/v1/agents/{agent}/run", "/v1/agents/waiter/run", &json!({ "prompt": "x" }), 200)["job"]);
    act("/v1/jobs/{job}/cancel", &format!("/v1/jobs/{waiting}/cancel"), &json!({}), 200);
    act("/v1/jobs/{job}/replay", &format!("/v1/jobs/{waiting}/replay"), &json!({}), 200);
    act("/v1/agents/{agent}/clear", "/v1/agents/waiter/clear", &json!({ "by": "ann" }), 200);
    assert_eq!(look("/v1/undone", "/v1/undone?limit=10")["undone"][0]["job"], waiting);
    let letter = look("/v1/undone", "/v1/undone?limit=1")["undone"][0].clone();
    let letters = json!({ "letters": [{ "job": letter["job"], "at_ms": letter["at_ms"] }], "by": "ann" });
    let replayed = act("/v1/undone/replay", "/v1/undone/replay", &letters, 200);
    assert_eq!(replayed["results"], json!(["queued"]));
    assert_eq!(act("/v1/undone/replay", "/v1/undone/replay", &letters, 200)["results"], json!(["gone"]));
    act("/v1/agents/{agent}/clear", "/v1/agents/waiter/clear", &json!({}), 200);
    act("/v1/resume", "/v1/resume", &json!({}), 200);
    act("/v1/agents/{agent}/scale", "/v1/agents/worker/scale", &json!({ "scale": 2 }), 200);
    assert_eq!(look("/v1/agents/{agent}", "/v1/agents/worker")["scale"], 2);
    act("/v1/agents/{agent}/run", "/v1/agents/waiter/run", &json!({}), 200);
    served.place.until_file("up");
    let alive = text(&look("/v1/runs", "/v1/runs?agent=waiter")["runs"][0]["run"]);
    act("/v1/runs/{run}/kill", &format!("/v1/runs/{alive}/kill"), &json!({ "reason": "enough" }), 200);
    eventually("it is gone", || served.get(&format!("/v1/runs/{alive}")).json()["end"]["end"] == "killed");
    act("/v1/reload", "/v1/reload", &json!({}), 200);
    let history = look("/v1/history", "/v1/history?kinds=run,pause,scale");
    let kinds: Vec<String> =
        history["rows"].as_array().unwrap().iter().map(|row| text(&row["kind"])).collect();
    assert_eq!(kinds, ["run", "pause", "pause", "scale", "run"]);
}

#[test]
fn a_trigger_that_is_repeated_with_its_id_is_accepted_once() {
    let served = fleet();
    let ask = || served.post("/v1/agents/worker/run", &json!({ "request_id": "r1" })).expect(200).json();
    assert_eq!(ask()["job"], ask()["job"]);
}

#[test]
fn a_project_that_was_changed_is_read_again_at_once_when_asked() {
    let served = fleet();
    served.place.agent("another", "true", "");
    let done = served.post("/v1/reload", &json!({})).expect(200).json();
    assert!(text(&done["message"]).contains("3 agents"), "{done}");
    served.get("/v1/agents/another").expect(200);
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let ran = served.place.run(&["--url", &url, "--key-file", &key_file, "reload"]).expect(0);
    assert!(ran.out.contains("3 agents"), "{ran:?}");
}

#[test]
fn a_daemon_that_is_told_to_stop_answers_and_stops() {
    let mut served = fleet();
    served.post("/v1/agents/waiter/run", &json!({})).expect(200);
    served.place.until_file("up");
    let document = Document::of(&served);
    let reply = served.post("/v1/stop", &json!({}));
    document.check("POST", "/v1/stop", &reply);
    reply.expect(200);
    // What runs may finish, and until then the daemon answers.
    served.get("/v1/status").expect(200);
    served.post("/v1/stop", &json!({ "now": true })).expect(200);
    let ran = served.end();
    assert!(ran.code == 0 && ran.out.contains("\"interrupted\":1"), "{ran:?}");
}

#[test]
fn bell_stop_stops_the_daemon_behind_a_gateway_waits_for_it_and_says_what_it_cleared() {
    let mut served = fleet();
    served.post("/v1/pause", &json!({})).expect(200);
    for _ in 0..2 {
        served.post("/v1/agents/worker/run", &json!({})).expect(200);
    }
    let url = format!("http://{}", served.address);
    let key_file = served.place.path(".bell/api-key").display().to_string();
    let ran = served.place.run(&["--url", &url, "--key-file", &key_file, "stop"]).expect(0);
    assert!(ran.out.contains("stopped the daemon at"), "{ran:?}");
    let way_back = "2 waiting jobs are cleared from the queue; bring them back: bell jobs replay --cleared";
    assert!(ran.err.contains(way_back), "{ran:?}");
    assert_eq!(served.end().code, 0);
    served.place.run(&["reload"]).expect(2);
}

/// What was asked wrongly: method, path, body, status, outcome, and a word of the message.
const WRONG: &[(&str, &str, &str, u16, &str, &str)] = &[
    ("GET", "/v1/agents/worke", "", 404, "not_found", "worker"),
    ("GET", "/v1/agents/No%20Name", "", 400, "invalid", "No Name"),
    ("GET", "/v1/agents/%ff", "", 400, "invalid", "UTF-8"),
    ("GET", "/v1/agents?colour=blue", "", 400, "invalid", "colour"),
    ("GET", "/v1/status?agent=worke", "", 404, "not_found", "worker"),
    ("GET", "/v1/status?agent=worker&agent=worker", "", 400, "invalid", "agent"),
    ("GET", "/v1/runs?limit=many", "", 400, "invalid", "many"),
    ("GET", "/v1/runs?limit=-1", "", 400, "invalid", "-1"),
    ("GET", "/v1/runs/nobody-0000000000", "", 404, "not_found", "nobody-0000000000"),
    ("GET", "/v1/runs/..%2F..%2Fetc", "", 404, "not_found", "etc"),
    ("GET", "/v1/runs/nobody-0000000000/logs", "", 404, "not_found", "nobody-0000000000"),
    ("GET", "/v1/runs/..%2F..%2Fetc%2Fpasswd/logs", "", 404, "not_found", "passwd"),
    ("GET", "/v1/runs/worker/logs?follow=maybe", "", 400, "invalid", "maybe"),
    ("GET", "/v1/runs/worker/logs?stream=both", "", 400, "invalid", "both"),
    ("GET", "/v1/jobs/nothing", "", 404, "not_found", "nothing"),
    ("GET", "/v1/jobs/x?wait_ms=99999999999", "", 400, "invalid", "7 days"),
    ("GET", "/v1/history?kinds=weather", "", 400, "invalid", "weather"),
    ("GET", "/v1/history?since_ms=yesterday", "", 400, "invalid", "yesterday"),
    ("GET", "/v1/why", "", 400, "invalid", "of"),
    ("GET", "/v1/why?of=nothing-of-the-sort", "", 404, "not_found", "nothing-of-the-sort"),
    ("GET", "/v1/events?after=abc", "", 400, "invalid", "abc"),
    ("GET", "/v1/events?after=9999999.1.1", "", 400, "invalid", "another store"),
    ("GET", "/v1/nothing", "", 404, "not_found", "nothing at this address"),
    ("DELETE", "/v1/status", "", 405, "invalid", "method"),
    ("GET", "/v1/pause", "", 405, "invalid", "method"),
    ("POST", "/v1/pause", "{", 400, "invalid", "could not read"),
    ("POST", "/v1/pause", "[]", 400, "invalid", "could not read"),
    ("POST", "/v1/pause", "{\"agent\":7}", 400, "invalid", "string"),
    ("POST", "/v1/pause", "{\"why\":\"x\"}", 400, "invalid", "why"),
    ("POST", "/v1/pause", "{} {}", 400, "invalid", "trailing"),
    ("POST", "/v1/pause?now=1", "{}", 400, "invalid", "now"),
    ("POST", "/v1/pause", "{\"agent\":\"No Name\"}", 400, "invalid", "No Name"),
    ("POST", "/v1/agents/worke/run", "{}", 404, "not_found", "worker"),
    ("POST", "/v1/agents/worker/run", "{\"request_id\":\"a b\"}", 400, "invalid", ""),
    ("POST", "/v1/agents/worker/run", "{\"context\":\"text\"}", 400, "invalid", "map"),
    ("POST", "/v1/agents/worke/scale", "{\"scale\":1}", 404, "not_found", "worker"),
    ("POST", "/v1/agents/worker/scale", "{\"scale\":-1}", 400, "invalid", "-1"),
    ("POST", "/v1/agents/worker/scale", "{\"scale\":99999}", 400, "invalid", ""),
    ("POST", "/v1/runs/nobody-0000000000/kill", "{}", 404, "not_found", "nobody"),
    ("POST", "/v1/jobs/nothing/cancel", "{}", 404, "not_found", "nothing"),
    ("POST", "/v1/jobs/nothing/replay", "{}", 404, "not_found", "nothing"),
    ("POST", "/v1/locks/break", "{\"key\":\"job:a\",\"reason\":\"x\"}", 404, "not_held", ""),
    ("POST", "/v1/locks/break", "{\"key\":\"job:a\",\"reason\":\"\"}", 400, "invalid", "reason"),
    ("POST", "/v1/locks/break", "{\"key\":\"\",\"reason\":\"x\"}", 400, "invalid", ""),
    ("POST", "/v1/stop", "{\"now\":\"yes\"}", 400, "invalid", "bool"),
    ("POST", "/v1/reload", "{\"x\":1}", 400, "invalid", "x"),
];

#[test]
fn wrong_questions_and_acts_are_refused_with_a_reason_and_leave_nothing_behind() {
    let served = fleet();
    let document = Document::of(&served);
    let revision = || served.get("/v1/locks/changes").expect(200).json()["revision"].clone();
    let ask = |method: &str, path: &str, body: &str| -> Reply {
        let key = format!("Bearer {}", served.key);
        let headers = [("Authorization", key.as_str()), ("Content-Type", "application/json")];
        served.ask(method, path, &headers, body.as_bytes())
    };
    let things = |served: &Served| {
        let history = served.get("/v1/history").json()["rows"].clone();
        (
            history,
            served.get("/v1/jobs").json()["queues"].clone(),
            served.get("/v1/status").json()["paused"].clone(),
        )
    };
    let (before, first) = (things(&served), revision());
    let mut otherwise = Vec::new();
    for (method, path, body, status, outcome, word) in WRONG {
        let reply = ask(method, path, body);
        let shown =
            format!("{method} {path} {body}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        if reply.status != *status || !text(&reply.json()["message"]).contains(word) {
            otherwise.push(shown);
            continue;
        }
        let reply = reply.refused(*status, outcome);
        let place = path.split('?').next().unwrap();
        for (documented, template, _) in document.operations() {
            if documented == *method && fits(&template, place) {
                document.check(method, &template, &reply);
            }
        }
    }
    assert!(otherwise.is_empty(), "{otherwise:#?}");
    assert_eq!((things(&served), revision()), (before, first));
}

/// Whether a path is one of those that the template stands for.
fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let fits = |(template, path): (&&str, &&str)| template == path || template.starts_with('{');
    template.len() == path.len() && template.iter().zip(&path).all(fits)
}

#[test]
fn a_key_that_may_only_look_looks_and_does_nothing() {
    let served = fleet();
    let key = text(&served.place.json(&["keys", "add", "grafana", "--role", "read"])["key"]);
    for (method, path, said) in Document::of(&served).operations() {
        let needs_full =
            method == "POST" && said["security"] == json!([{ "key": [] }]) && path.starts_with("/v1");
        if needs_full && path != "/v1/locks/acquire" {
            let path = path.replace(['{', '}'], "");
            served.post_as(&key, &path, &json!({})).refused(403, "unauthorized");
        }
    }
    let header = format!("Bearer {key}");
    served.ask("GET", "/v1/status", &[("Authorization", &header)], b"").expect(200);
    assert_eq!(served.get("/v1/status").json()["paused"], Value::Null);
}

#[test]
fn the_daemons_own_keys_are_neither_broken_nor_taken_and_it_stays_in_the_fleet() {
    let served = Served::new();
    for key in ["bell://fleet/nodes", "BELL://fleet/nodes"] {
        let refused = served.post("/v1/locks/break", &json!({ "key": key, "reason": "x" }));
        refused.refused(400, "invalid");
        for more in [&[][..], &["--yes"]] {
            let line = [&["lock", "break", key, "--reason", "x"], more].concat();
            let refused = served.place.run(&line).expect(4);
            assert!(refused.err.contains("Bellwether's own"), "{refused:?}");
        }
        served.place.run(&["lock", "acquire", key]).expect(3);
        served.place.run(&["lock", "run", key, "--", "true"]).expect(3);
    }
    assert_eq!(served.place.json(&["stat"])["daemons"], 1);
}
