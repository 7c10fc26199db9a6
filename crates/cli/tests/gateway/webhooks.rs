//! Deliveries from outside over HTTP: who is believed, what is stored, what starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use bell_coord::work::wall_now;
use serde_json::{Value, json};

use crate::served::{Reply, Served};
use crate::signers;
use crate::support::{Place, eventually};

pub(crate) const SECRET: &str = "hunter2-canary";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// A seed of Ed25519, and the public key that goes with it.
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// Every kind of source, and one that believes everybody.
const SOURCES: &str = r#"
[gateway]
port = 0

[webhooks.hub]
type = "github"
secret = "TEXT"

[webhooks.errors]
type = "sentry"
secret = "TEXT"

[webhooks.tickets]
type = "linear"
secret = "TEXT"

[webhooks.pages]
type = "mintlify"
secret = "TEXT"

[webhooks.chat]
type = "slack"
secret = "TEXT"

[webhooks.guild]
type = "discord"
secret = "PUBLIC"

[webhooks.standard]
type = "standard-webhooks"
secret = "WHSEC"

[webhooks.desk]
type = "hmac"
secret = "TEXT"
header = "X-Desk-Signature"
prefix = "sha256="
id_header = "X-Desk-Delivery"

[webhooks.open]
type = "hmac"
unsigned = "anyone-may-start-my-agents"

[webhooks.unset]
type = "github"
secret = "NOBODY_WROTE_THIS"
"#;

const NAMES: [&str; 9] = ["hub", "errors", "tickets", "pages", "chat", "guild", "standard", "desk", "open"];

pub(crate) fn secret(place: &Place, name: &str, text: &str) {
    let file = format!(".bell/secrets/{name}");
    place.write(&file, text);
    fs::set_permissions(place.path(&file), Permissions::from_mode(0o600)).unwrap();
}

/// Settings of an agent that wants everything of these sources.
pub(crate) fn wants(sources: &[&str]) -> String {
    sources.iter().map(|source| format!("[[webhooks]]\nsource = {source:?}\n")).collect()
}

/// A project with every kind of source, and an agent that wants everything.
pub(crate) fn place() -> Place {
    let place = Place::sqlite();
    place.write("config.toml", SOURCES);
    for (name, text) in [("TEXT", SECRET), ("PUBLIC", PUBLIC), ("WHSEC", WHSEC)] {
        secret(&place, name, text);
    }
    place.agent("hear", "cp \"$BELL_TRIGGER_FILE\" heard", &wants(&NAMES));
    place
}

/// A daemon on it that starts nothing, so that what is queued stays queued.
fn paused() -> Served {
    let place = place();
    place.run(&["pause"]).expect(0);
    Served::of(place)
}

fn signature(request: Value) -> String {
    signers::ask(&[request])[0]["signature"].as_str().unwrap().to_owned()
}

