//! `bell webhook test`, with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::Place;

const ISSUE: &str = r#"{"action":"labeled","label":{"name":"bug"},"sender":{"login":"ada"},"repository":{"full_name":"acme/app"},
    "issue":{"number":42,"title":"Broken","labels":[{"name":"bug"}],"user":{"login":"bob"}}}"#;

fn write(place: &Place, name: &str, text: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn agent(place: &Place, name: &str, settings: &str) {
    let text = format!("---\nname: {name}\ndescription: d\n{settings}\n---\nDo it.\n");
    write(place, &format!("agents/{name}/SKILL.md"), &text);
    let run = place.path(&format!("agents/{name}/run"));
    fs::write(&run, "#!/bin/sh\n").unwrap();
    fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A project with a source and two agents, one of which wants bugs.
fn project() -> Place {
    let place = Place::sqlite();
    write(&place, "config.toml", "[webhooks.hub]\ntype = \"github\"\nsecret = \"env:HOOK\"\n");
    agent(&place, "review", "webhooks: [{source: hub, events: pull_request}]");
    agent(
        &place,
        "triage",
        "webhooks:\n  - {source: hub, events: issues, labels: [bug, security], senders: '!*[bot]'}\n  - {source: hub, events: push}",
    );
    write(&place, "issue.json", ISSUE);
    place
}

#[test]
fn it_says_which_agents_want_a_payload_and_filter_by_filter_why() {
    let place = project();
    let ran = place.run(&["webhook", "test", "issue.json", "--event", "issues"]).expect(0);
    let expected = "\
hub: issues/labeled of acme/app
review: does not want it
  filter 1: does not want it
    + source: hub
    - events: issues is not pull_request
triage: wants it
  filter 1: wants it
    + source: hub
    + events: issues
    + senders: ada is not excluded by !*[bot]
    + labels: bug
  filter 2: does not want it
    + source: hub
    - events: issues is not push
1 of 2 agents that listen to hub want it
";
    assert_eq!(ran.out, expected);
    assert!(ran.err.contains("real deliveries are refused: could not find the variable HOOK"), "{}", ran.err);
    assert!(!place.path("bell.db").exists(), "nothing is stored");
}

#[test]
fn programs_get_one_object_with_every_reason() {
    let place = project();
    let json = place.json(&["webhook", "test", "issue.json", "--event", "issues"]);
    assert_eq!((json["outcome"].as_str(), json["matched"].as_u64()), (Some("listed"), Some(1)));
    assert_eq!(json["context"]["number"], 42);
    let check = &json["agents"][0]["filters"][0]["checks"][1];
    assert_eq!((check["field"].as_str(), check["why"]["is"].as_str()), (Some("events"), Some("none_of")));
}

#[test]
fn nobody_who_wants_it_is_exit_code_two() {
    let place = project();
    let ran = place.run(&["webhook", "test", "issue.json", "--event", "star"]).expect(2);
    assert!(ran.out.ends_with("0 of 2 agents that listen to hub want it\n"), "{}", ran.out);
}

#[test]
fn with_run_the_jobs_are_made_each_time() {
    let place = project();
    for expected in 1..=2 {
        let json = place.json(&["webhook", "test", "issue.json", "--event", "issues", "--run"]);
        assert_eq!(json["jobs"].as_array().unwrap().len(), 1, "{json}");
        assert_eq!(json["jobs"][0]["agent"], "triage");
        let waiting = place.json(&["stat"]);
        assert!(waiting.to_string().contains(&format!("\"waiting\":{expected}")), "{waiting}");
    }
}

#[test]
fn a_recorded_delivery_brings_its_headers() {
    let place = project();
    let headers = serde_json::json!({"X-GitHub-Event": "issues", "X-Hub-Signature-256": "sha256=old", "X-GitHub-Delivery": "x"});
    let recorded = serde_json::json!({"headers": headers, "body": serde_json::from_str::<serde_json::Value>(ISSUE).unwrap()});
    write(&place, "recorded.json", &recorded.to_string());
    place.run(&["webhook", "test", "recorded.json", "--source", "hub"]).expect(0);
}

#[test]
fn what_is_missing_or_wrong_is_told_with_what_to_do() {
    let place = project();
    let no_event = place.run(&["webhook", "test", "issue.json"]).expect(4);
    assert!(no_event.err.contains("--event"), "{}", no_event.err);
    let no_source = place.run(&["webhook", "test", "issue.json", "--source", "hup"]).expect(2);
    assert!(no_source.err.contains("did you mean \"hub\"?"), "{}", no_source.err);
    place.run(&["webhook", "test", "missing.json", "--event", "issues"]).expect(4);
    write(&place, "broken.json", "{\"a\": ");
    let broken = place.run(&["webhook", "test", "broken.json", "--event", "issues"]).expect(4);
    assert!(broken.err.contains("not JSON"), "{}", broken.err);
    write(
        &place,
        "config.toml",
        "[webhooks.a]\ntype = \"github\"\nsecret = \"env:A\"\n[webhooks.b]\ntype = \"slack\"\nsecret = \"env:B\"\n",
    );
    let several = place.run(&["webhook", "test", "issue.json"]).expect(4);
    assert!(several.err.contains("--source: a, b"), "{}", several.err);
    write(&place, "config.toml", "");
    place.run(&["webhook", "test", "issue.json"]).expect(2);
}

#[test]
fn a_challenge_is_nobodys_job() {
    let place = project();
    write(&place, "config.toml", "[webhooks.chat]\ntype = \"slack\"\nsecret = \"env:HOOK\"\n");
    write(&place, "hello.json", r#"{"type":"url_verification","challenge":"abc"}"#);
    let ran = place.run(&["webhook", "test", "hello.json"]).expect(2);
    assert!(ran.out.contains("it is answered with: abc"), "{}", ran.out);
}

#[test]
fn a_list_of_more_deliveries_than_one_answer_has_is_refused_with_the_most() {
    let refused = Place::sqlite().run(&["webhook", "ls", "--limit", "1001"]).expect(9);
    assert!(refused.err.contains("1..=1000"), "{}", refused.err);
}
