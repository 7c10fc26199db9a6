//! The JSON of answers about locks, as scripts read it.

use bell_api::lock::{AcquireAnswer, HolderAnswer, KeyFence, ListAnswer, LockAnswer, Span};
use bell_api::outcome::Outcome;
use bell_api::token::Token;
use bell_core::key::Key;
use bell_core::lock::{Fence, Mode};
use bell_core::session::{Identity, SessionId};
use serde::Serialize;

fn key(text: &str) -> Key {
    Key::parse(text).expect("tests name keys")
}

fn holder() -> HolderAnswer {
    let who = Identity {
        agent: Some("triage".into()),
        run: Some("run-7".into()),
        node: Some("box-1".into()),
        pid: Some(4242),
        label: None,
    };
    let span = Span { held_ms: 90_000, left_ms: 1_710_000 };
    HolderAnswer::new(SessionId::from("s-1"), who, Mode::Exclusive, span, 1_234_567_980_123)
}

fn granted() -> LockAnswer {
    LockAnswer {
        fence: Some(Fence(17)),
        holder: Some(holder()),
        ttl_ms: Some(1_800_000),
        ..LockAnswer::new(Outcome::Granted, Some(key("deploy://api-prod")))
    }
}

fn json(answer: &impl Serialize) -> String {
    serde_json::to_string_pretty(answer).expect("answers are JSON")
}

#[test]
fn an_answer_has_the_five_fields_even_where_there_is_nothing_to_say() {
    let expected = r#"{
  "outcome": "invalid",
  "key": null,
  "fence": null,
  "holder": null,
  "ttl_ms": null
}"#;
    assert_eq!(json(&LockAnswer::new(Outcome::Invalid, None)), expected);
}

#[test]
fn an_acquire_answer_has_the_lease_and_the_token() {
    let answer = AcquireAnswer { lock: granted(), token: Some(Token::from("s3cret".to_owned())) };
    let expected = r#"{
  "outcome": "granted",
  "key": "deploy://api-prod",
  "fence": 17,
  "holder": {
    "session": "s-1",
    "agent": "triage",
    "run": "run-7",
    "node": "box-1",
    "pid": 4242,
    "label": null,
    "mode": "exclusive",
    "held_since": "2009-02-13T23:31:30.123Z",
    "held_ms": 90000,
    "left_ms": 1710000
  },
  "ttl_ms": 1800000,
  "token": "s3cret"
}"#;
    assert_eq!(json(&answer), expected);
}

#[test]
fn a_busy_answer_names_the_holder_and_has_no_token() {
    let lock = LockAnswer {
        waiting: Some(2),
        hint: Some(Outcome::Busy.next().to_owned()),
        outcome: Outcome::Busy,
        ..granted()
    };
    let text = json(&AcquireAnswer { lock, token: None });
    assert!(text.contains("\"outcome\": \"busy\""), "{text}");
    assert!(text.contains("\"session\": \"s-1\""), "{text}");
    assert!(text.contains("\"waiting\": 2"), "{text}");
    assert!(!text.contains("token"), "{text}");
}

#[test]
fn a_deadlock_answer_has_the_cycle() {
    let cycle = ["s-1", "job:b", "s-2", "job:a"].map(str::to_owned).to_vec();
    let answer = LockAnswer { cycle, ..LockAnswer::new(Outcome::Deadlock, Some(key("job:b"))) };
    let expected = r#"{"outcome":"deadlock","key":"job:b","fence":null,"holder":null,"ttl_ms":null,"cycle":["s-1","job:b","s-2","job:a"]}"#;
    assert_eq!(serde_json::to_string(&answer).unwrap(), expected);
}

#[test]
fn an_answer_for_several_keys_has_a_fence_for_each() {
    let keys = vec![
        KeyFence { key: key("job:a"), fence: Fence(5) },
        KeyFence { key: key("job:b"), fence: Fence(5) },
    ];
    let answer =
        LockAnswer { fence: Some(Fence(5)), keys, ..LockAnswer::new(Outcome::Granted, Some(key("job:a"))) };
    let expected = r#"{"outcome":"granted","key":"job:a","fence":5,"holder":null,"ttl_ms":null,"keys":[{"key":"job:a","fence":5},{"key":"job:b","fence":5}]}"#;
    assert_eq!(serde_json::to_string(&answer).unwrap(), expected);
}

#[test]
fn a_stale_write_is_told_which_fence_was_seen() {
    let answer = LockAnswer {
        fence: Some(Fence(4)),
        seen_fence: Some(Fence(9)),
        ..LockAnswer::new(Outcome::Stale, Some(key("job:a")))
    };
    let expected =
        r#"{"outcome":"stale","key":"job:a","fence":4,"holder":null,"ttl_ms":null,"seen_fence":9}"#;
    assert_eq!(serde_json::to_string(&answer).unwrap(), expected);
}

#[test]
fn already_held_is_said_only_when_it_is_so() {
    assert!(!json(&granted()).contains("already_held"));
    let again = LockAnswer { already_held: true, ..granted() };
    assert!(json(&again).contains("\"already_held\": true"));
}

#[test]
fn each_lock_of_a_list_reads_like_the_answer_to_show() {
    let shown = LockAnswer { outcome: Outcome::Held, waiting: Some(0), ..granted() };
    let list = ListAnswer { outcome: Outcome::Listed, locks: vec![shown.clone()], more: false };
    let value = serde_json::to_value(&list).unwrap();
    assert_eq!(value["outcome"], "listed");
    assert_eq!(value["more"], false);
    assert_eq!(value["locks"][0], serde_json::to_value(&shown).unwrap());
}

#[test]
fn an_answer_reads_back_as_it_was_written() {
    let lock = LockAnswer { shared_with: vec![holder()], message: Some("it is yours".into()), ..granted() };
    let text = json(&AcquireAnswer { lock: lock.clone(), token: Some(Token::from("s3cret".to_owned())) });
    let read: AcquireAnswer = serde_json::from_str(&text).unwrap();
    assert_eq!(read.lock, lock);
    assert_eq!(read.token.unwrap().reveal(), "s3cret");
}

#[test]
fn a_reader_ignores_fields_of_a_newer_service() {
    let text = r#"{"outcome":"free","key":"JOB:a","fence":null,"holder":null,"ttl_ms":null,"colour":"blue"}"#;
    let read: LockAnswer = serde_json::from_str(text).unwrap();
    assert_eq!(read, LockAnswer::new(Outcome::Free, Some(key("job:a"))));
}

#[test]
fn a_token_is_never_printed() {
    let answer = AcquireAnswer { lock: granted(), token: Some(Token::from("s3cret".to_owned())) };
    let words = format!("{answer:?}");
    assert!(!words.contains("s3cret"), "{words}");
    assert!(words.contains('…'), "{words}");
}
