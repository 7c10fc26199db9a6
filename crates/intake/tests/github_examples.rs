//! GitHub's own example payloads, signed by its own package: each is verified and read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bell_core::work::Wall;
use bell_intake::{Delivery, Event, Kind, Origin, Refused, Secret, Source, Trust, Verified};
use serde_json::{Value, json};

const SECRET: &str = "It's a Secret to Everybody";

fn source() -> Source {
    Source::new("hub", Kind::Github, Trust::Signed(vec![Secret::new(SECRET).unwrap()]))
}

struct Example {
    event: String,
    body: String,
    signature: String,
}

fn examples() -> Vec<Example> {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let answers = support::ask(&[json!({"scheme": "github-examples", "secret": SECRET})]);
    let example = |answer: &Value| Example {
        event: text(answer, "event"),
        body: text(answer, "body"),
        signature: text(answer, "signature"),
    };
    answers.iter().map(example).collect()
}

fn verify(example: &Example) -> Result<Event, Refused> {
    let headers = [
        ("X-GitHub-Event", example.event.as_bytes()),
        ("X-GitHub-Delivery", b"72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("X-Hub-Signature-256", example.signature.as_bytes()),
        ("Content-Type", b"application/json"),
    ];
    match Delivery::new(headers, example.body.clone().into_bytes())?.verify(&source(), Wall(0))? {
        Verified::Event(event) => Ok(*event),
        Verified::Question(answer) => panic!("{answer:?}"),
    }
}

#[test]
fn every_example_is_verified_and_says_source_event_repository_and_sender() {
    let examples = examples();
    assert_eq!(examples.len(), 329);
    for example in &examples {
        let event = verify(example).unwrap_or_else(|refused| panic!("{}: {refused}", example.event));
        let (context, body) = (event.context(), serde_json::from_str::<Value>(&example.body).unwrap());
        assert_eq!((context.source.as_str(), context.kind.as_str()), ("hub", "github"));
        assert_eq!(context.event, example.event);
        assert_eq!(event.id().origin(), Origin::Given);
        let same = |found: &Option<String>, path: &str| {
            assert_eq!(found.as_deref(), body.pointer(path).and_then(Value::as_str), "{}", example.event);
        };
        same(&context.repo, "/repository/full_name");
        same(&context.sender, "/sender/login");
        same(&context.action, "/action");
        for name in ["issue", "pull_request", "discussion"] {
            if let Some(number) = body.pointer(&format!("/{name}/number")).and_then(Value::as_u64) {
                assert_eq!(context.number, Some(number));
                same(&context.title, &format!("/{name}/title"));
            }
        }
        assert!(event.payload().len() < 64 << 10, "{}", example.event);
    }
}

/// What a change of the reading would change, seen at a few events of different shapes.
#[test]
fn what_is_read_of_well_known_events() {
    let examples = examples();
    let mut first: BTreeMap<(&str, Option<String>), Value> = BTreeMap::new();
    for example in &examples {
        let event = verify(example).unwrap();
        let mut payload: Value = serde_json::from_str(&event.payload()).unwrap();
        // Other people's sentences are theirs: how long they are tells enough.
        for name in ["title", "body", "comment"] {
            if let Some(text) = payload.get(name).and_then(Value::as_str) {
                payload[name] = json!(text.chars().count());
            }
        }
        first.entry((&example.event, event.context().action.clone())).or_insert(payload);
    }
    let wanted = [
        ("issues", Some("labeled")),
        ("issues", Some("assigned")),
        ("issue_comment", Some("created")),
        ("pull_request", Some("opened")),
        ("pull_request_review", Some("submitted")),
        ("push", None),
        ("create", None),
        ("release", Some("published")),
        ("workflow_run", Some("completed")),
        ("check_suite", Some("completed")),
        ("status", None),
        ("ping", None),
    ];
    let seen: Vec<&Value> =
        wanted.iter().map(|(event, action)| &first[&(*event, action.map(str::to_owned))]).collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&seen).unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/github_examples.json");
    if std::env::var_os("BELL_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(written, text, "if this is meant: BELL_WRITE_SNAPSHOTS=1 cargo test -p bell-intake");
}

#[test]
fn the_signature_of_one_example_is_none_of_any_other() {
    let examples = examples();
    let bodies: BTreeSet<&str> = examples.iter().map(|example| example.body.as_str()).collect();
    assert!(bodies.len() > 300, "they differ");
    for (example, next) in examples.iter().zip(examples.iter().skip(1)).filter(|(a, b)| a.body != b.body) {
        let forged = Example {
            event: next.event.clone(),
            body: next.body.clone(),
            signature: example.signature.clone(),
        };
        assert_eq!(verify(&forged).unwrap_err(), Refused::Forged);
    }
}
