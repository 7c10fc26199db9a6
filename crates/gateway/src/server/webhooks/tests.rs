//! The short way and the router answer alike, whatever is delivered and however wrongly.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bell_core::work::agent::AgentName;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{BODY_BYTES_MAX, is_delivery};
use crate::server::both_ways::{Answered, Sending, read, visit};
use crate::server::routes::router;
use crate::server::{Server, scene};

const SECRET: &str = "It's a Secret to Everybody";
const BODY: &str = r#"{"action":"opened","issue":{"number":1,"title":"A bug"}}"#;

/// A project with a source and an agent that wants issues of it.
fn project(folder: &Path) {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("config.toml", "[webhooks.hub]\ntype = \"github\"\nsecret = \"HUB\"\n");
    write("agents/a/SKILL.md", "---\nname: a\ndescription: One.\n---\nDo it.\n");
    write("agents/a/config.toml", "run = [\"true\"]\n[[webhooks]]\nsource = \"hub\"\nevents = \"issues\"\n");
    write(".bell/secrets/HUB", SECRET);
    fs::set_permissions(folder.join(".bell/secrets/HUB"), Permissions::from_mode(0o600)).unwrap();
}

fn signature(body: &str) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let code: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={code}")
}

/// A delivery, to be sent both ways.
fn delivery(id: &str, body: &str) -> Sending {
    Sending::json("/webhooks/hub", body)
        .and("x-github-event", "issues")
        .and("x-github-delivery", id)
        .and("x-hub-signature-256", &signature(body))
}

async fn by_the_router(sending: &Sending, server: &Server) -> Answered {
    sending.by_the_router(router(server.clone())).await
}

async fn by_the_short_way(sending: &Sending, server: &Server) -> Answered {
    let request = sending.made();
    assert!(is_delivery(&request), "{sending:?}");
    read(super::by_the_short_way(server.clone(), visit(), request).await).await
}

#[tokio::test]
async fn whatever_is_refused_is_refused_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path());
    let (server, coord) = scene::server(folder.path());
    let right = || delivery("d-1", BODY);
    let wrong = [
        right().without("host"),
        right().with("host", "evil.example"),
        right().and("host", "localhost"),
        right().and("origin", "http://evil.example"),
        right().and("sec-fetch-site", "cross-site"),
        right().and("content-length", "1").and("transfer-encoding", "chunked"),
        right().to("http://localhost/webhooks/hub"),
        right().to("/webhooks/nobody"),
        right().without("x-hub-signature-256"),
        right().with("x-hub-signature-256", "sha256=00"),
        right().with("x-hub-signature-256", &signature("{}")),
        right().and("x-hub-signature-256", &signature(BODY)),
        right().without("x-github-event"),
        right().with("x-github-delivery", "a b"),
        delivery("d-2", "no json"),
        delivery("d-3", ""),
        delivery("d-4", &"x".repeat(BODY_BYTES_MAX + 1)),
    ];
    for sending in wrong {
        let (router, short) =
            (by_the_router(&sending, &server).await, by_the_short_way(&sending, &server).await);
        assert_eq!(router, short, "{:?} {:?}", sending.target, sending.headers);
        assert!(router.0 >= 400, "{router:?}");
    }
    let stored = coord.deliveries(None, 10).await.unwrap().rows;
    assert!(stored.is_empty(), "nothing is kept of what was refused");
}

#[tokio::test]
async fn whatever_is_taken_is_taken_in_the_same_words_and_once() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path());
    let (server, coord) = scene::server(folder.path());
    let long = format!(r#"{{"action":"opened","issue":{{"number":1,"body":"{}"}}}}"#, "x".repeat(300 << 10));
    for (number, body) in [BODY, r#"{"action":"closed"}"#, &long].into_iter().enumerate() {
        let names = [format!("by-router-{number}"), format!("by-short-{number}")];
        let [by_router, by_short] = names.each_ref().map(|name| delivery(name, body));
        let (router, short) =
            (by_the_router(&by_router, &server).await, by_the_short_way(&by_short, &server).await);
        assert_eq!((router.0, short.0), (202, 202), "{short:?}");
        assert_eq!(router.1, short.1);
        assert_eq!((&router.2["verdict"], &short.2["verdict"]), (&"queued".into(), &"queued".into()));
        let (router, short) =
            (by_the_router(&by_short, &server).await, by_the_short_way(&by_router, &server).await);
        assert_eq!((&router.2["verdict"], &short.2["verdict"]), (&"duplicate".into(), &"duplicate".into()));
    }
    let agent: AgentName = "a".parse().unwrap();
    assert_eq!(coord.line(&agent).await.unwrap().waiting, 6);
}

#[test]
fn the_short_way_leads_to_plain_names_only() {
    let is_short = |method: &str, target: &str| {
        is_delivery(&http::Request::builder().method(method).uri(target).body(()).unwrap())
    };
    assert!(is_short("POST", "/webhooks/hub") && is_short("POST", "/webhooks/hub-2_x?a=b"));
    for target in
        ["/webhooks/", "/webhooks", "/webhooks/a/b", "/webhooks/%68ub", "/webhooks/hub/", "/v1/webhooks/a"]
    {
        assert!(!is_short("POST", target), "{target}");
    }
    assert!(!is_short("GET", "/webhooks/hub"));
}
