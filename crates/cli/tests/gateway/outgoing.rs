//! What bell connects to by itself: addresses that come from outside are data, and nobody asks them anything.

use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::outsider::Outsider;
use crate::served::Served;
use crate::support::{Running, eventually, start};
use crate::webhooks::place;

/// Names of this machine, of its neighbours and of what clouds keep at hand, in the spellings that filters have missed.
const HOSTS: [&str; 20] = [
    "127.0.0.1",
    "localhost",
    "localhost.",
    "127.1",
    "127.0.0.1.",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[fe80::1%25lo]",
    "169.254.169.254",
    "metadata.google.internal",
    "10.0.0.1",
    "user:secret@127.0.0.1",
    "hooks.example.com@127.0.0.1",
    "127.0.0.1.rebinding.example.com",
    "①②⑦.⓪.⓪.①",
];

/// Sixty addresses that all lead to this port, if somebody follows them.
fn addresses(port: u16) -> Vec<String> {
    let of = |scheme: &'static str| move |host: &str| format!("{scheme}{host}:{port}/seen");
    ["http://", "https://", "//"].into_iter().flat_map(|scheme| HOSTS.map(of(scheme))).collect()
}

/// Watches every connection that the daemon and all it starts make, as the kernel sees it.
struct Watch {
    strace: Running,
    file: std::path::PathBuf,
}

impl Watch {
    fn on(served: &Served) -> Self {
        let (pid, file) = (served.daemon().pid(), served.place.path("connects"));
        #[expect(clippy::disallowed_methods, reason = "it looks at the daemon from outside")]
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-e", "trace=connect", "-p", &pid.to_string(), "-o"]).arg(&file);
        let strace = start(strace);
        eventually("the daemon is watched", || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            tasks
                .map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default())
                .all(|status| !status.contains("TracerPid:\t0\n"))
        });
        Self { strace, file }
    }

    /// The connections to anything but a socket in a folder.
    fn end(self) -> Vec<String> {
        // Not asked to end: to let go of a process it waits until that has stopped, which may be never. What it has seen is
        // written line by line, and the kernel lets go of whom it watched.
        self.strace.signal(Signal::KILL);
        self.strace.end();
        let seen = std::fs::read_to_string(self.file).unwrap();
        seen.lines().filter(|line| line.contains("AF_INET")).map(str::to_owned).collect()
    }
}

fn trap() -> (TcpListener, u16) {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let port = trap.local_addr().unwrap().port();
    (trap, port)
}

fn until_over(served: &Served, runs: usize) {
    eventually("the agents ran", || {
        let ends = served.place.ends();
        ends.len() == runs && ends.iter().all(|end| end == "completed")
    });
}

#[test]
fn addresses_in_deliveries_keys_and_prompts_are_never_asked_anything() {
    let (trap, port) = trap();
    let served = Served::of(place());
    let watch = Watch::on(&served);
    let addresses = addresses(port);
    assert_eq!(addresses.len(), 60);

    let first = &addresses[0];
    let told =
        json!({"event": first, "url": first, "callback_url": first, "response_url": first, "all": addresses});
    served
        .ask("POST", "/webhooks/open", &[("Content-Type", "application/json")], told.to_string().as_bytes())
        .expect(202);
    served
        .post("/v1/agents/hear/run", &json!({"prompt": addresses.join("\n"), "context": {"url": first}}))
        .expect(200);
    let outsider = Outsider::new(&served, first);
    for (number, address) in addresses.iter().enumerate() {
        // Most are keys like any other; what is none is refused.
        let answer: Value = outsider.try_lock(address, &format!("r-{number}")).json();
        assert!(["granted", "invalid"].contains(&answer["outcome"].as_str().unwrap()), "{answer}");
    }
    until_over(&served, 2);

    assert_eq!(watch.end(), Vec::<String>::new());
    assert!(trap.accept().is_err(), "somebody has asked {first}");
}

#[test]
fn control_what_an_agent_asks_by_itself_is_seen_by_who_watches() {
    let (trap, port) = trap();
    let place = place();
    place.agent(
        "asker",
        &format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"),
        "",
    );
    let served = Served::of(place);
    let watch = Watch::on(&served);
    served.post("/v1/agents/asker/run", &json!({})).expect(200);
    until_over(&served, 1);
    assert!(watch.end().iter().any(|line| line.contains(&format!("htons({port})"))));
    assert!(trap.accept().is_ok());
}
