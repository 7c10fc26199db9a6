//! Every scheme against a signer that is not ours, and what is refused although it is signed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bell_core::work::Wall;
use bell_intake::{
    Answer, Delivery, Event, HmacScheme, Kind, Origin, Refused, Secret, Source, Trust, Verified,
};
use serde_json::{Value, json};

const NOW: Wall = Wall(1_700_000_000_000);
const SECS: u64 = 1_700_000_000;
const SECRET: &str = "hunter2-canary";

/// The signature that a real signer makes.
fn signature(request: Value) -> String {
    support::ask(&[request])[0]["signature"].as_str().unwrap().to_owned()
}

fn source(kind: Kind, secrets: &[&str]) -> Source {
    let secrets = secrets.iter().map(|secret| Secret::new(secret).unwrap()).collect();
    Source::new("there", kind, Trust::Signed(secrets))
}

fn delivery<'a>(headers: &[(&'a str, &'a str)], body: &'a str) -> Delivery<'a> {
    let headers = headers.iter().map(|&(name, value)| (name, value.as_bytes()));
    Delivery::new(headers, body.as_bytes().to_vec()).unwrap()
}

fn event(verified: Result<Verified, Refused>) -> Event {
    match verified.unwrap() {
        Verified::Event(event) => *event,
        Verified::Question(answer) => panic!("{answer:?}"),
    }
}

fn question(verified: Result<Verified, Refused>) -> Answer {
    match verified.unwrap() {
        Verified::Question(answer) => answer,
        Verified::Event(event) => panic!("{event:?}"),
    }
}

#[test]
fn sentry_signs_the_body_in_hex() {
    let body = json!({"action": "created", "actor": {"name": "Ada"}, "data": {"issue": {
        "id": "1170820242", "shortId": "APP-1A", "title": "TypeError", "status": "unresolved",
        "project": {"slug": "app"}, "web_url": "https://sentry.example/issues/1170820242/"}}})
    .to_string();
    let signed = signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
    let headers =
        [("Sentry-Hook-Signature", signed.as_str()), ("Sentry-Hook-Resource", "issue"), ("Request-ID", "r1")];
    let event = event(delivery(&headers, &body).verify(&source(Kind::Sentry, &[SECRET]), NOW));
    let context = event.context();
    assert_eq!((context.event.as_str(), context.number), ("issue", Some(1_170_820_242)));
    assert_eq!((context.identifier.as_deref(), context.project.as_deref()), (Some("APP-1A"), Some("app")));
    assert_eq!(event.id().as_str(), "r1");
}

#[test]
fn linear_signs_the_body_and_the_body_says_when() {
    let body = |at: u64| {
        json!({"action": "create", "type": "Issue", "webhookTimestamp": at, "actor": {"name": "Ada"},
            "url": "https://linear.example/ENG-7", "organizationId": "o1", "data": {"number": 7, "identifier": "ENG-7",
            "title": "Broken", "team": {"key": "ENG"}, "labels": [{"name": "bug"}]}})
        .to_string()
    };
    let verify = |at: u64| {
        let body = body(at);
        let signed = signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
        let headers = [("Linear-Signature", signed.as_str()), ("Linear-Delivery", "d1")];
        delivery(&headers, &body).verify(&source(Kind::Linear, &[SECRET]), NOW)
    };
    let context = event(verify(NOW.0 - 59_000)).context().clone();
    assert_eq!((context.event.as_str(), context.identifier.as_deref()), ("Issue", Some("ENG-7")));
    assert_eq!((context.labels, context.project.as_deref()), (vec!["bug".to_owned()], Some("ENG")));
    for at in [NOW.0 - 61_000, NOW.0 + 61_000, 0] {
        assert!(matches!(verify(at), Err(Refused::Stale(_))), "{at}");
    }
}

#[test]
fn mintlify_signs_the_body_and_gives_no_id() {
    let body = json!({"event": "build", "status": "failed", "project": "docs", "branch": "main"}).to_string();
    let signed = signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
    for header in [signed.clone(), format!("sha256={signed}")] {
        let delivery = delivery(&[("x-mintlify-signature", &header)], &body);
        let event = event(delivery.verify(&source(Kind::Mintlify, &[SECRET]), NOW));
        assert_eq!(
            (event.context().event.as_str(), event.context().branch.as_deref()),
            ("build", Some("main"))
        );
        assert_eq!(event.id().origin(), Origin::Derived);
        assert!(event.id().as_str().starts_with("sha256-"));
    }
}

