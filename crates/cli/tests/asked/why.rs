//! Why something happened, or did not.

use std::fs;

use serde_json::Value;

use crate::fleet::{WAIT, kill};
use crate::support::{Place, eventually};

fn why(place: &Place, name: &str) -> Value {
    place.run(&["--json", "why", name]).expect(0).json()
}

fn says(place: &Place, name: &str) -> String {
    why(place, name)["says"].as_str().unwrap().to_owned()
}

fn fact<'a>(answer: &'a Value, what: &str) -> &'a Value {
    let facts = answer["facts"].as_array().unwrap();
    facts.iter().find(|fact| fact["what"] == what).unwrap_or_else(|| panic!("{what}: {answer}"))
}

#[test]
fn an_agent_says_what_keeps_it_from_running_while_no_daemon_is_there() {
    let place = Place::sqlite();
    place.make_store();
    place.agent("worker", "true", "schedule = \"0 10 * * *\"");
    place.agent("off", "true", "scale = 0");
    assert_eq!(says(&place, "off"), "off is disabled: its scale is 0");
    let job = place.ask("worker");
    assert_eq!(says(&place, "worker"), "worker has nobody to start it: no daemon runs; 1 job waits for it");
    let answer = why(&place, "worker");
    assert!(fact(&answer, "schedule")["value"].as_str().unwrap().contains("next at 20"), "{answer}");
    assert!(fact(&answer, "waiting")["value"].as_str().unwrap().contains(&job), "{answer}");
    place.run(&["pause", "worker", "--reason", "lunch"]).expect(0);
    let answer = why(&place, "worker");
    assert!(answer["says"].as_str().unwrap().starts_with("worker is paused since "), "{answer}");
    assert_eq!(fact(&answer, "paused")["because"], "lunch");
    assert_eq!(answer["next"][0], "let it go on: bell resume worker");
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let place = Place::sqlite();
    place.make_store();
    place.agent("worker", "true", "");
    place.agent("other", "true", "");
    place.write("agents/worker/config.toml", "scael = 2\n");
    let answer = why(&place, "worker");
    let broken = fact(&answer, "broken");
    assert!(broken["value"].as_str().unwrap().contains("agents/worker/config.toml:1:1"), "{answer}");
    assert!(broken["because"].as_str().unwrap().contains("keeps the last good version"), "{answer}");
}

#[test]
fn an_agent_at_its_cap_names_its_run_and_a_job_what_stands_before_it() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "");
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || place.lines("up").len() == 1);
    let run = place.lines("up").remove(0);
    let (second, third) = (place.ask("worker"), place.ask("worker"));
    let expected = format!("worker is at its cap: 1 of 1 run ({run}); 2 jobs wait for it");
    assert_eq!(says(&place, "worker"), expected);
    let answer = why(&place, &third);
    assert!(answer["says"].as_str().unwrap().contains("waits behind 1 job of worker"), "{answer}");
    assert_eq!(fact(&answer, "before it")["value"], second.as_str());
    assert!(says(&place, &run).starts_with(&format!("{run} runs, for ")), "{}", says(&place, &run));
    fs::write(place.path("go"), "").unwrap();
    eventually("all is done", || place.ends() == ["completed"; 3]);
    daemon.stop();
    // The last of them waited for the first, and history says so after the daemon has gone.
    let answer = why(&place, &third);
    assert!(answer["says"].as_str().unwrap().ends_with("is over: its last run completed"), "{answer}");
}

