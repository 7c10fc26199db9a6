//! Where the daemon listens, what it leaves behind, who is let in.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::served::Served;
use crate::support::Place;

fn mode(place: &Place, name: &str) -> u32 {
    std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_says_where_it_is_and_keeps_its_key_to_itself() {
    let mut served = Served::new();
    served.get("/healthz").expect(200);
    for name in [".bell/api-key", ".bell/gateway.json", ".bell/bell.sock"] {
        assert_eq!(mode(&served.place, name), 0o600, "{name}");
    }
    let key = served.key.clone();
    served.stop();
    assert!(
        !served.place.path(".bell/gateway.json").exists() && !served.place.path(".bell/bell.sock").exists()
    );
    served.start();
    assert_eq!(served.key, key, "the key stays the same");
}

#[test]
fn a_daemon_that_was_killed_is_no_obstacle() {
    let mut served = Served::new();
    served.kill();
    assert!(served.place.path(".bell/bell.sock").exists());
    served.start();
    served.get("/healthz").expect(200);
}

#[test]
fn without_a_key_that_counts_there_is_one_answer() {
    let served = Served::new();
    let made = served.place.json(&["keys", "add", "grafana", "--role", "read"]);
    let revoked = made["key"].as_str().unwrap().to_owned();
    served.place.run(&["keys", "revoke", "grafana"]).expect(0);
    let forged = format!("bell_local_{}", "0".repeat(64));
    let unknown = format!("bell_nobody_{}", "0".repeat(64));
    let mut bodies = Vec::new();
    for bearer in [&forged, &unknown, &revoked, "nonsense", ""] {
        let header = format!("Bearer {bearer}");
        let reply = served.ask("GET", "/v1/status", &[("Authorization", &header)], b"");
        bodies.push(reply.refused(401, "unauthorized").body);
    }
    bodies.push(served.ask("GET", "/v1/status", &[], b"").refused(401, "unauthorized").body);
    assert!(bodies.windows(2).all(|two| two[0] == two[1]), "nobody learns which names there are");
}

#[test]
fn keys_are_made_listed_and_revoked_by_name() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let made = place.json(&["keys", "add", "laptop"]);
    assert!(made["key"].as_str().unwrap().starts_with("bell_laptop_"), "{made}");
    let again = place.run(&["keys", "add", "laptop"]).expect(1);
    assert!(again.err.contains("there is or was one of that name"), "{again:?}");
    place.run(&["keys", "add", "No Name"]).expect(4);
    place.run(&["keys", "revoke", "laptop"]).expect(0);
    place.run(&["keys", "revoke", "laptop"]).expect(2);
    let keys = place.json(&["keys", "list"])["keys"].clone();
    assert_eq!((&keys[0]["name"], &keys[0]["role"]), (&"laptop".into(), &"full".into()));
    assert!(keys[0]["revoked"].is_string() && keys[0].get("key").is_none(), "{keys}");
}

#[test]
fn a_port_that_somebody_chose_and_somebody_has_is_an_error_that_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", taken.local_addr().unwrap().port()));
    let ran = place.run(&["up"]).expect(5);
    assert!(
        ran.err.contains("could not listen on 127.0.0.1:") && ran.err.contains("gateway.port"),
        "{ran:?}"
    );
}

#[test]
fn other_machines_are_let_in_only_if_somebody_said_so() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", "[gateway]\nport = 0\nbind = \"0.0.0.0\"\n");
    let ran = place.run(&["up"]).expect(4);
    assert!(ran.err.contains("gateway.expose"), "{ran:?}");
}

#[test]
fn a_request_for_another_host_or_from_another_page_is_refused() {
    let served = Served::new();
    let foreign = b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let reply = crate::served::Reply::parse(&served.raw(foreign)).unwrap();
    reply.refused(421, "invalid");
    let key = format!("Bearer {}", served.key);
    let cross = [("Authorization", key.as_str()), ("Origin", "http://evil.example")];
    served.ask("POST", "/v1/pause", &cross, b"{}").refused(403, "unauthorized");
}