fn slack(body: &str, content_type: &str, at: u64) -> Result<Verified, Refused> {
    let signed =
        signature(json!({"scheme": "slack", "secret": SECRET, "time": at.to_string(), "body": body}));
    let time = at.to_string();
    let headers = [
        ("X-Slack-Signature", signed.as_str()),
        ("X-Slack-Request-Timestamp", time.as_str()),
        ("Content-Type", content_type),
    ];
    delivery(&headers, body).verify(&source(Kind::Slack, &[SECRET]), NOW)
}

#[test]
fn slack_signs_time_and_body_and_its_challenge_is_answered_only_if_it_is_signed() {
    let body =
        r#"{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}"#;
    let answer = question(slack(body, "application/json", SECS));
    assert_eq!((answer.status, answer.body.len()), (200, 52));
    assert!(matches!(slack(body, "application/json", SECS - 301), Err(Refused::Stale(_))));
    let unsigned = delivery(&[], body).verify(&source(Kind::Slack, &[SECRET]), NOW);
    assert_eq!(unsigned.unwrap_err().status(), 401);
}

#[test]
fn slack_events_commands_and_interactions_are_read() {
    let body = json!({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": {
        "type": "app_mention", "user": "U1", "text": "<@U0> look", "ts": "1.2", "channel": "C1"}})
    .to_string();
    let told = event(slack(&body, "application/json", SECS));
    assert_eq!((told.id().as_str(), told.context().event.as_str()), ("Ev1", "app_mention"));
    assert_eq!(told.context().comment.as_deref(), Some("<@U0> look"));
    let form = "application/x-www-form-urlencoded";
    let told =
        event(slack("command=%2Fbell&text=do+it&user_name=ada&channel_name=ops&trigger_id=1.2", form, SECS));
    assert_eq!(
        (told.context().event.as_str(), told.context().action.as_deref()),
        ("slash_command", Some("/bell"))
    );
    assert_eq!(
        (told.context().comment.as_deref(), told.context().channel.as_deref()),
        (Some("do it"), Some("ops"))
    );
    let pressed = "payload=%7B%22type%22%3A%22block_actions%22%2C%22actions%22%3A%5B%7B%22action_id%22%3A%22go%22%7D%5D%7D";
    let told = event(slack(pressed, form, SECS));
    assert_eq!(
        (told.context().event.as_str(), told.context().action.as_deref()),
        ("block_actions", Some("go"))
    );
}