#[test]
fn a_run_tells_how_it_ended_who_killed_it_and_what_to_do_next() {
    let place = Place::sqlite();
    place.agent("worker", "exit 3", "");
    place.agent("slow", WAIT, "grace = \"1s\"");
    let daemon = place.up();
    place.run(&["run", "worker", "--wait"]).expect(1);
    place.ask("slow");
    eventually("it runs", || place.lines("up").len() == 1);
    let slow = place.lines("up").remove(0);
    let mut kill = place.command(&["kill", &slow, "--reason", "it goes in circles"]);
    kill.env("USER", "ada");
    assert_eq!(crate::support::finish(kill).code, 0);
    eventually("it is over", || place.ends().iter().all(|end| end != "running"));
    daemon.kill();
    let answer = why(&place, &slow);
    let killed = "killed (it goes in circles, says ada)";
    assert!(answer["says"].as_str().unwrap().contains(killed), "{answer}");
    assert_eq!(fact(&answer, "killed")["because"], "it goes in circles, says ada");
    let failed = place.runs_of("worker")[0]["run"].as_str().unwrap().to_owned();
    let answer = why(&place, &failed);
    assert!(answer["says"].as_str().unwrap().contains("ended as failed (exit code 3)"), "{answer}");
    assert!(answer["next"][0].as_str().unwrap().contains(&format!("bell logs {failed}")), "{answer}");
    assert_eq!(fact(&answer, "job")["because"], "by hand");
    // The start of its name is enough.
    assert_eq!(why(&place, &failed[..failed.len() - 2])["name"], failed.as_str());
}

#[test]
fn a_job_lists_every_run_with_node_attempt_times_and_end() {
    let place = Place::sqlite();
    let script = format!("[ -e supervisor.txt ] && exit 0; echo $PPID > supervisor.txt; {WAIT}");
    place.agent("worker", &script, "retry = { attempts = 3, backoff = \"100ms\", on = [\"lost\"] }");
    let daemon = place.up();
    let job = place.ask("worker");
    kill(&place.until_file("supervisor.txt"));
    eventually("it was dispatched twice", || place.ends() == ["completed", "lost"]);
    let live = why(&place, &job);
    daemon.stop();
    let answer = why(&place, &job);
    assert_eq!(live["runs"], answer["runs"], "a daemon answers the same");
    let runs = answer["runs"].as_array().unwrap();
    let ends: Vec<_> = runs.iter().map(|run| (run["attempt"].as_u64(), run["end"]["end"].as_str())).collect();
    assert_eq!(ends, [(Some(1), Some("lost")), (Some(2), Some("completed"))]);
    for run in runs {
        let time = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{name}: {run}"));
        assert!(time("claimed_ms") <= time("begun_ms") && time("begun_ms") <= time("ended_ms"), "{run}");
        assert!(!run["node"].as_str().unwrap().is_empty(), "{run}");
    }
    let plain = place.run(&["why", &job]).expect(0).out;
    for (run, (attempt, end)) in runs.iter().zip([(1, "lost"), (2, "completed")]) {
        let (name, node) = (run["run"].as_str().unwrap(), run["node"].as_str().unwrap());
        let line = plain.lines().find(|line| line.contains(&format!("{name}: attempt {attempt} on {node}")));
        assert!(line.is_some_and(|line| line.ends_with(end)), "{plain}");
    }
}

#[test]
fn a_job_that_was_dropped_cleared_or_cancelled_says_so() {
    let place = Place::sqlite();
    place.agent("worker", "true", "workQueueSize = 1");
    let (dropped, cancelled) = (place.ask("worker"), place.ask("worker"));
    assert!(says(&place, &dropped).contains("dropped: the queue was full"), "{}", says(&place, &dropped));
    place.run(&["jobs", "cancel", &cancelled]).expect(0);
    assert!(says(&place, &cancelled).contains("cancelled: somebody took it out"));
    let cleared = place.ask("worker");
    place.run(&["jobs", "clear", "worker"]).expect(0);
    assert!(says(&place, &cleared).contains("cleared: "), "{}", says(&place, &cleared));
    assert_eq!(
        why(&place, &cleared)["next"][0],
        format!("have it done after all: bell jobs replay {cleared}")
    );
    let answer = why(&place, "worker");
    assert!(fact(&answer, "not done")["because"].as_str().unwrap().contains("cleared"), "{answer}");
}