/// A delivery as its source sends it.
struct Sent {
    source: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Sent {
    fn to(&self, served: &Served) -> Reply {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        served.ask("POST", &format!("/webhooks/{}", self.source), &headers, self.body.as_bytes())
    }
}

fn issue(number: u64) -> String {
    json!({"action": "opened", "sender": {"login": "ada"}, "repository": {"full_name": "acme/app"},
        "issue": {"number": number, "title": "Broken; $(touch pwned) `touch pwned`", "user": {"login": "bob"}}})
    .to_string()
}

/// A delivery of GitHub, by GitHub's own signer.
fn github(id: &str, secret: &str, body: String) -> Sent {
    let signed = signature(json!({"scheme": "github", "secret": secret, "body": body}));
    let headers = vec![
        ("X-GitHub-Event", "issues".to_owned()),
        ("X-GitHub-Delivery", id.to_owned()),
        ("X-Hub-Signature-256", signed),
        ("Content-Type", "application/json".to_owned()),
    ];
    Sent { source: "hub", headers, body }
}

/// One of each source, signed now.
fn one_of_each() -> Vec<Sent> {
    let now_ms = wall_now().0;
    let secs = now_ms / 1_000;
    let hex = |body: &str| signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
    let sentry =
        json!({"action": "created", "data": {"issue": {"id": "7", "title": "TypeError"}}}).to_string();
    let linear =
        json!({"action": "create", "type": "Issue", "webhookTimestamp": now_ms, "data": {"number": 7}})
            .to_string();
    let mintlify = json!({"event": "deployment.succeeded", "data": {"id": "1"}}).to_string();
    let slack = json!({"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention", "channel": "C1"}}).to_string();
    let discord = json!({"type": 2, "id": "42", "token": "t", "data": {"name": "deploy"}}).to_string();
    let standard = json!({"type": "invoice.paid", "data": {"number": 7}}).to_string();
    let desk = json!({"event": "ticket", "number": 7}).to_string();
    let timed = |scheme: &str, secret: &str, body: &str| {
        signature(json!({"scheme": scheme, "secret": secret, "time": secs, "id": "msg_1", "body": body}))
    };
    let discord_signed =
        signature(json!({"scheme": "discord", "secret": SEED, "time": secs.to_string(), "body": discord}));
    vec![
        github("d-1", SECRET, issue(42)),
        Sent {
            source: "errors",
            headers: vec![
                ("Sentry-Hook-Signature", hex(&sentry)),
                ("Sentry-Hook-Resource", "issue".into()),
                ("Request-ID", "r-1".into()),
            ],
            body: sentry,
        },
        Sent {
            source: "tickets",
            headers: vec![("Linear-Signature", hex(&linear)), ("Linear-Delivery", "l-1".into())],
            body: linear,
        },
        Sent { source: "pages", headers: vec![("X-Mintlify-Signature", hex(&mintlify))], body: mintlify },
        Sent {
            source: "chat",
            headers: vec![
                ("X-Slack-Signature", timed("slack", SECRET, &slack)),
                ("X-Slack-Request-Timestamp", secs.to_string()),
            ],
            body: slack,
        },
        Sent {
            source: "guild",
            headers: vec![
                ("X-Signature-Ed25519", discord_signed),
                ("X-Signature-Timestamp", secs.to_string()),
            ],
            body: discord,
        },
        Sent {
            source: "standard",
            headers: vec![
                ("webhook-id", "msg_1".into()),
                ("webhook-timestamp", secs.to_string()),
                ("webhook-signature", timed("standard-webhooks", WHSEC, &standard)),
            ],
            body: standard,
        },
        Sent {
            source: "desk",
            headers: vec![
                ("X-Desk-Signature", format!("sha256={}", hex(&desk))),
                ("X-Desk-Delivery", "t-1".into()),
            ],
            body: desk.clone(),
        },
        Sent { source: "open", headers: Vec::new(), body: desk },
    ]
}

fn listed(served: &Served, query: &str) -> Vec<Value> {
    served.get(&format!("/v1/deliveries{query}")).expect(200).json()["deliveries"].as_array().unwrap().clone()
}

fn queued(place: &Place, agent: &str) -> u32 {
    place.waiting(agent)
}

#[test]
fn every_source_is_heard_once_and_what_came_of_it_is_on_record() {
    let served = paused();
    for sent in one_of_each() {
        let first = sent.to(&served);
        // Discord wants an answer that people see; everybody else hears what came of it.
        if sent.source == "guild" {
            assert_eq!(first.expect(200).json()["type"], 4);
            continue;
        }
        let first = first.expect(202).json();
        assert_eq!((&first["outcome"], &first["verdict"]), (&json!("written"), &json!("queued")), "{first}");
        assert_eq!((&first["source"], &first["jobs"][0]["agent"]), (&json!(sent.source), &json!("hear")));
        let again = sent.to(&served).expect(202).json();
        assert_eq!((&again["verdict"], &again["jobs"]), (&json!("duplicate"), &first["jobs"]), "{again}");
    }
    assert_eq!(queued(&served.place, "hear"), 9, "a paused fleet takes them on all the same");
    let all = listed(&served, "");
    assert_eq!(all.len(), 9);
    assert!(all.iter().all(|row| row["verdict"] == "queued"), "{all:?}");
    assert_eq!(all[0]["source"], "open", "the latest first");
    assert_eq!(listed(&served, "?source=hub")[0]["delivery"], "d-1");
}

#[test]
fn questions_are_answered_and_nothing_is_stored_of_them() {
    let served = paused();
    let secs = (wall_now().0 / 1_000).to_string();
    let body = json!({"type": "url_verification", "challenge": "3eZbrw1aB"}).to_string();
    let signed = signature(json!({"scheme": "slack", "secret": SECRET, "time": secs, "body": body}));
    let headers = vec![("X-Slack-Signature", signed), ("X-Slack-Request-Timestamp", secs.clone())];
    let challenge = Sent { source: "chat", headers, body }.to(&served).expect(200);
    assert_eq!(challenge.body, b"3eZbrw1aB");
    let body = json!({"type": 1, "id": "1", "token": "t"}).to_string();
    let signed = signature(json!({"scheme": "discord", "secret": SEED, "time": secs, "body": body}));
    let headers = vec![("X-Signature-Ed25519", signed), ("X-Signature-Timestamp", secs)];
    assert_eq!(Sent { source: "guild", headers, body }.to(&served).expect(200).json(), json!({"type": 1}));
    assert_eq!(listed(&served, "").len(), 0);
}

