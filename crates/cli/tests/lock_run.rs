//! `bell lock run` with the real binary: the command's end, signals, and locks that are lost.

mod support;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{Place, eventually, finish, finish_with, start};

const KEY: &str = "deploy://api-prod";

fn run<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["lock", "run", KEY], options, &["--", "sh", "-c", script]].concat()
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    for place in Place::each() {
        for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
            place.run(&run(&[], script)).expect(code);
            assert!(place.is_free(KEY));
        }
    }
}

#[test]
fn a_command_that_is_not_there_has_the_exit_code_of_shells() {
    let place = Place::sqlite();
    let ran = place.run(&["lock", "run", KEY, "--", "no-such-command"]).expect(127);
    assert!(ran.err.contains("could not run no-such-command"), "{ran:?}");
    let folder = place.folder.path().to_str().unwrap();
    place.run(&["lock", "run", KEY, "--", folder]).expect(126);
    assert!(place.is_free(KEY));
}

#[test]
fn the_command_knows_its_fences_and_streams_are_its_own() {
    let place = Place::sqlite();
    let script = "cat; echo \"$BELL_LOCK_KEY $BELL_LOCK_FENCE $BELL_LOCK_FENCES ${BELL_SESSION-none}\"";
    let mut command = place.command(&["lock", "run", "k:b", "k:a", "--", "sh", "-c", script]);
    let other = place.json(&["lock", "acquire", "k:other"]);
    command.env("BELL_SESSION", other["token"].as_str().unwrap());
    let ran = finish_with(command, "input\n").expect(0);
    let (input, rest) = ran.out.split_once('\n').unwrap();
    assert_eq!(input, "input");
    let words: Vec<&str> = rest.split_whitespace().collect();
    let fence: u64 = words[1].parse().unwrap();
    assert_eq!((words[0], words[3]), ("k:b", "none"));
    let fences: serde_json::Value = serde_json::from_str(words[2]).unwrap();
    assert_eq!(fences, serde_json::json!({"k:a": fence, "k:b": fence}), "one grant");
    assert!(ran.err.is_empty(), "{ran:?}");
}

#[test]
fn the_lock_is_held_while_the_command_runs() {
    for place in Place::each() {
        let running = place.start(&run(&["--label", "job"], "exec sleep 1000"));
        eventually("the lock is held", || place.show(KEY)["holder"]["label"] == "job");
        drop(running);
    }
}

#[test]
fn without_waiting_a_conflict_ends_it_and_the_command_does_not_run() {
    for place in Place::each() {
        place.run(&["lock", "acquire", KEY, "--label", "other"]).expect(0);
        let ran = place.run(&run(&["-n"], "touch ran")).expect(1);
        assert!(ran.err.contains("held by other"), "{ran:?}");
        place.run(&run(&["--nonblock", "-E", "75"], "touch ran")).expect(75);
        place.run(&run(&["-w", "50ms", "--conflict-exit-code", "76"], "touch ran")).expect(76);
        let json = place.run(&[&["--json"], run(&["-n"], "touch ran").as_slice()].concat()).expect(1).json();
        assert_eq!((&json["outcome"], &json["holder"]["label"]), (&"busy".into(), &"other".into()));
        assert!(!place.path("ran").exists());
        assert_eq!(place.show(KEY)["waiting"], 0);
    }
}

#[test]
fn by_default_it_waits_for_its_turn() {
    for place in Place::each() {
        place.run(&["lock", "acquire", KEY]).expect(0);
        let waiting = place.start(&run(&[], "exit 5"));
        place.until_waiting(KEY, 1);
        place.run(&["lock", "release", KEY]).expect(0);
        waiting.end().expect(5);
    }
}

#[test]
fn a_wait_that_is_interrupted_leaves_the_queue() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY]).expect(0);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiting = place.start(&run(&[], "touch ran"));
        place.until_waiting(KEY, 1);
        waiting.signal(signal);
        waiting.end().expect(code);
        assert_eq!(place.show(KEY)["waiting"], 0);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn readers_run_together_and_a_writer_does_not() {
    let place = Place::sqlite();
    let reader = place.start(&run(&["-s", "--label", "reader"], "echo up > up; exec sleep 1000"));
    place.until_file("up");
    place.run(&run(&["-s", "-n"], "exit 4")).expect(4);
    place.run(&run(&["-n"], "exit 4")).expect(1);
    reader.signal(Signal::TERM);
    reader.end().expect(143);
    place.run(&run(&["-n"], "exit 4")).expect(4);
}

#[test]
fn a_command_inside_a_command_is_a_session_of_its_own() {
    let place = Place::sqlite();
    let bell = env!("CARGO_BIN_EXE_bell");
    place.run(&run(&[], &format!("{bell} lock run -n {KEY} -- true"))).expect(1);
    place.run(&run(&[], &format!("{bell} lock run -n job:other -- true"))).expect(0);
}

#[test]
fn signals_reach_the_command() {
    let place = Place::sqlite();
    for (name, signal) in [("TERM", Signal::TERM), ("INT", Signal::INT), ("USR1", Signal::USR1)] {
        let script = format!("trap 'exit 42' {name}; echo up > up.{name}; while :; do sleep 0.05; done");
        let running = place.start(&run(&[], &script));
        place.until_file(&format!("up.{name}"));
        running.signal(signal);
        running.end().expect(42);
        assert!(place.is_free(KEY));
    }
}

