//! What runs printed: by agent, filtered, from an offset, harmless on a terminal.

use std::fs;

use serde_json::Value;

use crate::support::{Place, eventually, finish};

fn texts(answer: &Value) -> Vec<&str> {
    answer["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

fn ran(script: &str) -> Place {
    let place = Place::sqlite();
    place.agent("worker", script, "");
    let daemon = place.up();
    place.run_agent("worker");
    daemon.kill();
    place
}

#[test]
fn the_last_run_of_an_agent_is_shown_by_the_agents_name_or_by_none() {
    let place = ran("echo one; echo two >&2; echo three");
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    for name in [&[run.as_str()][..], &["worker"], &[]] {
        let out = place.run(&[&["logs"], name].concat()).expect(0).out;
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "three", "two"], "{name:?}");
    }
    let missing = place.run(&["logs", "wroker"]).expect(2);
    assert!(missing.err.contains("did you mean worker?"), "{missing:?}");
    place.run(&["logs", "../worker"]).expect(2);
}

#[test]
fn only_what_is_wanted_is_shown() {
    let place = ran("echo all well; echo an error; echo another error >&2");
    let answer = place.json(&["logs", "worker", "--grep", "error", "--stream", "out"]);
    assert_eq!(texts(&answer), ["an error"]);
    assert_eq!(texts(&place.json(&["logs", "worker", "--stream", "out", "--tail", "1"])), ["an error"]);
    assert_eq!(texts(&place.json(&["logs", "worker", "--since", "2099-01-01T00:00Z"])), [""; 0]);
    assert_eq!(texts(&place.json(&["logs", "worker", "--since", "1h"])).len(), 3);
    place.run(&["logs", "worker", "--since", "soon"]).expect(4);
}

#[test]
fn a_large_log_comes_in_answers_that_are_read_on_and_whole_when_piped() {
    let place = ran("seq 1 300000");
    let (mut all, mut from, mut answers) = (Vec::new(), 0, 0);
    loop {
        let answer = place.json(&["logs", "worker", "--from", &from.to_string()]);
        all.extend(texts(&answer).into_iter().map(str::to_owned));
        (from, answers) = (answer["next"].as_u64().unwrap(), answers + 1);
        if answer["is_last"] == true {
            break;
        }
    }
    assert!(answers > 1);
    assert!(all.iter().map(String::as_str).eq((1..=300_000).map(|n| n.to_string()).collect::<Vec<_>>()));
    let piped = place.run(&["logs", "worker"]).expect(0).out;
    assert!(piped.lines().eq(all.iter().map(String::as_str)));
}

#[test]
fn an_agents_escapes_are_raw_in_a_pipe_and_harmless_on_a_terminal() {
    let place = ran("printf '\\033[2Jgone\\ttab\\n'");
    assert_eq!(place.run(&["logs", "worker"]).expect(0).out, "\u{1b}[2Jgone\ttab\n");
    // script(1) gives the command a terminal.
    let bell = env!("CARGO_BIN_EXE_bell");
    let command = place.command(&[]);
    #[expect(clippy::disallowed_methods, reason = "a terminal for the real binary")]
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &format!("{bell} logs worker"), "/dev/null"]);
    script.current_dir(place.folder.path()).stdin(std::process::Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let shown = finish(script).expect(0).out;
    assert!(shown.contains("\\u{1b}[2Jgone\ttab") && !shown.contains("\u{1b}[2J"), "{shown:?}");
}

#[test]
fn an_agent_is_followed_over_the_end_of_a_run_into_the_next() {
    let place = Place::sqlite();
    place.agent("worker", "cat $PWD/words", "");
    let daemon = place.up();
    fs::write(place.path("words"), "first\n").unwrap();
    place.run_agent("worker");
    let mut follows = place.start(&["logs", "-f", "worker"]);
    assert_eq!(follows.line(), "first");
    fs::write(place.path("words"), "second\n").unwrap();
    place.run_agent("worker");
    assert_eq!(follows.line(), "second");
    daemon.stop();
}

#[test]
fn a_run_that_still_goes_on_is_shown_without_waiting_for_its_end() {
    let place = Place::sqlite();
    place.agent(
        "worker",
        "echo one; printf question; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done",
        "",
    );
    let daemon = place.up();
    place.ask("worker");
    eventually("what it has printed is there", || {
        let ran = place.run(&["--json", "logs", "worker"]);
        ran.code == 0 && texts(&ran.json()) == ["one", "question"]
    });
    assert_eq!(place.json(&["logs", "worker"])["is_last"], false);
    fs::write(place.path("go"), "").unwrap();
    daemon.stop();
}