#[test]
fn a_delivery_starts_its_agent_with_the_payload_as_data() {
    let served = Served::of(place());
    let answer = github("d-1", SECRET, issue(42)).to(&served).expect(202).json();
    let job = answer["jobs"][0]["job"].as_str().unwrap();
    eventually("the agent ran", || served.place.ends() == ["completed"]);
    let heard: Value =
        serde_json::from_str(&fs::read_to_string(served.place.path("heard")).unwrap()).unwrap();
    assert_eq!(
        (&heard["repo"], &heard["number"], &heard["delivery"]),
        (&json!("acme/app"), &json!(42), &json!("d-1"))
    );
    assert_eq!(heard["title"], "Broken; $(touch pwned) `touch pwned`");
    assert!(!served.place.path("pwned").exists());
    assert_eq!(served.get(&format!("/v1/jobs/{job}")).expect(200).json()["job"], job);
}

#[test]
fn what_is_not_believed_or_not_readable_is_refused_and_leaves_nothing() {
    let served = paused();
    let good = github("d-1", SECRET, issue(1));
    let with = |headers: &[(&str, &str)], body: &[u8]| served.ask("POST", "/webhooks/hub", headers, body);
    // GitHub's own signer refuses to sign nothing.
    let hex = |body: &str| signature(json!({"scheme": "hex", "secret": SECRET, "body": body}));
    let signed = |body: &str| format!("sha256={}", hex(body));
    let event = ("X-GitHub-Event", "issues");
    let body = good.body.as_bytes();
    let right = signed(&good.body);
    let forged = github("d-1", "another secret", issue(1)).headers[2].1.clone();
    with(&[event, ("X-Hub-Signature-256", &forged)], body).refused(401, "unauthorized");
    with(&[event], body).refused(401, "unauthorized");
    with(&[event, ("X-Hub-Signature-256", &right)], b"{}").refused(401, "unauthorized");
    with(&[event, ("X-Hub-Signature-256", &right.to_uppercase())], body).refused(401, "unauthorized");
    with(&[event, ("X-Hub-Signature-256", &right), ("X-Hub-Signature-256", &forged)], body)
        .refused(400, "invalid");
    with(&[("X-Hub-Signature-256", &right)], body).refused(400, "invalid");
    for text in ["", "{", "null null", "[1,2", "\u{7f}"] {
        with(&[event, ("X-Hub-Signature-256", &signed(text))], text.as_bytes()).refused(400, "invalid");
    }
    let deep = "[".repeat(10_000);
    with(&[event, ("X-Hub-Signature-256", &signed(&deep))], deep.as_bytes()).refused(400, "invalid");
    let long_id = "x".repeat(129);
    with(&[event, ("X-Hub-Signature-256", &right), ("X-GitHub-Delivery", &long_id)], body)
        .refused(400, "invalid");
    let with_source = |source: &str| {
        served.ask("POST", &format!("/webhooks/{source}"), &[event, ("X-Hub-Signature-256", &right)], body)
    };
    with_source("unset").refused(401, "unauthorized");
    for nobody in ["nobody", "%ff", "..%2f", "hub%00", ""] {
        with_source(nobody).refused(404, "not_found");
    }
    served.ask("GET", "/webhooks/hub", &[], b"").refused(405, "invalid");
    let secs = (wall_now().0 / 1_000 - 301).to_string();
    let old =
        json!({"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}}).to_string();
    let old_signed = signature(json!({"scheme": "slack", "secret": SECRET, "time": secs, "body": old}));
    let headers = [("X-Slack-Signature", old_signed.as_str()), ("X-Slack-Request-Timestamp", secs.as_str())];
    served.ask("POST", "/webhooks/chat", &headers, old.as_bytes()).refused(401, "unauthorized");
    assert_eq!(listed(&served, "").len(), 0);
    assert_eq!(queued(&served.place, "hear"), 0);
    let metrics = String::from_utf8(served.get("/metrics").expect(200).body).unwrap();
    for series in [
        r#"{source="hub",verdict="bad_signature"} 3"#,
        r#"{source="hub",verdict="unsigned"} 1"#,
        r#"{source="chat",verdict="stale"} 1"#,
    ] {
        assert!(metrics.contains(&format!("bell_webhook_deliveries_total{series}")), "{series}: {metrics}");
    }
    good.to(&served).expect(202);
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let served = paused();
    let announced = |source: &str, bytes: usize| {
        let head = format!(
            "POST /webhooks/{source} HTTP/1.1\r\nHost: {}\r\nContent-Length: {bytes}\r\n\r\n",
            served.address
        );
        Reply::parse(&served.raw(head.as_bytes())).unwrap()
    };
    announced("hub", (25 << 20) + 1).refused(413, "invalid");
    announced("open", (1 << 20) + 1).refused(413, "invalid");
    // Without saying so beforehand.
    let mut endless = format!(
        "POST /webhooks/open HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        served.address
    )
    .into_bytes();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    endless.extend(chunk.repeat(17));
    Reply::parse(&served.raw(&endless)).unwrap().refused(413, "invalid");
    assert_eq!(listed(&served, "").len(), 0);
}

#[test]
fn a_large_delivery_is_taken_and_says_that_its_body_was_not_kept() {
    let served = paused();
    let body = json!({"action": "opened", "repository": {"full_name": "acme/app"}, "issue": {"number": 1, "body": "x".repeat(1 << 20)}}).to_string();
    github("d-1", SECRET, body).to(&served).expect(202);
    let shown = served.get("/v1/deliveries/d-1").expect(200).json();
    assert!(shown["bytes"].as_u64().unwrap() > 1 << 20, "{}", shown["bytes"]);
    assert!(shown.get("body").is_none());
    served.post("/v1/deliveries/d-1/replay", &json!({})).refused(400, "invalid");
}

#[test]
fn where_a_queue_is_full_the_sender_is_told_to_come_again_and_then_it_works() {
    let place = place();
    place.agent(
        "narrow",
        "true",
        &format!("work_queue_size = 1\noverflow = \"reject\"\n{}", wants(&["hub"])),
    );
    place.run(&["pause"]).expect(0);
    let served = Served::of(place);
    github("d-1", SECRET, issue(1)).to(&served).expect(202);
    let second = github("d-2", SECRET, issue(2));
    let refused = second.to(&served).refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!((queued(&served.place, "hear"), queued(&served.place, "narrow")), (2, 1));
    assert_eq!(listed(&served, "?verdict=full")[0]["delivery"], "d-2");
    served.post("/v1/agents/narrow/clear", &json!({})).expect(200);
    let again = second.to(&served).expect(202).json();
    assert_eq!((&again["verdict"], again["jobs"].as_array().unwrap().len()), (&json!("queued"), 2));
    assert_eq!((queued(&served.place, "hear"), queued(&served.place, "narrow")), (2, 1));
    assert_eq!(second.to(&served).expect(202).json()["verdict"], "duplicate");
}

#[test]
fn a_new_secret_counts_without_a_restart() {
    let served = paused();
    let new = github("d-1", "the next secret", issue(1));
    new.to(&served).refused(401, "unauthorized");
    secret(&served.place, "TEXT", "the next secret");
    eventually("the new secret counts", || new.to(&served).status == 202);
    github("d-2", SECRET, issue(2)).to(&served).refused(401, "unauthorized");
}

#[test]
fn operators_list_show_and_replay_with_and_without_the_daemon() {
    let mut served = paused();
    github("d-1", SECRET, issue(42)).to(&served).expect(202);
    let by_key = served.post("/v1/deliveries/d-1/replay", &json!({"by": "ada"})).expect(200).json();
    assert_eq!((&by_key["verdict"], queued(&served.place, "hear")), (&json!("queued"), 2));
    served.get("/v1/deliveries/d-7").refused(404, "not_found");
    served.get("/v1/deliveries/d-1?source=desk").refused(404, "not_found");
    served.stop();

    let list = served.place.json(&["webhook", "ls"]);
    let rows = list["deliveries"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["replay_of"], &rows[0]["by"]),
        (2, &json!("d-1"), &json!("ada (key local)")),
        "{list}"
    );
    let shown = served.place.run(&["webhook", "show", "d-1"]).expect(0).out;
    for line in
        ["hub: issues/opened of acme/app", "verdict: queued", "    + source: hub", "x-github-event: issues"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("sha256="), "no signature is kept: {shown}");

    // Matched with the project as it is now.
    served.place.agent("hear", "true", &wants(&["desk"]));
    let unwanted = served.place.run(&["--json", "webhook", "replay", "d-1"]).expect(2).json();
    assert_eq!(unwanted["verdict"], "unmatched");
    served.place.agent("hear", "true", &format!("{}events = \"issues\"\n", wants(&["hub"])));
    let replayed = served.place.json(&["webhook", "replay", "d-1"]);
    assert_eq!((&replayed["verdict"], queued(&served.place, "hear")), (&json!("queued"), 1), "{replayed}");
    served.place.run(&["webhook", "show", "d-7"]).expect(2);
}
