//! How runs end (S7, S11), and the exit codes of what agents call (S12).

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::fleet::{WAIT, kill, lives};
use crate::support::{Place, bare_command, eventually};

/// Ways to get away from whoever ends a run. Each starts a process that lasts, and writes its number into `pids`.
const ESCAPES: [(&str, &str); 4] = [
    ("setsid", "setsid sh -c 'echo $$ >> pids; exec sleep 1000' &"),
    ("double-fork", "( ( sh -c 'echo $$ >> pids; exec sleep 1000' & ) & )"),
    ("ignores-term", "sh -c 'trap \"\" TERM INT HUP; echo $$ >> pids; while :; do sleep 1; done' &"),
    ("closes-output", "setsid sh -c 'exec < /dev/null > /dev/null 2>&1; echo $$ >> pids; exec sleep 1000' &"),
];

/// A project with an agent for each way to get away; each has a lock, and stays in the foreground, deaf to TERM.
fn escapes(settings: &str) -> Place {
    let place = Place::sqlite();
    for (name, escape) in ESCAPES {
        let script = format!("trap '' TERM\n{escape}\necho $$ >> pids\nwhile :; do sleep 1; done");
        place.agent(name, &script, &format!("locks = [\"test://{name}\"]\ngrace = \"1s\"\n{settings}"));
    }
    place
}

fn gone_and_free(place: &Place) {
    let pids = place.lines("pids");
    assert_eq!(pids.len(), 2 * ESCAPES.len(), "{pids:?}");
    let left: Vec<&String> = pids.iter().filter(|pid| lives(pid)).collect();
    assert_eq!(left, Vec::<&String>::new(), "processes that got away");
    for (name, _) in ESCAPES {
        assert!(place.is_free(&format!("test://{name}")), "the lock of {name}");
    }
}

#[test]
fn a_time_out_ends_every_process_however_it_hides_frees_the_locks_and_is_no_success() {
    let place = escapes("timeout = \"3s\"");
    let daemon = place.up();
    for (name, _) in ESCAPES {
        place.ask(name);
    }
    eventually("all have ended", || place.ends().len() == ESCAPES.len() && place.is_idle());
    assert_eq!(place.ends(), ["timeout"; ESCAPES.len()]);
    gone_and_free(&place);
    daemon.stop();
}

#[test]
fn a_kill_ends_every_process_however_it_hides_frees_the_locks_and_is_no_success() {
    let place = escapes("");
    let daemon = place.up();
    for (name, _) in ESCAPES {
        place.ask(name);
    }
    eventually("all are at it", || place.lines("pids").len() == 2 * ESCAPES.len());
    for run in place.runs() {
        place.run(&["kill", run["run"].as_str().unwrap(), "--reason", "enough"]).expect(0);
    }
    eventually("all have ended", || place.is_idle());
    assert_eq!(place.ends(), ["killed"; ESCAPES.len()]);
    assert!(place.runs().iter().all(|run| run["end"]["reason"] == "enough"));
    gone_and_free(&place);
    daemon.stop();
}

/// What `bell run AGENT --wait` says to a person, in a project where `act` happens meanwhile.
fn told(place: &Place, agent: &str, act: impl FnOnce()) -> (i32, String) {
    let waits = place.start(&["run", agent, "--wait"]);
    act();
    let ran = waits.end();
    (ran.code, ran.out)
}

#[test]
fn every_end_has_its_word_its_reason_and_what_to_do_next() {
    let place = Place::sqlite();
    place.agent("completes", "true", "");
    place.agent("fails", "exit 3", "");
    place.agent("crashes", "kill -SEGV $$", "");
    place.agent("times-out", "sleep 100", "timeout = \"1s\"\ngrace = \"1s\"");
    place.agent("killed", "echo $BELL_RUN > killed.run; exec sleep 100", "");
    place.agent("lost", "echo $PPID > lost.pid; exec sleep 100", "");
    place.agent("busy", "true", "locks = [\"test://held\"]\non_busy = \"fail\"");
    place.agent("unstartable", "true", "run = [\"no-such-program-here\"]");
    place.agent("interrupted", "echo up > interrupted.up; exec sleep 100", "");
    place.run(&["lock", "acquire", "test://held"]).expect(0);
    let daemon = place.up();
    let mut ends: Vec<(i32, String)> = Vec::new();
    for agent in ["completes", "fails", "crashes", "times-out", "busy", "unstartable"] {
        ends.push(told(&place, agent, || {}));
    }
    ends.push(told(&place, "killed", || {
        let run = place.until_file("killed.run");
        place.run(&["kill", run.trim(), "--reason", "it goes in circles"]).expect(0);
    }));
    ends.push(told(&place, "lost", || kill(&place.until_file("lost.pid"))));
    ends.push(told(&place, "interrupted", || {
        place.until_file("interrupted.up");
        daemon.signal(Signal::TERM);
        eventually("it is stopping", || place.run(&["run", "completes"]).code == 0);
        daemon.signal(Signal::TERM);
    }));
    daemon.end().expect(0);
    let expected = [
        "completed",
        "failed (exit code 3)",
        "crashed (signal 11)",
        "timeout",
        "busy (",
        "unstartable (",
        "killed (it goes in circles)",
        "lost",
        "interrupted",
    ];
    for ((code, said), expected) in ends.iter().zip(expected) {
        assert!(said.starts_with(expected), "{expected:?} is not how {said:?} begins");
        assert_eq!(*code, i32::from(expected != "completed"), "{said}");
    }
    let advice: BTreeSet<&str> = ends.iter().map(|(_, said)| said.rsplit(": ").next().unwrap()).collect();
    assert_eq!(advice.len(), ends.len(), "each has its own advice: {advice:?}");
    assert!(ends[5].1.contains("no-such-program-here"), "{}", ends[5].1);
}

