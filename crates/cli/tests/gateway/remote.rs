//! The commands of operators, asked of the store, of the daemon's socket, and of its port: one answer.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::WAIT;
use crate::served::Served;
use crate::support::{Place, Ran, eventually, finish};

/// A project whose daemon runs, and whose store everybody finds in its settings.
fn served() -> Served {
    let place = Place::sqlite();
    place.agent("worker", "echo said; echo warned >&2; exit $([ -e fails ] && echo 3 || echo 0)", "");
    place.agent("waiter", WAIT, "");
    place.write("config.toml", &format!("store = \"{}\"\n\n[gateway]\nport = 0\n", place.url));
    Served::of(place)
}

/// A command that finds out by itself whom to ask.
fn anybody(served: &Served, arguments: &[&str]) -> Command {
    let mut command = served.place.command(arguments);
    command.env_remove("BELL_STORE").env("USER", "ann");
    command
}

fn by_socket(served: &Served, arguments: &[&str]) -> Ran {
    finish(anybody(served, arguments))
}

fn by_store(served: &Served, arguments: &[&str]) -> Ran {
    by_socket(served, &[&["--store", served.place.url.as_str()], arguments].concat())
}

/// From another folder, as from another machine.
fn by_port(served: &Served, arguments: &[&str]) -> Ran {
    let mut command = anybody(served, arguments);
    command.current_dir("/").env("BELL_GATEWAY", format!("http://{}", served.address));
    command.env("BELL_API_KEY", &served.key);
    finish(command)
}

