//! Who is let in: keys that are guessed, logins of browsers, and what every answer tells a browser.

use std::io::{BufRead, BufReader, Read, Write};

use serde_json::json;

use crate::served::{Reply, Served};
use crate::support::{Place, eventually};

const HTML: (&str, &str) = ("Accept", "text/html,application/xhtml+xml");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Logs in; answers what the browser has from then on, as a header.
fn log_in(served: &Served, key: &str) -> String {
    let origin = format!("http://{}", served.address);
    let reply = served.ask("POST", "/login", &[FORM, ("Origin", &origin)], format!("key={key}").as_bytes());
    assert_eq!(reply.header("location"), Some("/"), "{reply:?}");
    let cookie = reply.expect(303).header("set-cookie").unwrap().to_owned();
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

fn read_only(served: &Served) -> String {
    let made = served.place.json(&["keys", "add", "looker", "--role", "read"]);
    made["key"].as_str().unwrap().to_owned()
}

/// Asks again and again over one connection; answers the statuses, and the bodies that came with each.
fn guesses(served: &Served, count: usize) -> Vec<(u16, Vec<u8>, Option<String>)> {
    let mut stream = BufReader::new(served.connect());
    let mut replies = Vec::new();
    for number in 0..count {
        let request = format!(
            "GET /v1/status HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer bell_local_{number:064x}\r\n\r\n",
            served.address
        );
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "it hung up: {head}");
        }
        let reply = Reply::parse(head.as_bytes()).unwrap();
        let mut body = vec![0; reply.header("content-length").unwrap().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        replies.push((reply.status, body, reply.header("retry-after").map(str::to_owned)));
    }
    replies
}

#[test]
fn a_thousand_guesses_are_slowed_and_nobody_is_shut_out_by_them() {
    let served = Served::new();
    served.get("/v1/status").expect(200);
    let replies = guesses(&served, 1_000);
    let looked_at = replies.iter().filter(|(status, ..)| *status == 401).count();
    // One more is forgiven every six seconds; a machine that stalls takes a while for a thousand.
    assert!((10..50).contains(&looked_at), "{looked_at} were looked at");
    for status in [401, 429] {
        let mut same = replies.iter().filter(|(found, ..)| *found == status).map(|(_, body, _)| body);
        let first = same.next().unwrap();
        assert!(same.all(|body| body == first), "{status} says one thing");
    }
    for (status, _, retry_after) in &replies {
        assert_eq!(*status == 429, retry_after.is_some());
        assert!(retry_after.as_ref().is_none_or(|after| (1..=7).contains(&after.parse().unwrap_or(0))));
    }
    // A key that was right from here before goes on counting, and whoever owns the socket is not counted at all.
    served.get("/v1/status").expect(200);
    assert_eq!(served.place.json(&["stat"])["outcome"], "listed");
    let other = read_only(&served);
    let header = format!("Bearer {other}");
    served.ask("GET", "/v1/status", &[("Authorization", &header)], b"").refused(429, "unauthorized");
    let login = served.ask("POST", "/login", &[FORM], format!("key={other}").as_bytes()).expect(429);
    assert!(login.header("set-cookie").is_none() && login.header("retry-after").is_some());
}

#[test]
fn a_page_leads_to_the_login_and_a_program_is_told() {
    let served = Served::new();
    let page = served.ask("GET", "/", &[HTML], b"").expect(302);
    assert_eq!(page.header("location"), Some("/login"));
    served.ask("GET", "/v1/status", &[HTML], b"").expect(302);
    served.ask("GET", "/v1/status", &[("Accept", "application/json")], b"").refused(401, "unauthorized");
    // Who shows a key that does not count is no page.
    served.ask("GET", "/", &[HTML, ("Authorization", "Bearer x")], b"").refused(401, "unauthorized");
    served.ask("POST", "/v1/pause", &[HTML], b"{}").refused(401, "unauthorized");
}

#[test]
fn a_login_lasts_until_somebody_logs_out() {
    let served = Served::new();
    served.ask("POST", "/login", &[FORM], b"key=nonsense").expect(401);
    served.ask("POST", "/login", &[("Content-Type", "application/json")], b"{}").expect(415);
    served.ask("POST", "/login", &[FORM], &[b'a'; 5_000]).expect(413);
    let cookie = log_in(&served, &served.key);
    let with = |path: &str| served.ask("GET", path, &[HTML, ("Cookie", &cookie)], b"");
    let home = String::from_utf8(with("/").expect(200).body).unwrap();
    assert!(home.contains("You are logged in with the key local.") && home.contains("Log out"), "{home}");
    with("/v1/status").expect(200);
    let origin = format!("http://{}", served.address);
    let out = served.ask("POST", "/logout", &[("Cookie", &cookie), ("Origin", &origin)], b"").expect(303);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    with("/").expect(302);
    assert!(!served.place.run(&["audit"]).out.contains(cookie.split_once('=').unwrap().1));
}