#[test]
fn if_bell_is_killed_the_lock_is_free_at_once_and_the_command_is_told() {
    for place in Place::each() {
        let script = "trap 'echo told > told; exit' TERM; echo up > up; while :; do sleep 0.05; done";
        let mut command = place.command(&run(&["--ttl", "7d"], script));
        // The command outlives bell for a moment, and must not keep the test's pipes open.
        command.stdin(std::process::Stdio::null());
        let running = start(command);
        place.until_file("up");
        running.kill();
        place.run(&["lock", "acquire", KEY]).expect(0);
        assert_eq!(place.until_file("told"), "told\n");
    }
}

#[test]
fn a_lock_that_was_lost_in_a_pause_ends_the_command() {
    for place in Place::each() {
        let script = "trap 'echo told > told; exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
        let running = place.start(&run(&["--ttl", "2s"], script));
        place.until_file("up");
        running.pause();
        place.run(&["lock", "acquire", KEY, "--wait", "10m", "--label", "successor"]).expect(0);
        assert!(!place.path("told").exists());
        running.signal(Signal::CONT);
        let ran = running.end().expect(7);
        assert!(ran.err.contains("bell: lost: the lock deploy://api-prod is lost"), "{ran:?}");
        assert_eq!(place.until_file("told"), "told\n");
        assert_eq!(place.show(KEY)["holder"]["label"], "successor");
    }
}

#[test]
fn a_command_that_outlived_its_lock_is_no_success() {
    let place = Place::sqlite();
    let script = "echo up > up; while ! [ -e go ]; do sleep 0.05; done; echo done > done";
    let running = place.start(&run(&["--ttl", "1s"], script));
    place.until_file("up");
    running.pause();
    place.run(&["lock", "wait", KEY]).expect(0);
    std::fs::write(place.path("go"), "").unwrap();
    place.until_file("done");
    running.signal(Signal::CONT);
    running.end().expect(7);
}

#[test]
fn a_lock_that_an_operator_broke_ends_the_command() {
    for place in Place::each() {
        let script = "trap 'exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
        let running = place.start(&[&["--json"], run(&[], script).as_slice()].concat());
        place.until_file("up");
        place.run(&["lock", "break", KEY, "--reason", "maintenance", "--yes"]).expect(0);
        let ran = running.end().expect(7);
        let answer: serde_json::Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
        assert_eq!((&answer["outcome"], &answer["key"]), (&"lost".into(), &KEY.into()));
        assert!(answer["message"].as_str().unwrap().contains("maintenance"), "{answer}");
    }
}

#[test]
fn a_command_that_does_not_end_when_its_lock_is_lost_is_killed_with_all_it_started() {
    let place = Place::sqlite();
    let script =
        "trap '' TERM; sh -c 'echo $$ > inner; while :; do sleep 0.05; done' & echo up > up; wait; wait";
    let running = place.start(&run(&["--kill-after", "200ms"], script));
    place.until_file("up");
    let inner: i32 = place.until_file("inner").trim().parse().unwrap();
    place.run(&["lock", "break", KEY, "--reason", "maintenance", "--yes"]).expect(0);
    running.end().expect(7);
    eventually("what it started is gone", || test_kill_process(Pid::from_raw(inner).unwrap()).is_err());
}

#[test]
fn a_command_that_does_not_end_is_killed_when_the_lease_that_can_not_be_renewed_ends_whatever_its_grace() {
    let place = Place::sqlite();
    let script = "trap '' TERM; echo up > up; while :; do sleep 0.05; done";
    let running = place.start(&run(&["--ttl", "3s", "--kill-after", "10m"], script));
    place.until_file("up");
    // From now on the store refuses every renewal.
    std::fs::rename(place.path("bell.db"), place.path("elsewhere.db")).unwrap();
    let ran = running.end().expect(7);
    assert!(ran.err.contains("the lock is lost: ending the command"), "{ran:?}");
}

#[test]
fn what_the_command_leaves_running_does_not_keep_the_lock() {
    for place in Place::each() {
        let script = "sleep 1000 < /dev/null > /dev/null 2>&1 & echo $! > left";
        place.run(&run(&[], script)).expect(0);
        let left = Pid::from_raw(place.until_file("left").trim().parse().unwrap()).unwrap();
        assert!(test_kill_process(left).is_ok(), "it should still run");
        place.run(&["lock", "acquire", KEY]).expect(0);
        kill_process(left, Signal::KILL).unwrap();
    }
}

#[test]
fn nothing_of_the_store_is_open_in_the_command() {
    for place in Place::each() {
        let ran = place.run(&run(&[], "ls -l /proc/$$/fd")).expect(0);
        let folder = place.folder.path().to_str().unwrap();
        let open: Vec<&str> = ran.out.lines().filter(|line| line.contains(folder)).collect();
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn a_command_needs_a_command() {
    let place = Place::sqlite();
    place.run(&["lock", "run", KEY]).expect(9);
    let mut command = place.command(&["lock", "run", "-n", "-w", "1s", KEY, "--", "true"]);
    command.env("LC_ALL", "C");
    finish(command).expect(9);
}