#[test]
fn a_lock_tells_who_holds_it_for_which_run_and_who_broke_it() {
    let place = Place::sqlite();
    let script = format!("bell lock acquire issue://42 && {WAIT}");
    place.agent("worker", &script, "");
    let daemon = place.up();
    place.ask("worker");
    eventually("it holds the lock", || place.lines("up").len() == 1);
    let run = place.lines("up").remove(0);
    let waiting = place.start(&["lock", "acquire", "issue://42", "--wait", "60s", "--label", "patient"]);
    place.until_waiting("issue://42", 1);
    let answer = why(&place, "issue://42");
    assert!(fact(&answer, "held by")["because"].as_str().unwrap().contains(&run), "{answer}");
    assert!(fact(&answer, "held by")["value"].as_str().unwrap().contains("fence "), "{answer}");
    assert!(fact(&answer, "waits")["value"].as_str().unwrap().starts_with("1. patient"), "{answer}");
    assert!(fact(&why(&place, &run), "locks")["value"].as_str().unwrap().contains("issue://42"));
    place.run(&["lock", "break", "issue://42", "--reason", "stuck", "--yes"]).expect(0);
    waiting.end().expect(0);
    let answer = why(&place, "issue://42");
    assert_eq!(fact(&answer, "broken")["because"], "stuck");
    fs::write(place.path("go"), "").unwrap();
    daemon.stop();
    assert_eq!(says(&place, "issue://1"), "issue://1 is free");
}

#[test]
fn a_tick_fired_was_skipped_or_was_never_due() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"*/5 * * * *\"\ntimezone = \"UTC\"");
    place.run(&["pause", "--reason", "night"]).expect(0);
    let daemon = place.up_at("2030-03-01T09:59:58Z");
    eventually("the tick is decided", || !place.ticks("worker").is_empty());
    let skipped = says(&place, "worker@2030-03-01T10:00Z");
    assert_eq!(skipped, "worker@2030-03-01T10:00:00Z was skipped: paused: night");
    daemon.stop();
    place.run(&["resume"]).expect(0);
    let daemon = place.up_at("2030-03-01T10:04:58Z");
    eventually("the next one is", || place.ticks("worker").len() == 2);
    daemon.stop();
    let answer = why(&place, "worker@2030-03-01T10:05:00Z");
    assert!(answer["says"].as_str().unwrap().contains(" fired, as job "), "{answer}");
    let never = says(&place, "worker@2030-03-01T10:01Z");
    assert!(never.contains("was never due") && never.contains("2030-03-01T10:00:00Z"), "{never}");
    assert!(says(&place, "worker@2031-01-01T00:00Z").contains("is not due yet"));
}

#[test]
fn what_nobody_knows_has_the_nearest_name_and_exit_code_2() {
    let place = Place::sqlite();
    place.make_store();
    place.agent("triage", "true", "");
    let ran = place.run(&["why", "traige"]).expect(2);
    assert!(ran.err.contains("did you mean triage?") && ran.err.contains("hint: "), "{ran:?}");
    let refusal = place.run(&["--json", "why", "triaje"]).expect(2).json();
    assert_eq!(refusal["outcome"], "not_found");
    for odd in ["", "../../etc", "a b", "nobody@2026-11-16T10:00Z", "\u{1b}[2J"] {
        place.run(&["why", odd]).expect(2);
    }
    let (first, second) = (place.ask("triage"), place.ask("triage"));
    let common: String =
        first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let ran = place.run(&["why", &common]).expect(2);
    assert!(ran.err.contains(&first) && ran.err.contains(&second), "{ran:?}");
}

#[test]
fn the_answer_is_plain_sentences_and_outside_of_a_project_locks_are_still_known() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", "deploy://api", "--label", "me"]).expect(0);
    let ran = place.run(&["why", "deploy://api"]).expect(0);
    assert!(ran.out.starts_with("deploy://api is held by me"), "{ran:?}");
    assert!(ran.out.contains("\nnext: wait for it: bell lock wait deploy://api"), "{ran:?}");
}