#[test]
fn a_login_acts_only_from_its_own_pages_and_as_far_as_its_key_goes() {
    let served = Served::new();
    let cookie = log_in(&served, &served.key);
    let own = format!("http://{}", served.address);
    let act = |cookie: &str, headers: &[(&str, &str)]| {
        let all = [&[("Cookie", cookie), ("Content-Type", "application/json")], headers].concat();
        served.ask("POST", "/v1/pause", &all, b"{}")
    };
    act(&cookie, &[]).refused(403, "unauthorized");
    for foreign in [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "same-site")] {
        act(&cookie, &[foreign]).refused(403, "unauthorized");
    }
    assert!(served.place.json(&["stat"])["paused"].is_null());
    act(&cookie, &[("Origin", &own)]).expect(200);
    let looker = log_in(&served, &read_only(&served));
    act(&looker, &[("Origin", &own)]).refused(403, "unauthorized");
    act(&format!("{cookie}; {cookie}"), &[("Origin", &own)]).refused(401, "unauthorized");
}

#[test]
fn a_login_ends_with_its_key_and_outlives_the_daemon() {
    let mut served = Served::new();
    let cookie = log_in(&served, &read_only(&served));
    served.stop();
    served.start();
    let look = |served: &Served| served.ask("GET", "/v1/status", &[("Cookie", &cookie)], b"").status;
    assert_eq!(look(&served), 200);
    served.place.run(&["keys", "revoke", "looker"]).expect(0);
    eventually("the login counts no longer", || look(&served) == 401);
}

#[test]
fn every_answer_tells_a_browser_to_do_nothing_with_it() {
    let served = Served::new();
    let bearer = format!("Bearer {}", served.key);
    let (key, foreign) = (("Authorization", bearer.as_str()), ("Origin", "http://evil.example"));
    let replies = [
        served.ask("GET", "/healthz", &[], b""),
        served.ask("GET", "/v1/status", &[key], b""),
        served.ask("GET", "/v1/status", &[], b""),
        served.ask("GET", "/metrics", &[key], b""),
        served.ask("GET", "/openapi.json", &[], b""),
        served.ask("GET", "/nowhere", &[], b""),
        served.ask("PUT", "/healthz", &[], b""),
        served.ask("POST", "/v1/pause", &[key, foreign], b"{}"),
        served.ask("POST", "/v1/pause", &[key], b"{"),
        served.ask("GET", "/login", &[HTML], b""),
        served.ask("GET", "/", &[HTML], b""),
    ];
    for reply in &replies {
        let header = |name| reply.header(name).unwrap_or_default();
        assert_eq!(header("x-content-type-options"), "nosniff", "{reply:?}");
        assert_eq!(header("referrer-policy"), "same-origin", "{reply:?}");
        let policy = header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{reply:?}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{reply:?}");
        assert!(header("cache-control").contains("no-store"), "{reply:?}");
    }
    let page = String::from_utf8(replies[9].body.clone()).unwrap();
    assert!(!page.contains("<script") && !page.contains("style="), "{page}");
}

#[test]
fn a_runs_token_is_no_key() {
    let served = Served::new();
    served.place.agent(
        "teller",
        "echo $BELL_TOKEN > token; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done",
        "",
    );
    served.post("/v1/reload", &json!({})).expect(200);
    served.post("/v1/agents/teller/run", &json!({})).expect(200);
    let token = served.place.until_file("token").trim().to_owned();
    let header = format!("Bearer {token}");
    for (method, path) in [("GET", "/v1/status"), ("POST", "/v1/pause"), ("GET", "/v1/history")] {
        let reply = served.ask(method, path, &[("Authorization", &header)], b"");
        reply.refused(401, "unauthorized");
    }
    served.place.write("go", "");
}

#[test]
fn a_port_that_other_machines_reach_needs_a_key_that_counts() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", "[gateway]\nport = 0\nbind = \"0.0.0.0\"\nexpose = true\n");
    let mut served = Served::of(place);
    served.get("/v1/status").expect(200);
    served.ask("GET", "/v1/status", &[], b"").refused(401, "unauthorized");
    served.place.run(&["keys", "revoke", "local"]).expect(0);
    served.stop();
    let ran = served.place.run(&["up"]).expect(4);
    assert!(ran.err.contains("every API key was revoked") && ran.err.contains("hint: "), "{ran:?}");
    served.place.run(&["keys", "add", "laptop"]).expect(0);
    served.start();
    served.ask("GET", "/healthz", &[], b"").expect(200);
}
