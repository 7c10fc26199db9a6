//! What an agent talks to from inside its run: every command and short name, on several stores, with and without a
//! daemon, and what happens when nobody is there to answer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bell_e2e::Redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Place, Ran, Running, eventually, finish};

const PASSWORD: &str = "hunter2-canary";

/// Adds an agent that this script runs.
fn add(place: &Place, name: &str, script: &str, settings: &str) {
    let folder = place.path(&format!("agents/{name}"));
    fs::create_dir_all(&folder).unwrap();
    let skill = format!("---\nname: {name}\ndescription: A test agent.\n---\nDo the work.\n");
    fs::write(folder.join("SKILL.md"), skill).unwrap();
    // Tests are run by root, who also owns this project.
    let settings = format!("user = \"root\"\n{settings}");
    fs::write(folder.join("config.toml"), settings).unwrap();
    fs::write(folder.join("run"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(folder.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs an agent to its end. Answers how it ended, and what it printed.
fn run(place: &Place, agent: &str) -> (Value, String) {
    let ran = place.run(&["--json", "run", agent, "--wait"]).json();
    let runs = place.json(&["runs"]);
    let runs = runs["runs"].as_array().unwrap().clone();
    let last = runs.iter().find(|run| run["agent"] == agent).unwrap();
    let name = last["run"].as_str().unwrap().to_owned();
    (ran, place.run(&["logs", &name]).expect(0).out)
}

fn up(place: &Place) -> Running {
    place.start(&["up"])
}

fn stop(daemon: Running) {
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

fn object(log: &str, start: &str) -> Value {
    let line = log.lines().find_map(|line| line.strip_prefix(start));
    let line = line.unwrap_or_else(|| panic!("no line {start:?} in {log}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Every command once. Each line of its output says what was tried, and the exit code.
const EVERY_COMMAND: &str = r#"
say() { echo "$1 $2"; }
bell lock acquire job:a --ttl 10m >/dev/null; say acquire $?
bell lock acquire job:a >/dev/null; say again $?
bell lock acquire job:b job:c --json >/dev/null; say several $?
bell lock acquire 'no key' 2>/dev/null; say no-key $?
bell lock acquire job:a --session-file x 2>/dev/null; say file $?
bell lock renew job:a >/dev/null; say renew $?
bell lock renew job:x 2>/dev/null; say renew-nothing $?
bell lock show job:a --json | sed 's/^/show-json /'
bell lock list job: >/dev/null; say list $?
bell lock wait job:x >/dev/null; say wait-free $?
bell lock wait job:a --timeout 100ms 2>/dev/null; say wait-held $?
(bell lock watch job: > watched.txt & echo $! > watcher; wait) 2>/dev/null &
bell lock run job:r -- sh -c 'bell lock run -n job:r -- true 2>/dev/null; echo "inner $?"; exit 42'; say run $?
bell lock run job:a -n -- true 2>/dev/null; say run-held $?
bell lock break job:a --reason x --yes 2>/dev/null; say break $?
bell lock release job:a >/dev/null; say release $?
bell lock release job:a 2>/dev/null; say release-again $?
until grep -q job:b watched.txt; do sleep 0.05; done; kill $(cat watcher); wait
bell status 'at work' >/dev/null; say status $?
job=$(bell call helper --context '{"n": 1}' --json | sed 's/.*"job":"\([^"]*\)".*/\1/')
bell call check $job >/dev/null; say check $?
bell call wait $job --timeout 60s | sed 's/^/waited /'
bell call helper --context '{"n": 2}' --wait | sed 's/^/called /'
bell call worker 2>/dev/null; say call-self $?
bell call nobody 2>/dev/null; say call-unknown $?
bell call check 00000000 2>/dev/null; say check-unknown $?
bell return "a value" >/dev/null; say return $?
env | sed 's/^/env /'
"#;

fn check_every_command(place: &Place) -> String {
    add(place, "worker", EVERY_COMMAND, "");
    add(place, "helper", "bell return \"got $(cat $BELL_TRIGGER_FILE)\"", "");
    let daemon = up(place);
    let (ran, log) = run(place, "worker");
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{log}");
    assert_eq!(ran["returned"], "a value");
    let codes = [
        ("acquire", 0),
        ("again", 0),
        ("several", 0),
        ("no-key", 4),
        ("file", 4),
        ("renew", 0),
        ("renew-nothing", 2),
        ("list", 0),
        ("wait-free", 0),
        ("wait-held", 8),
        ("inner", 1),
        ("run", 42),
        ("run-held", 1),
        ("break", 3),
        ("release", 0),
        ("release-again", 2),
        ("status", 0),
        ("check", 0),
        ("call-self", 4),
        ("call-unknown", 2),
        ("check-unknown", 2),
        ("return", 0),
    ];
    for (what, code) in codes {
        let line = format!("{what} {code}");
        assert!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    assert_eq!(object(&log, "show-json ")["holder"]["agent"], "worker");
    assert!(log.contains("waited got {") && log.contains("called got {"), "{log}");
    stop(daemon);
    log
}

#[test]
fn every_command_works_on_the_embedded_store_and_the_agent_learns_nothing_of_it() {
    let place = Place::sqlite();
    let log = check_every_command(&place);
    for name in ["BELL_URL=unix:/", "BELL_TOKEN=", "BELL_RUN=worker-", "BELL_AGENT=worker"] {
        assert!(log.contains(&format!("env {name}")), "{name} is not in {log}");
    }
    assert!(!log.contains("env BELL_STORE=") && !log.contains("env BELL_SESSION="), "{log}");
}

#[test]
fn every_command_works_on_a_redis_store_and_its_password_stays_outside() {
    let server = Redis::start_with(&["--requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    let place = Place { url, ..Place::sqlite() };
    let log = check_every_command(&place);
    assert!(log.contains("env BELL_URL=unix:/"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}

/// A project as Action Llama's documents describe them: nothing but the short names.
const SHORT_NAMES: &str = r#"
set +e
echo "taken $(rlock github://acme/app/issues/42)"
echo "twice $(rlock github://acme/app/issues/42)"
echo "kept $(rlock-heartbeat github://acme/app/issues/42)"
echo "other $(rlock github://acme/app/issues/7)"; rlock github://acme/app/issues/7 >/dev/null; echo "other-code $?"
echo "freed $(runlock github://acme/app/issues/42)"
runlock github://acme/app/issues/42 >/dev/null; echo "freed-again $?"
runlock github://acme/app/issues/7 >/dev/null; echo "freed-other $?"
rlock 'github issue 42' >/dev/null; echo "no-key $?"
rlock 2>/dev/null >usage.txt; echo "usage $?"; echo "usage-json $(cat usage.txt)"
al-status reviewing PR 42 >/dev/null; echo "status $?"
ID=$(echo 'find competitors' | al-subagent helper | sed 's/.*"callId":"\([^"]*\)".*/\1/')
al-subagent-check "$ID" >/dev/null; echo "checked $?"
SLOW=$(al-subagent slow </dev/null | sed 's/.*"callId":"\([^"]*\)".*/\1/')
echo "all $(al-subagent-wait "$ID" "$SLOW" --timeout 1)"; al-subagent-wait "$ID" "$SLOW" --timeout 1 >/dev/null; echo "late $?"
touch go
echo "done $(al-subagent-wait "$ID" "$SLOW" --timeout 60)"; al-subagent-wait "$ID" "$SLOW" >/dev/null; echo "in-time $?"
echo "over $(al-subagent-check "$ID")"
echo "self $(al-subagent worker </dev/null)"; al-subagent worker </dev/null >/dev/null; echo "self-code $?"
al-subagent-check 00000000 >/dev/null; echo "unknown $?"
printf 'one\ntwo\n' | al-return >/dev/null; echo "returned $?"
[ -e once ] || { touch once; echo "rerun $(al-rerun)"; exit 0; }
al-exit 12
echo never
"#;

#[test]
fn a_project_of_action_llama_runs_as_it_is() {
    let place = Place::sqlite();
    add(&place, "worker", SHORT_NAMES, "");
    add(&place, "helper", "echo \"$(cat $BELL_TRIGGER_FILE)\" | al-return; al-rerun", "");
    add(&place, "slow", "while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done; exit 3", "");
    place.run(&["lock", "acquire", "github://acme/app/issues/7", "--label", "somebody"]).expect(0);
    let daemon = up(&place);
    let (ran, log) = run(&place, "worker");
    assert_eq!(
        (&ran["fate"]["end"]["end"], &ran["fate"]["end"]["code"]),
        (&"failed".into(), &12.into()),
        "{log}"
    );
    assert_eq!(ran["returned"], "one\ntwo");
    assert!(!log.contains("never"), "{log}");

    let first = place.json(&["runs"])["runs"].as_array().unwrap().clone();
    let first =
        first.iter().rfind(|run| run["agent"] == "worker").unwrap()["run"].as_str().unwrap().to_owned();
    let log = place.run(&["logs", &first]).expect(0).out;
    for (what, ok) in [
        ("taken ", true),
        ("twice ", true),
        ("kept ", true),
        ("other ", false),
        ("freed ", true),
        ("self ", false),
    ] {
        assert_eq!(object(&log, what)["ok"], ok, "{what}: {log}");
    }
    assert!(object(&log, "kept ")["expiresAt"].as_str().unwrap().ends_with('Z'), "{log}");
    let other = object(&log, "other ");
    assert_eq!(other["holder"], "somebody");
    assert!(other["heldSince"].is_string(), "{other}");
    for line in [
        "other-code 1",
        "freed-again 2",
        "freed-other 1",
        "no-key 4",
        "usage 9",
        "status 0",
        "checked 0",
        "late 8",
        "in-time 0",
        "self-code 4",
        "unknown 2",
        "returned 0",
    ] {
        assert!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    assert_eq!(object(&log, "usage-json ")["error"], "usage: rlock <RESOURCE_KEY>");
    let done = object(&log, "done ");
    let of = |status: &str| done.as_object().unwrap().values().find(|call| call["status"] == status).cloned();
    let (completed, error) = (of("completed").unwrap(), of("error").unwrap());
    assert!(
        completed["returnValue"].as_str().unwrap().contains("\"context\":\"find competitors\""),
        "{completed}"
    );
    assert!(error["errorMessage"].as_str().unwrap().contains("exit code 3"), "{error}");
    assert_eq!(object(&log, "over ")["status"], "completed");
    assert_eq!(object(&log, "rerun ")["rerun"], true);
    stop(daemon);
}

/// The binary by one of its short names, outside of any run.
fn by_name(place: &Place, name: &str, arguments: &[&str]) -> Ran {
    let link = place.path(name);
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bell"), &link).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut command = std::process::Command::new(link);
    command.env_clear().args(arguments).stdin(std::process::Stdio::null());
    finish(command)
}

const NAMES: [(&str, &[&str]); 10] = [
    ("rlock", &["job:a"]),
    ("runlock", &["job:a"]),
    ("rlock-heartbeat", &["job:a"]),
    ("al-rerun", &[]),
    ("al-status", &["x"]),
    ("al-return", &["x"]),
    ("al-exit", &[]),
    ("al-subagent", &["x"]),
    ("al-subagent-check", &["x"]),
    ("al-subagent-wait", &["x"]),
];

#[test]
fn every_short_name_explains_itself_and_is_in_the_reference() {
    let place = Place::sqlite();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/agent-commands.md");
    let page = fs::read_to_string(page).unwrap();
    for (name, _) in NAMES {
        assert!(page.contains(&format!("`{name}")), "{name} is not in the reference");
        let help = by_name(&place, name, &["--help"]).expect(0).out;
        assert!(help.contains(&format!("Usage: {name}")), "{help}");
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("no example in {help}"));
        assert!(examples.contains(name), "{help}");
        let wrong = by_name(&place, name, &["--colour", "blue"]).expect(9);
        assert_eq!(wrong.json()["ok"], false, "{wrong:?}");
    }
}

#[test]
fn outside_of_a_run_they_all_fail_closed() {
    let place = Place::sqlite();
    for (name, arguments) in NAMES {
        let ran = by_name(&place, name, arguments);
        // A wait says for each call what is wrong with it; here nobody can be asked at all.
        assert_eq!(ran.code, 6, "{name}: {ran:?}");
        assert_eq!(ran.json()["ok"], false, "{name}: {ran:?}");
    }
    for arguments in
        [&["status", "x"][..], &["return", "x"], &["rerun"], &["call", "x"], &["call", "wait", "x"]]
    {
        place.run(arguments).expect(6);
    }
}

#[test]
fn without_the_token_or_the_socket_nothing_is_done() {
    let place = Place::sqlite();
    let script = r#"
    try() { echo "$1 $(shift; env "$@" bell lock acquire job:a >/dev/null 2>&1; echo $?) $(shift; env "$@" rlock job:a >/dev/null; echo $?) $(shift; env "$@" bell status x >/dev/null 2>&1; echo $?)"; }
    try none -u BELL_TOKEN
    try empty BELL_TOKEN=
    try wrong BELL_TOKEN=wrong
    try anothers BELL_TOKEN=$(echo $BELL_TOKEN | tr '0-9' '1-90')
    try nowhere BELL_URL=unix:/nowhere/bell.sock
    try refused BELL_URL=http://127.0.0.1:1
    try garbled BELL_URL=nonsense
    rm ${BELL_URL#unix:}
    try removed A=b
    "#;
    add(&place, "worker", script, "");
    let daemon = up(&place);
    let (_, log) = run(&place, "worker");
    for (what, code) in [
        ("none", 3),
        ("empty", 3),
        ("wrong", 3),
        ("anothers", 3),
        ("nowhere", 6),
        ("refused", 6),
        ("garbled", 3),
        ("removed", 6),
    ] {
        let line = format!("{what} {code} {code} {code}");
        assert!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    assert!(place.is_free("job:a"));
    stop(daemon);
}

#[test]
fn commands_go_on_while_the_daemon_is_killed_and_started_again() {
    let place = Place::sqlite();
    let script = r#"
    bell lock acquire job:kept >/dev/null && echo up > up.txt
    while [ ! -e go ] && [ -e $PWD ]; do
        bell lock acquire job:n >/dev/null && bell lock release job:n >/dev/null && bell status "$(date +%s%N)" >/dev/null ||
            echo "failed $?" >> failures.txt
        echo x >> rounds.txt
    done
    bell call helper --wait > called.txt
    "#;
    add(&place, "worker", script, "");
    add(&place, "helper", "bell return yes", "");
    let daemon = up(&place);
    place.run(&["run", "worker"]).expect(0);
    place.until_file("up.txt");
    let rounds = || fs::read_to_string(place.path("rounds.txt")).unwrap_or_default().lines().count();
    daemon.kill();
    let before = rounds();
    eventually("its commands go on without a daemon", || rounds() > before + 5);
    assert_eq!(place.show("job:kept")["holder"]["agent"], "worker");
    let daemon = up(&place);
    let before = rounds();
    eventually("and with the next one", || rounds() > before + 5);
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(place.until_file("called.txt"), "yes\n");
    assert!(!place.path("failures.txt").exists(), "{:?}", fs::read_to_string(place.path("failures.txt")));
    stop(daemon);
}

#[test]
fn a_command_whose_supervisor_is_dead_fails_closed() {
    let place = Place::sqlite();
    // A command from outside of the process tree, which is ended with the supervisor: without the mark of the run it is
    // not taken for a part of it.
    let script = "echo $PPID > supervisor.txt; env | grep -E '^BELL_(URL|TOKEN)=' > env.txt; echo > up.txt; sleep 1000";
    add(&place, "worker", script, "");
    let daemon = up(&place);
    place.run(&["run", "worker"]).expect(0);
    place.until_file("up.txt");
    let environment = fs::read_to_string(place.path("env.txt")).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = support::bare_command();
        command.envs(environment.lines().filter_map(|line| line.split_once('='))).args(arguments);
        command
    };
    finish(command(&["lock", "acquire", "job:a"])).expect(0);
    let supervisor: i32 = fs::read_to_string(place.path("supervisor.txt")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    eventually("the supervisor is gone", || !std::path::Path::new(&format!("/proc/{supervisor}")).exists());
    finish(command(&["lock", "acquire", "job:b"])).expect(6);
    finish(command(&["status", "x"])).expect(6);
    eventually("its locks are free", || place.is_free("job:a"));
    stop(daemon);
}

#[test]
fn a_token_is_worth_nothing_once_its_run_is_ending() {
    let place = Place::sqlite();
    // It does not want to end, and goes on talking.
    let script =
        "trap '' TERM; echo > up.txt; while :; do bell status x >/dev/null 2>&1; echo $? >> codes.txt; done";
    add(&place, "worker", script, "grace = \"3s\"");
    let daemon = up(&place);
    place.run(&["run", "worker"]).expect(0);
    place.until_file("up.txt");
    let codes = || fs::read_to_string(place.path("codes.txt")).unwrap_or_default();
    eventually("it talks", || codes().lines().any(|code| code == "0"));
    let name = place.json(&["runs"])["runs"][0]["run"].as_str().unwrap().to_owned();
    place.run(&["kill", &name]).expect(0);
    eventually("nobody listens to it any more", || codes().lines().any(|code| code == "3"));
    eventually("it is gone", || place.json(&["runs"])["runs"][0]["end"]["end"] == "killed");
    let codes = codes();
    let last = codes.lines().rev().take_while(|code| *code != "0").count();
    assert!(last >= 1, "{codes}");
    assert!(codes.lines().skip_while(|code| *code != "3").all(|code| code != "0"), "{codes}");
    stop(daemon);
}

#[test]
fn locks_can_be_kept_in_another_store_than_runs() {
    let place = Place::sqlite();
    let locks = format!("file:{}", place.path("locks").display());
    fs::write(place.path("config.toml"), format!("locks = \"{locks}\"\n")).unwrap();
    let script = "bell lock acquire job:own >/dev/null; echo $BELL_LOCK_FENCE > up.txt; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done";
    add(&place, "worker", script, "locks = [\"job:needed\"]\nscale = 2\non_busy = \"fail\"");
    let daemon = up(&place);
    place.run(&["run", "worker"]).expect(0);
    let fence = place.until_file("up.txt");
    let show = |key: &str| place.json(&["--store", &locks, "lock", "show", key]);
    for key in ["job:needed", "job:own"] {
        assert_eq!(show(key)["holder"]["agent"], "worker", "{key}");
        assert_eq!(
            place.show(key)["holder"]["agent"],
            "worker",
            "a command in the project asks the same store"
        );
        let of_runs = place.json(&["--store", &place.url, "lock", "show", key]);
        assert_eq!(of_runs["outcome"], "free", "the store of the runs has no locks");
    }
    assert_eq!(show("job:needed")["fence"], fence.trim().parse::<u64>().unwrap());
    let second = place.run(&["--json", "run", "worker", "--wait"]).expect(1);
    assert_eq!(second.json()["fate"]["end"]["end"], "busy");
    fs::write(place.path("go"), "").unwrap();
    for key in ["job:needed", "job:own"] {
        eventually("the lock is free", || show(key)["outcome"] == "free");
    }
    stop(daemon);
}

#[test]
fn a_project_that_lies_deep_has_its_socket_all_the_same() {
    let outer = tempfile::tempdir().unwrap();
    let deep = outer.path().join("deeper/".repeat(20));
    fs::create_dir_all(&deep).unwrap();
    let folder = tempfile::tempdir_in(deep).unwrap();
    let url = format!("sqlite:{}", folder.path().join("bell.db").display());
    let place = Place { folder, url };
    add(&place, "worker", "bell lock acquire job:a && rlock job:b && bell status x", "");
    let daemon = up(&place);
    let (ran, log) = run(&place, "worker");
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{log}");
    stop(daemon);
}