fn paused(served: &Served) -> String {
    let stat = by_store(served, &["--json", "stat"]).expect(0).json();
    stat["paused"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn whoever_is_asked_the_answer_is_the_same_to_the_byte() {
    let served = served();
    served.place.json(&["run", "worker", "--wait"]);
    served.place.write("fails", "");
    let failed = served.place.json(&["run", "worker", "--wait"])["job"].as_str().unwrap().to_owned();
    served.place.json(&["pause", "waiter", "--reason", "lunch"]);
    let waiting = served.place.ask("waiter");
    let run = served.place.runs_of("worker")[0]["run"].as_str().unwrap().to_owned();
    let questions: &[&[&str]] = &[
        &["stat"],
        &["stat", "worker"],
        &["stat", "nobody"],
        &["runs"],
        &["runs", "--agent", "waiter"],
        &["jobs", "list"],
        &["jobs", "undone"],
        &["history", "--since", "2026-01-01T00:00Z"],
        &["history", "--since", "2026-01-01T00:00Z", "--kind", "run", "--kind", "pause", "--limit", "2"],
        &["logs", &run],
        &["logs", "worker", "--stream", "err"],
        &["logs", "nobody"],
        &["why", "worker"],
        &["why", &run],
        &["why", &failed],
        &["why", "deploy://nobody"],
        &["jobs", "cancel", &failed],
        &["kill", &run],
        &["run", "nobody"],
    ];
    for question in questions {
        let asked = [&["--json"], *question].concat();
        let same = || {
            let answers = [by_store(&served, &asked), by_socket(&served, &asked), by_port(&served, &asked)];
            let told = answers.each_ref().map(|ran| (ran.code, ran.out.as_str(), ran.err.as_str()));
            told[0] == told[1] && told[1] == told[2]
        };
        // How long ago something was changes with the second.
        eventually(&format!("{question:?} is the same whoever is asked"), same);
    }
    by_port(&served, &["jobs", "cancel", &waiting]).expect(0);
    assert_eq!(served.place.waiting("waiter"), 0);
}

#[test]
fn the_daemon_is_asked_while_it_answers_and_the_store_when_it_does_not() {
    let served = served();
    let hold = ["pause", "--reason", "lunch"];
    let resume = || by_store(&served, &["resume"]).expect(0);
    by_socket(&served, &hold).expect(0);
    assert_eq!(paused(&served), "lunch, says ann (key local)", "the daemon was asked");
    resume();
    served.daemon().pause();
    by_socket(&served, &hold).expect(0);
    assert_eq!(paused(&served), "lunch, says ann", "it stands still");
    served.daemon().signal(Signal::CONT);
    resume();
    let key = served.place.path(".bell/api-key");
    std::fs::rename(&key, served.place.path("key")).unwrap();
    by_socket(&served, &hold).expect(0);
    assert_eq!(paused(&served), "lunch, says ann", "there is no key");
    resume();
    std::fs::write(&key, format!("bell_local_{}\n", "0".repeat(64))).unwrap();
    by_socket(&served, &hold).expect(0);
    assert_eq!(paused(&served), "lunch, says ann", "the key is worth nothing");
}

#[test]
fn from_afar_a_key_is_needed_that_counts_and_somebody_who_answers() {
    let served = served();
    let url = format!("http://{}", served.address);
    let asked = |url: &str, key: Option<&str>| {
        let mut command = anybody(&served, &["--json", "--url", url, "stat"]);
        command.envs(key.map(|key| ("BELL_API_KEY", key)));
        finish(command)
    };
    asked(&url, Some(&served.key)).expect(0);
    let wrong = format!("bell_local_{}", "0".repeat(64));
    for (url, key, code, outcome) in [
        (url.as_str(), Some(wrong.as_str()), 3, "unauthorized"),
        (&url, None, 3, "unauthorized"),
        ("http://127.0.0.1:1", Some(&served.key), 6, "unreachable"),
        ("ftp://127.0.0.1", Some(&served.key), 4, "invalid"),
    ] {
        let ran = asked(url, key).expect(code);
        let said = ran.json();
        assert_eq!(said["outcome"], outcome, "{said}");
        assert!(!ran.out.contains(&served.key) && !ran.out.contains(&wrong), "{ran:?}");
        assert!(said["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{said}");
    }
    let file = served.place.path(".bell/api-key");
    let with_file = |file: &str| by_socket(&served, &["--url", &url, "--key-file", file, "runs"]);
    with_file(file.to_str().unwrap()).expect(0);
    with_file("/nowhere").expect(3);
    by_socket(&served, &["--url", &url, "--store", "memory:", "runs"]).expect(9);
    let near = by_socket(&served, &["--url", &url, "keys", "list"]).expect(4);
    assert!(near.err.contains("could not ask a gateway for this"), "{near:?}");
}

#[test]
fn a_key_that_may_only_look_can_not_act() {
    let served = served();
    let made = served.place.json(&["keys", "add", "grafana", "--role", "read"]);
    let acting = |arguments: &[&str]| {
        let mut command = anybody(&served, arguments);
        command.env("BELL_GATEWAY", format!("http://{}", served.address));
        command.env("BELL_API_KEY", made["key"].as_str().unwrap());
        finish(command)
    };
    acting(&["stat"]).expect(0);
    acting(&["pause"]).expect(3);
    assert_eq!(paused(&served), "");
}

#[test]
fn an_operator_says_how_many_may_run_and_it_counts_until_taken_back() {
    let mut served = served();
    for _ in 0..3 {
        served.place.ask("waiter");
    }
    let running = |served: &Served, count: usize| {
        eventually(&format!("{count} run"), || served.place.lines("up").len() == count);
    };
    running(&served, 1);
    let said = by_port(&served, &["scale", "waiter", "2", "--reason", "a rush"]).expect(0);
    assert_eq!(said.out, "scaled waiter to 2; its settings say 1\n");
    running(&served, 2);
    let of = |stat: &Value| stat["agents"][0].clone();
    let scaled = |served: &Served| of(&by_store(served, &["--json", "stat", "waiter"]).json());
    assert_eq!(scaled(&served)["scale"], 2);
    assert_eq!(scaled(&served)["scaled"]["reason"], "a rush, says ann (key local)");
    let plain = by_store(&served, &["stat", "waiter"]).out;
    assert!(plain.contains("2 of 2 running, 1 of") && plain.contains("scaled: a rush"), "{plain}");
    served.kill();
    served.start();
    assert_eq!(scaled(&served)["scale"], 2, "it is in the store");
    by_socket(&served, &["scale", "waiter", "default"]).expect(0);
    assert_eq!((&scaled(&served)["scale"], scaled(&served).get("scaled")), (&1.into(), None));
    served.place.write("go", "");
    running(&served, 3);
    by_socket(&served, &["scale", "waiter", "many"]).expect(4);
    by_socket(&served, &["scale", "nobody", "2"]).expect(2);
    let kinds = by_socket(&served, &["history", "--kind", "scale"]).expect(0).out;
    assert!(kinds.contains("scaled to 2: a rush") && kinds.contains("as its settings say"), "{kinds}");
}

#[test]
fn whoever_waits_for_a_run_hears_of_its_end_though_the_daemon_dies_meanwhile() {
    let mut served = served();
    let waiting = crate::support::start(anybody(&served, &["run", "waiter", "--wait"]));
    served.place.until_file("up");
    served.kill();
    served.place.write("go", "");
    let ran = waiting.end().expect(0);
    assert!(ran.out.starts_with("completed"), "{ran:?}");
}

#[test]
fn a_log_is_followed_from_afar_until_its_run_is_over() {
    let served = served();
    served.place.agent(
        "talker",
        "echo one; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done; echo two",
        "",
    );
    eventually("the agent is known", || by_port(&served, &["stat", "talker"]).code == 0);
    served.place.ask("talker");
    eventually("it talks", || by_port(&served, &["logs", "talker"]).out == "one\n");
    let run = served.place.runs_of("talker")[0]["run"].as_str().unwrap().to_owned();
    let mut command = anybody(&served, &["logs", "-f", &run]);
    command.env("BELL_GATEWAY", format!("http://{}", served.address)).env("BELL_API_KEY", &served.key);
    let mut following = crate::support::start(command);
    assert_eq!(following.line(), "one");
    served.place.write("go", "");
    assert_eq!(following.line(), "two");
    following.end().expect(0);
}
