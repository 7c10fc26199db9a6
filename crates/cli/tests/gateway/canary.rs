//! Secrets are told to nobody: a key, a run's token, the secret of a webhook and the password of a store are looked for in
//! everything that a fleet says, writes and starts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bell_coord::Coord;
use bell_e2e::Redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::served::Served;
use crate::support::{Place, finish};
use crate::webhooks::secret;

const PASSWORD: &str = "canary-password-4711";
const HOOK: &str = "canary-hook-4711";

/// Looks at how every process of this machine was called, for as long as it is there.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<String>,
}

impl Watch {
    fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen = std::collections::BTreeSet::new();
            while !ends.load(Ordering::Relaxed) {
                for process in fs::read_dir("/proc").unwrap().flatten() {
                    let called = fs::read(process.path().join("cmdline")).unwrap_or_default();
                    seen.insert(String::from_utf8_lossy(&called).replace('\0', " "));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            seen.into_iter().collect::<Vec<_>>().join("\n")
        });
        Self { over, thread }
    }

    fn end(self) -> String {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A project on a store with a password, with a webhook, and an agent that has a token.
fn project(server: &Redis) -> Place {
    // By a command and not by an argument: the server's own arguments are seen too.
    server.run(&["CONFIG", "SET", "requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    let place = Place { url: url.clone(), ..Place::sqlite() };
    let hook = "[webhooks.hub]\ntype = \"hmac\"\nsecret = \"HOOK\"\nheader = \"X-Signature\"\n";
    place.write("config.toml", &format!("store = \"{url}\"\n\n[gateway]\nport = 0\n\n{hook}"));
    secret(&place, "HOOK", HOOK);
    let script = "echo $BELL_TOKEN > token; bell status working; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done";
    place.agent("teller", script, "[[webhooks]]\nsource = \"hub\"\n");
    place
}

/// The daemon. Dropped, it is killed.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon, with everything that it can say in a file.
fn up(place: &Place) -> Daemon {
    let mut command = place.command(&["--json", "up"]);
    command.env_remove("BELL_STORE").env("BELL_LOG", "trace");
    let log = File::create(place.path("daemon.log")).unwrap();
    let mut daemon = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    Daemon(daemon)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

/// Everything in the store.
fn stored(place: &Place) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coord = Coord::new(bell_locks::open::open_store(&place.url).await.unwrap());
        let all = coord.store().scan("", "", 1_000).await.unwrap();
        all.records
            .iter()
            .map(|(name, record)| format!("{name} {}\n", String::from_utf8_lossy(&record.value)))
            .collect()
    })
}

/// What commands say, asked of the store, and of the daemon.
fn said(place: &Place, served: &Served) -> String {
    let asked: [&[&str]; 14] = [
        &["stat"],
        &["runs"],
        &["history"],
        &["audit"],
        &["audit", "verify"],
        &["keys", "list"],
        &["webhook", "ls"],
        &["config", "show"],
        &["check"],
        &["store", "info"],
        &["why", "teller"],
        &["logs", "teller"],
        &["doctor"],
        &["lock", "list"],
    ];
    let mut said = String::new();
    for arguments in asked {
        for format in [&["--json"][..], &[]] {
            let mut near = place.command(&[format, arguments].concat());
            near.env_remove("BELL_STORE");
            said += &format!("{arguments:?} {:?}\n", finish(near));
            said += &format!("{arguments:?} {:?}\n", place.run(&[format, arguments].concat()));
        }
    }
    for path in [
        "/metrics",
        "/v1/status",
        "/v1/history",
        "/v1/deliveries",
        "/readyz",
        "/openapi.json",
        "/v1/runs",
        "/nowhere",
    ] {
        said += &String::from_utf8_lossy(&served.get(path).body);
    }
    said
}

#[test]
fn no_secret_is_seen_anywhere() {
    let server = Redis::start();
    let place = project(&server);
    let watch = Watch::new();
    let mut daemon = up(&place);
    let served = Served::beside(place);
    let place = &served.place;
    let wrong = format!("bell_local_{}", "c0ffee".repeat(11).get(..64).unwrap());
    let mut answers = String::new();
    for reply in [
        served.post("/v1/agents/teller/run", &json!({})),
        served.post_as(&wrong, "/v1/pause", &json!({})),
        served.post("/webhooks/hub", &json!({"a": 1})),
        served.ask("POST", "/webhooks/hub", &[("X-Signature", HOOK)], b"{}"),
        served.ask(
            "POST",
            "/login",
            &[("Content-Type", "application/x-www-form-urlencoded")],
            format!("key={wrong}").as_bytes(),
        ),
        served.post("/v1/pause", &json!({"unknown": served.key})),
    ] {
        answers += &format!("{:?} {}", reply.headers, String::from_utf8_lossy(&reply.body));
    }
    let token = place.until_file("token").trim().to_owned();
    let remote = place.command(&[
        "--url",
        &format!("http://{}", served.address),
        "--key-file",
        ".bell/api-key",
        "stat",
        "--json",
    ]);
    answers += &format!("{:?}", finish(remote).expect(0));
    let far = format!("postgres://u:{PASSWORD}@127.0.0.1:1/x");
    answers +=
        &format!("{:?}", Place { url: far, ..Place::sqlite() }.run(&["--json", "lock", "list"]).expect(5));
    answers += &said(place, &served);
    place.write("go", "");
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    daemon.0.wait().unwrap();

    let mut everywhere = vec![
        ("an answer", answers),
        ("the arguments of a process", watch.end()),
        ("the store", stored(place)),
    ];
    everywhere.push(("the daemon's log", fs::read_to_string(place.path("daemon.log")).unwrap()));
    for file in files(&place.path(".bell")) {
        let name = file.strip_prefix(place.path(".bell")).unwrap().display().to_string();
        // Where they belong, for their owner alone; and the program itself.
        if name != "api-key" && !name.starts_with("secrets/") && !name.starts_with("bin/") {
            everywhere.push((
                "a file",
                format!("{name} {}", String::from_utf8_lossy(&fs::read(&file).unwrap_or_default())),
            ));
        }
    }
    let hidden = |text: &str| text.rsplit(['_', '.', ':']).next().unwrap().to_owned();
    let secrets = [hidden(&served.key), hidden(&wrong), hidden(&token), HOOK.to_owned(), PASSWORD.to_owned()];
    for secret in &secrets {
        assert!(secret.len() >= 16, "{secret}");
        for (place, text) in &everywhere {
            let at = text.find(secret.as_str());
            assert!(at.is_none(), "a secret is in {place}: {}", around(text, at.unwrap_or_default()));
        }
    }
    assert!(everywhere[1].1.contains("up"), "the daemon was seen: {}", everywhere[1].1);
}

fn around(text: &str, at: usize) -> String {
    let bytes = text.as_bytes();
    String::from_utf8_lossy(&bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())]).into_owned()
}
