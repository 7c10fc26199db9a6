//! The short way and the router answer alike, whatever is asked and however wrongly.

use axum::Router;
use bell_coord::keys::Role;
use bell_coord::{Coord, Session};
use bell_core::session::{Identity, SESSION_TTL};
use serde_json::Value;

use super::*;
use crate::limits::{BODY_BYTES_MAX, JSON_DEPTH_MAX, MOMENTS_MAX};
use crate::parking::Parking;
use crate::server::both_ways::{Answered, Sending, read, visit};
use crate::server::routes::router;
use crate::server::scene;

const ACQUIRE: &str = r#"{"keys":["deploy://x"],"request_id":"r1"}"#;

/// A server with both ways to it, a session there and a key.
struct Scene {
    server: Server,
    router: Router,
    coord: Coord,
    session: Session,
    key: String,
    _folder: tempfile::TempDir,
}

/// A request of a session or a key, to be sent both ways.
fn sending(target: &'static str, token: &str, body: &str) -> Sending {
    Sending::json(target, body).and("authorization", &format!("Bearer {token}"))
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (server, coord) = scene::server(folder.path());
        let key = coord.add_key(&"test".parse().unwrap(), Role::Full).await.unwrap().unwrap().expose();
        let session = coord.open_session(Identity::default(), Some(SESSION_TTL)).await.unwrap();
        Self { router: router(server.clone()), server, coord, session, key, _folder: folder }
    }

    fn token(&self) -> String {
        self.session.token().expose()
    }

    async fn by_the_router(&self, sending: &Sending) -> Answered {
        sending.by_the_router(self.router.clone()).await
    }

    async fn by_the_short_way(&self, sending: &Sending) -> Answered {
        let request = sending.made();
        let act = Act::of(&request).unwrap();
        read(act.answer(self.server.clone(), visit(), request).await).await
    }
}

#[tokio::test]
async fn whatever_is_refused_is_refused_in_the_same_words() {
    let scene = Scene::new().await;
    let right = sending("/v1/locks/acquire", &scene.token(), ACQUIRE);
    let to = |target, body: &str| sending(target, &scene.token(), body);
    let wrong = [
        right.clone().without("authorization"),
        right.clone().and("authorization", "Bearer x"),
        sending("/v1/locks/acquire", "nobody", ACQUIRE),
        sending("/v1/locks/acquire", &scene.key, ACQUIRE),
        right.clone().without("host"),
        right.clone().without("host").and("host", "evil.example"),
        right.clone().and("host", "localhost"),
        right.clone().and("content-length", "1").and("transfer-encoding", "chunked"),
        right.clone().and("origin", "http://evil.example"),
        right.clone().and("sec-fetch-site", "cross-site"),
        right.clone().without("content-type"),
        right.clone().and("content-type", "application/json"),
        to("http://localhost/v1/locks/acquire", ACQUIRE),
        to("/v1/locks/acquire", "[]"),
        to("/v1/locks/acquire", r#"{"keys":["deploy://x"],"request_id":"r1","colour":"red"}"#),
        to("/v1/locks/acquire", r#"{"keys":["no key"],"request_id":"r1"}"#),
        to("/v1/locks/acquire", r#"{"keys":["bell:x"],"request_id":"r1"}"#),
        to("/v1/locks/acquire", &" ".repeat(BODY_BYTES_MAX + 1)),
        to("/v1/locks/acquire", &"[".repeat(JSON_DEPTH_MAX + 1)),
        to("/v1/locks/release", r#"{"key":"deploy://never"}"#),
        to("/v1/locks/renew", r#"{"key":"deploy://never"}"#),
    ];
    for sending in wrong {
        let (status, headers, body) = scene.by_the_short_way(&sending).await;
        assert!(status >= 400, "{sending:?} was answered {status}");
        assert_eq!((status, headers, body), scene.by_the_router(&sending).await, "{sending:?}");
    }
    assert!(scene.coord.keys_of(scene.session.id(), 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn whatever_is_done_is_answered_with_the_same_fields() {
    let scene = Scene::new().await;
    let fields = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let key = r#"{"key":"deploy://x"}"#;
    for (target, body, outcome) in [
        ("/v1/locks/acquire?x=1", ACQUIRE, "granted"),
        ("/v1/locks/renew", key, "renewed"),
        ("/v1/locks/release", key, "released"),
    ] {
        let one = sending(target, &scene.token(), body);
        let other = sending(target, &scene.token(), &body.replace("//x", "//y").replace("r1", "r2"));
        let (status, headers, body) = scene.by_the_short_way(&one).await;
        assert_eq!((status, body["outcome"].as_str()), (200, Some(outcome)), "{body}");
        let (other_status, other_headers, other_body) = scene.by_the_router(&other).await;
        assert_eq!((status, headers, fields(&body)), (other_status, other_headers, fields(&other_body)));
    }
}

#[test]
fn there_is_no_short_way_to_anything_else() {
    let of = |method: &str, target: &str| {
        Act::of(&Request::builder().method(method).uri(target).body(()).unwrap())
    };
    assert_eq!(of("POST", "/v1/locks/acquire"), Some(Act::Acquire));
    for (method, target) in
        [("GET", "/v1/locks/acquire"), ("POST", "/v1/locks/acquire/"), ("POST", "/v1/locks")]
    {
        assert_eq!(of(method, target), None, "{method} {target}");
    }
}

#[tokio::test]
async fn where_too_many_have_their_moment_the_next_one_is_put_aside_at_once_and_answered_alike() {
    let scene = Scene::new().await;
    let wanting = ACQUIRE.replace("}", r#","wait_ms":60000}"#);
    let waiting = sending("/v1/locks/acquire", &scene.token(), &wanting);
    let by_itself = scene.by_the_short_way(&waiting).await;
    let waits = &scene.server.outside().waits;
    let moments: Vec<_> = std::iter::from_fn(|| waits.moment()).collect();
    assert_eq!(moments.len(), MOMENTS_MAX);
    let (parking, request) = (Parking::default(), waiting.made());
    let visit = Visit { parking: Some(parking.clone()), ..visit() };
    Act::Acquire.answer(scene.server.clone(), visit, request).await;
    let mut to_come = parking.take().unwrap();
    let (status, headers, body) = read(to_come.answer().await).await;
    assert_eq!((status, headers), (by_itself.0, by_itself.1));
    assert_eq!(body["fence"], by_itself.2["fence"], "it is the same request");
}

#[tokio::test]
async fn a_request_takes_little_more_room_than_what_it_does() {
    let scene = Scene::new().await;
    let request = sending("/v1/locks/acquire", &scene.token(), ACQUIRE).made();
    let bytes = size_of_val(&Act::Acquire.answer(scene.server.clone(), visit(), request));
    assert!(bytes <= 4_096, "{bytes}");
}