/// The example of Slack's documentation.
#[test]
fn slack_signatures_are_those_of_the_documented_example() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let headers = [
        ("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        ("X-Slack-Request-Timestamp", "1531420618"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let source = source(Kind::Slack, &["8f742231b10e8888abcd99yyyzzz85a5"]);
    let event = event(delivery(&headers, body).verify(&source, Wall(1_531_420_618_000)));
    assert_eq!(event.context().action.as_deref(), Some("/webhook-collect"));
}

/// The first key pair of RFC 8032.
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

fn discord(body: &Value, at: u64) -> Result<Verified, Refused> {
    let (body, time) = (body.to_string(), at.to_string());
    let signed = signature(json!({"scheme": "discord", "secret": SEED, "time": time, "body": body}));
    let headers = [("X-Signature-Ed25519", signed.as_str()), ("X-Signature-Timestamp", time.as_str())];
    delivery(&headers, &body).verify(&source(Kind::Discord, &[PUBLIC_KEY]), NOW)
}

#[test]
fn discord_signs_with_ed25519_and_its_pings_are_answered() {
    let ping = json!({"type": 1, "id": "1", "token": "t", "application_id": "a"});
    assert_eq!(question(discord(&ping, SECS)).body, r#"{"type":1}"#);
    assert!(matches!(discord(&ping, SECS + 301), Err(Refused::Stale(_))));
    assert_eq!(question(discord(&json!({"version": 1, "application_id": "a", "type": 0}), SECS)).status, 204);
    let command = json!({"type": 2, "id": "9", "token": "t", "guild_id": "g", "channel_id": "c",
        "member": {"user": {"username": "ada"}}, "data": {"name": "triage", "options": [{"name": "issue", "value": 42}]}});
    let told = event(discord(&command, SECS));
    assert_eq!((told.id().as_str(), told.context().event.as_str()), ("9", "application_command"));
    assert_eq!(
        (told.context().action.as_deref(), told.context().sender.as_deref()),
        (Some("triage"), Some("ada"))
    );
    assert!(told.answer().unwrap().body.contains("\"type\":4"));
    let joined = json!({"version": 1, "type": 1, "event": {"type": "APPLICATION_AUTHORIZED", "data": {"user": {"id": "7"}}}});
    let told = event(discord(&joined, SECS));
    assert_eq!(
        (told.context().event.as_str(), told.id().origin()),
        ("APPLICATION_AUTHORIZED", Origin::Derived)
    );
}

const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn standard(id: &str, at: u64, body: &str, header: impl Fn(String) -> String) -> Result<Verified, Refused> {
    let request =
        json!({"scheme": "standard-webhooks", "secret": STANDARD_SECRET, "id": id, "time": at, "body": body});
    let (signed, time) = (header(signature(request)), at.to_string());
    let headers = [("webhook-id", id), ("webhook-timestamp", &time), ("webhook-signature", &signed)];
    delivery(&headers, body).verify(&source(Kind::StandardWebhooks, &[STANDARD_SECRET]), NOW)
}

#[test]
fn standard_webhooks_sign_id_time_and_body() {
    let body =
        json!({"type": "ticket.created", "data": {"title": "Broken", "number": 7, "labels": ["a", "b"]}})
            .to_string();
    let told = event(standard("msg_1", SECS, &body, |signed| signed));
    assert_eq!((told.id().as_str(), told.context().event.as_str()), ("msg_1", "ticket.created"));
    assert_eq!((told.context().number, told.context().labels.len()), (Some(7), 2));
    let payload: Value = serde_json::from_str(&told.payload()).unwrap();
    assert_eq!(payload["data"]["data"]["title"], "Broken", "it comes whole");
    for at in [SECS - 301, SECS + 301] {
        assert!(matches!(standard("msg_1", at, &body, |signed| signed), Err(Refused::Stale(_))));
    }
    let other = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert!(
        standard("msg_1", SECS, &body, |signed| format!("{other} v2,AAAA {signed}")).is_ok(),
        "one of several"
    );
    assert!(
        standard("msg_1", SECS, &body, |signed| signed.replace("v1,", "v2,")).is_err(),
        "of another version"
    );
    assert!(standard("a.b", SECS, &body, |signed| signed).is_err(), "an id that could be read in two ways");
}

/// The example of the Standard Webhooks libraries.
#[test]
fn standard_webhooks_are_those_of_the_documented_example() {
    let headers = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let source = source(Kind::StandardWebhooks, &[STANDARD_SECRET]);
    assert!(delivery(&headers, r#"{"test": 2432232314}"#).verify(&source, Wall(1_614_265_330_000)).is_ok());
}

#[test]
fn a_generic_source_is_as_its_settings_say() {
    let body =
        json!({"ticket": {"id": 42, "subject": "Help"}, "event": "opened", "author": "ada"}).to_string();
    let signed = signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
    let scheme = HmacScheme {
        header: "X-Desk-Signature".into(),
        prefix: "t=".into(),
        id_header: Some("X-Desk-Id".into()),
        ..HmacScheme::default()
    };
    let mut source = source(Kind::Hmac(scheme), &[SECRET]);
    source.fields =
        [("number", "ticket.id"), ("title", "ticket.subject")].map(|(a, b)| (a.into(), b.into())).into();
    let signature = format!("t={signed}");
    let told = delivery(&[("x-desk-signature", &signature), ("x-desk-id", "d-1")], &body);
    let told = event(told.verify(&source, NOW));
    let context = told.context();
    assert_eq!(
        (context.number, context.title.as_deref(), context.author.as_deref()),
        (Some(42), Some("Help"), Some("ada"))
    );
    assert_eq!((context.event.as_str(), told.id().as_str()), ("opened", "d-1"));
    let bare = delivery(&[("x-desk-signature", &signed)], &body).verify(&source, NOW);
    assert_eq!(bare.unwrap_err(), Refused::Forged);
}

#[test]
fn while_one_secret_replaces_another_both_count_and_later_the_old_one_does_not() {
    let body = "{}";
    let signed = signature(json!({"scheme": "github", "secret": SECRET, "body": body}));
    let delivery = delivery(&[("X-Hub-Signature-256", signed.as_str()), ("X-GitHub-Event", "ping")], body);
    assert!(delivery.verify(&source(Kind::Github, &["new", SECRET]), NOW).is_ok());
    assert_eq!(delivery.verify(&source(Kind::Github, &["new"]), NOW).unwrap_err(), Refused::Forged);
    assert_eq!(delivery.verify(&source(Kind::Github, &[]), NOW).unwrap_err(), Refused::NoSecret);
}