#[test]
fn a_job_that_never_ran_has_its_end_too() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "work_queue_size = 1");
    let waits = |act: &dyn Fn()| {
        let waiting = place.start(&["run", "worker", "--wait"]);
        eventually("it waits", || place.waiting("worker") == 1);
        act();
        let ran = waiting.end().expect(1);
        ran.out
    };
    let job = || place.json(&["jobs", "list"])["queues"][0]["jobs"][0].as_str().unwrap().to_owned();
    assert!(waits(&|| drop(place.ask("worker"))).starts_with("dropped: "));
    place.run(&["jobs", "clear", "worker"]).expect(0);
    assert!(waits(&|| drop(place.run(&["jobs", "clear", "worker"]).expect(0))).starts_with("cleared: "));
    assert!(waits(&|| drop(place.run(&["jobs", "cancel", &job()]).expect(0))).starts_with("cancelled"));
}

#[test]
fn what_an_agent_calls_answers_with_the_code_of_the_table() {
    let place = Place::sqlite();
    let script = "try() { \"$@\" > /dev/null 2>> said; echo $? >> codes; }
        try bell lock acquire test://mine
        try bell lock acquire test://held
        try bell lock release test://nobodys
        try bell lock acquire 'no key at all'
        try bell lock acquire test://held --wait 200ms
        try bell lock acquire --no-such-option
        try bell call worker
        try bell status working
        try bell lock release test://mine";
    place.agent("worker", script, "");
    place.run(&["lock", "acquire", "test://held"]).expect(0);
    let daemon = place.up();
    place.run_agent("worker");
    assert_eq!(
        place.lines("codes"),
        ["0", "1", "2", "4", "8", "9", "4", "0", "0"],
        "{:?}",
        place.lines("said")
    );
    daemon.stop();
}

#[test]
fn without_anybody_to_talk_to_an_agents_commands_fail_closed() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let run = |arguments: &[&str], set: &dyn Fn(&mut Command)| {
        let mut command = bare_command();
        command.args(arguments).current_dir(place.folder.path()).env("HOME", place.path("home"));
        for name in ["BELL_URL", "BELL_TOKEN", "BELL_RUN"] {
            command.env_remove(name);
        }
        set(&mut command);
        crate::support::finish(command).code
    };
    for arguments in [&["status", "x"][..], &["return", "x"], &["rerun"], &["call", "worker"]] {
        assert_eq!(run(arguments, &|_| {}), 6, "{arguments:?} with nothing set");
        let gone = format!("unix:{}", place.path("gone.sock").display());
        let code = run(arguments, &|command| {
            command.env("BELL_URL", &gone).env("BELL_TOKEN", "x").env("BELL_RUN", "worker-0000000000");
            command.env("BELL_STORE", "redis://127.0.0.1:1/0").env("BELL_SESSION", "x");
        });
        assert!([3, 5, 6].contains(&code), "{arguments:?} with nobody there: {code}");
    }
    assert!(!place.path(".bell").exists() && fs::read_dir(place.folder.path()).unwrap().count() <= 2);
}

#[test]
fn a_store_that_does_not_answer_is_unavailable() {
    let place = Place { url: "redis://127.0.0.1:1/0".to_owned(), ..Place::sqlite() };
    place.agent("worker", "true", "");
    for arguments in [&["run", "worker"][..], &["runs"], &["stat"], &["pause"], &["up"]] {
        place.run(arguments).expect(5);
    }
}
