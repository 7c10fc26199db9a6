//! A project that runs: the real daemon, real agents, killed and stopped.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Place, eventually};

/// A place with a project of one agent that this script runs.
fn project(script: &str, settings: &str) -> Place {
    let place = Place::sqlite();
    add_agent(&place, "worker", script, settings);
    place
}

fn add_agent(place: &Place, name: &str, script: &str, settings: &str) {
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

fn ends(place: &Place) -> Vec<String> {
    let answer = place.json(&["runs"]);
    let runs = answer["runs"].as_array().unwrap().clone();
    runs.iter().map(|run| run["end"]["end"].as_str().unwrap_or("running").to_owned()).collect()
}

fn run(place: &Place) -> Value {
    place.json(&["run", "worker", "--wait"])
}

#[test]
fn an_agent_that_is_asked_for_runs_and_its_output_is_kept() {
    let place = project("cat; echo \"run $BELL_RUN of $BELL_AGENT\"", "");
    let daemon = place.start(&["up"]);
    assert_eq!(run(&place)["fate"]["end"]["end"], "completed");
    let name = place.json(&["runs"])["runs"][0]["run"].as_str().unwrap().to_owned();
    let log = place.run(&["logs", &name]).expect(0).out;
    assert!(log.contains("Do the work."), "{log}");
    assert!(log.contains(&format!("run {name} of worker")), "{log}");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn what_was_accepted_while_no_daemon_ran_is_run_by_the_next_one() {
    let place = project("echo done > $PWD/done.txt", "");
    place.run(&["run", "worker"]).expect(0);
    let daemon = place.start(&["up"]);
    eventually("the agent ran", || place.path("done.txt").exists());
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_run_goes_on_while_the_daemon_is_dead_and_is_found_again() {
    let script = "echo up > $PWD/up.txt; while [ ! -e $PWD/go ]; do sleep 0.05; done";
    let place = project(script, "");
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    place.until_file("up.txt");
    daemon.kill();
    fs::write(place.path("go"), "").unwrap();
    eventually("its end is on record without a daemon", || ends(&place) == ["completed"]);
    let daemon = place.start(&["up"]);
    assert_eq!(run(&place)["fate"]["end"]["end"], "completed");
    assert_eq!(ends(&place), ["completed", "completed"], "it was not run twice");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_daemon_starts_although_the_lock_of_the_killed_one_is_not_free_yet() {
    let place = project("true", "");
    let daemon = place.start(&["up"]);
    eventually("it is up", || place.run(&["run", "worker"]).code == 0);
    daemon.kill();
    let lock = fs::File::options().append(true).open(place.path(".bell/daemon.lock")).unwrap();
    lock.lock().unwrap();
    let mut daemon = place.start(&["up"]);
    // For as long as the kernel may take to free the memory of the killed one.
    thread::sleep(Duration::from_millis(300));
    drop(lock);
    assert_eq!(daemon.line(), "ready");
    assert_eq!(run(&place)["fate"]["end"]["end"], "completed");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_failure_is_told_with_its_code_and_a_time_out_is_no_success() {
    let place = project("exit 3", "");
    add_agent(&place, "slow", "sleep 100", "timeout = \"1s\"\ngrace = \"1s\"");
    let daemon = place.start(&["up"]);
    let ran = place.run(&["--json", "run", "worker", "--wait"]).expect(1);
    assert_eq!(ran.json()["fate"]["end"]["code"], 3);
    let ran = place.run(&["--json", "run", "slow", "--wait"]).expect(1);
    assert_eq!(ran.json()["fate"]["end"]["end"], "timeout");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_lock_that_the_agent_needs_is_taken_before_it_starts_and_free_afterwards() {
    let script = "echo $BELL_LOCK_FENCE > $PWD/fence.txt; while [ ! -e $PWD/go ]; do sleep 0.05; done";
    let place = project(script, "locks = [\"deploy://api-prod\"]\nscale = 2\non_busy = \"fail\"");
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    let fence = place.until_file("fence.txt");
    assert_eq!(place.show("deploy://api-prod")["fence"], fence.trim().parse::<u64>().unwrap());
    let second = place.run(&["--json", "run", "worker", "--wait"]).expect(1);
    assert_eq!(second.json()["fate"]["end"]["end"], "busy");
    fs::write(place.path("go"), "").unwrap();
    eventually("the lock is free", || place.is_free("deploy://api-prod"));
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_lock_that_an_agent_takes_ends_with_its_run() {
    let script = "bell lock acquire issue://42 && echo held > $PWD/held.txt; \
                  while [ ! -e $PWD/go ]; do sleep 0.05; done";
    let place = project(script, "");
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    place.until_file("held.txt");
    assert_eq!(place.show("issue://42")["holder"]["agent"], "worker");
    fs::write(place.path("go"), "").unwrap();
    eventually("the lock is free", || place.is_free("issue://42"));
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_pause_holds_over_a_restart_and_loses_nothing() {
    let place = project("echo ran > $PWD/ran.txt", "");
    place.run(&["pause", "--reason", "lunch"]).expect(0);
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    let queues = place.json(&["jobs", "list"]);
    assert_eq!(
        (&queues["queues"][0]["waiting"], &queues["queues"][0]["paused"]),
        (&1.into(), &"lunch".into())
    );
    assert!(!place.path("ran.txt").exists());
    place.run(&["resume"]).expect(0);
    place.until_file("ran.txt");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_run_that_is_killed_leaves_no_process_and_no_lock() {
    let script = "(trap '' TERM; setsid sleep 1000 & echo $! > $PWD/child.txt; wait) & wait";
    let place = project(script, "locks = [\"deploy://api-prod\"]\ngrace = \"1s\"");
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    let child = place.until_file("child.txt");
    let name = place.json(&["runs"])["runs"][0]["run"].as_str().unwrap().to_owned();
    place.run(&["kill", &name, "--reason", "enough"]).expect(0);
    eventually("it ends as killed", || ends(&place) == ["killed"]);
    assert!(!std::path::Path::new(&format!("/proc/{}", child.trim())).exists());
    assert!(place.is_free("deploy://api-prod"));
    place.run(&["kill", &name]).expect(2);
    place.run(&["kill", "nobody-0000000000"]).expect(2);
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_run_whose_supervisor_is_killed_is_lost_and_leaves_neither_process_nor_lock() {
    let script = "setsid sleep 1000 & echo $! > $PWD/child.txt; echo $PPID > $PWD/supervisor.txt; wait";
    let place = project(script, "locks = [\"deploy://api-prod\"]");
    let daemon = place.start(&["up"]);
    place.run(&["run", "worker"]).expect(0);
    let child = place.until_file("child.txt");
    let supervisor = place.until_file("supervisor.txt");
    let supervisor = Pid::from_raw(supervisor.trim().parse().unwrap()).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    eventually("it ends as lost", || ends(&place) == ["lost"]);
    let gone = || !std::path::Path::new(&format!("/proc/{}", child.trim())).exists();
    eventually("nothing of it is left", gone);
    assert!(place.is_free("deploy://api-prod"));
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_failed_job_is_listed_and_can_be_replayed() {
    let place = project("[ -e $PWD/mended ]", "");
    let daemon = place.start(&["up"]);
    let job = place.run(&["--json", "run", "worker", "--wait"]).expect(1).json()["job"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(place.json(&["jobs", "undone"])["undone"][0]["job"], job.as_str());
    fs::write(place.path("mended"), "").unwrap();
    place.run(&["jobs", "replay", &job]).expect(0);
    eventually("it completes", || ends(&place).first().is_some_and(|end| end == "completed"));
    assert_eq!(place.json(&["jobs", "undone"])["undone"].as_array().unwrap().len(), 0);
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn waiting_jobs_can_be_cancelled_and_cleared() {
    let place = project("true", "");
    let accept = || place.json(&["run", "worker"])["job"].as_str().unwrap().to_owned();
    let (first, _second) = (accept(), accept());
    place.run(&["jobs", "cancel", &first]).expect(0);
    place.run(&["jobs", "cancel", &first]).expect(1);
    place.run(&["jobs", "clear", "worker"]).expect(0);
    assert_eq!(place.json(&["jobs", "list"])["queues"][0]["waiting"], 0);
    assert_eq!(place.json(&["jobs", "undone"])["undone"].as_array().unwrap().len(), 1);
    place.run(&["jobs", "replay", "nothing"]).expect(2);
}

#[test]
fn an_agent_calls_another_and_gets_what_it_returned() {
    let place = project("bell return \"$(bell call helper --context '{\"n\": 2}' --wait)\"", "");
    add_agent(&place, "helper", "bell status working; bell return \"got $(cat $BELL_TRIGGER_FILE)\"", "");
    let daemon = place.start(&["up"]);
    let returned = run(&place)["returned"].as_str().unwrap().to_owned();
    assert!(returned.starts_with("got {") && returned.contains("\"n\":2"), "{returned}");
    assert!(returned.contains("\"trigger\":\"call\""), "{returned}");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn calls_that_could_go_on_for_ever_are_refused() {
    let place = project(
        "bell call worker; echo self $? > $PWD/self.txt; bell call nobody; echo unknown $? > $PWD/unknown.txt",
        "",
    );
    add_agent(&place, "ping", "bell call pong --wait || echo refused >> $PWD/refused.txt", "scale = 4");
    add_agent(&place, "pong", "bell call ping --wait", "scale = 4");
    let daemon = place.start(&["up"]);
    run(&place);
    assert_eq!(place.until_file("self.txt"), "self 4\n");
    assert_eq!(place.until_file("unknown.txt"), "unknown 2\n");
    place.json(&["run", "ping", "--wait"]);
    // The fourth call in a row is refused; so the second ping hears that its pong failed, and no other.
    assert_eq!(place.until_file("refused.txt"), "refused\n");
    assert_eq!(ends(&place).len(), 5, "worker, ping, pong, ping, pong");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_run_that_asks_is_run_again_until_it_no_longer_asks() {
    let place = project("echo x >> $PWD/times.txt; [ $(wc -l < $PWD/times.txt) -ge 3 ] || bell rerun", "");
    let daemon = place.start(&["up"]);
    assert_eq!(run(&place)["fate"]["end"]["end"], "completed");
    assert_eq!(fs::read_to_string(place.path("times.txt")).unwrap().lines().count(), 3);
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn outside_of_a_run_an_agents_commands_fail_closed() {
    let place = project("true", "");
    for arguments in [&["status", "x"][..], &["return", "x"], &["rerun"], &["call", "worker"]] {
        place.run(arguments).expect(6);
        let mut command = place.command(arguments);
        command.env("BELL_URL", format!("unix:{}", place.path("nobody.sock").display()));
        support::finish(command).expect(3);
    }
}

#[test]
fn what_is_not_there_yet_is_refused_and_not_left_out() {
    let place = project("true", "model = \"large\"");
    let daemon = place.start(&["up"]);
    let ran = place.run(&["--json", "run", "worker", "--wait"]).expect(1);
    assert!(ran.json()["fate"]["end"]["reason"].as_str().unwrap().contains("which model"), "{ran:?}");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
    fs::write(place.path("config.toml"), "locks = \"memory:\"\n").unwrap();
    assert!(place.run(&["up"]).expect(4).err.contains("locks in another store"));
}

#[test]
fn an_agent_that_is_added_or_changed_while_the_daemon_runs_is_taken_up() {
    let place = project("echo old", "");
    let daemon = place.start(&["up"]);
    run(&place);
    add_agent(&place, "late", "echo late", "");
    assert_eq!(place.json(&["run", "late", "--wait"])["fate"]["end"]["end"], "completed");
    add_agent(&place, "worker", "echo new", "timeout = \"5m\"");
    eventually("the new script runs", || {
        run(&place);
        let name = place.json(&["runs"])["runs"][0]["run"].as_str().unwrap().to_owned();
        place.run(&["logs", &name]).out == "new\n"
    });
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_full_queue_drops_its_oldest_job_or_refuses_the_new_one_as_configured() {
    let place = project("true", "work_queue_size = 2");
    add_agent(&place, "strict", "true", "work_queue_size = 1\noverflow = \"reject\"");
    let jobs: Vec<String> =
        (0..3).map(|_| place.json(&["run", "worker"])["job"].as_str().unwrap().to_owned()).collect();
    let undone = place.json(&["jobs", "undone"]);
    assert_eq!(undone["undone"][0]["job"], jobs[0].as_str());
    assert_eq!(undone["undone"][0]["fate"]["fate"], "dropped");
    place.run(&["run", "strict"]).expect(0);
    place.run(&["run", "strict"]).expect(1);
}

#[test]
fn how_the_fleet_stands_can_be_seen_with_and_without_a_daemon() {
    let script = "echo up > $PWD/up.txt; while [ ! -e $PWD/go ]; do sleep 0.05; done";
    let place = project(script, "schedule = \"0 0 1 1 *\"");
    place.run(&["run", "worker"]).expect(0);
    place.run(&["run", "worker"]).expect(0);
    let stat = place.json(&["stat"]);
    let agent = &stat["agents"][0];
    assert_eq!((&stat["daemons"], &agent["running"], &agent["waiting"]), (&0.into(), &0.into(), &2.into()));
    assert!(agent["next"].as_str().unwrap().ends_with("-01-01T00:00:00Z"), "{agent}");
    let daemon = place.start(&["up"]);
    place.until_file("up.txt");
    let stat = place.json(&["stat"]);
    let agent = &stat["agents"][0];
    assert_eq!((&stat["daemons"], &agent["running"], &agent["waiting"]), (&1.into(), &1.into(), &1.into()));
    fs::write(place.path("go"), "").unwrap();
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
    assert_eq!(place.json(&["stat"])["daemons"], 0);
}

#[test]
fn a_new_project_has_nothing_wrong_and_its_agents_run() {
    let place = Place::sqlite();
    place.run(&["init", "fleet"]).expect(0);
    place.run(&["check", "fleet"]).expect(0);
    let again = place.run(&["init", "fleet"]).expect(1);
    assert!(again.err.contains("config.toml is there"), "{}", again.err);
    let daemon = place.start(&["up", "fleet"]);
    for agent in ["heartbeat", "desk"] {
        let ran = place.json(&["run", agent, "--project", "fleet", "--wait"]);
        assert_eq!(ran["fate"]["end"]["end"], "completed", "{agent}");
    }
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

#[test]
fn a_new_project_keeps_its_queue_over_a_stop() {
    let place = Place::sqlite();
    place.run(&["init", "fleet"]).expect(0);
    place.run(&["pause", "--project", "fleet"]).expect(0);
    let daemon = place.start(&["up", "fleet"]);
    let job = place.json(&["run", "desk", "--project", "fleet"])["job"].clone();
    daemon.signal(Signal::TERM);
    let ended = daemon.end().expect(0);
    assert!(ended.err.contains("stopped: 0 jobs cleared"), "{}", ended.err);
    let queues = place.json(&["jobs", "list", "--project", "fleet"])["queues"].clone();
    let desk = queues.as_array().unwrap().iter().find(|queue| queue["agent"] == "desk").unwrap();
    assert_eq!(desk["jobs"][0], job);
}

#[test]
fn a_second_daemon_in_one_project_is_refused() {
    let place = project("true", "");
    let daemon = place.start(&["up"]);
    eventually("it is up", || place.path(".bell/daemon.lock").exists());
    eventually("the second is refused", || place.run(&["up"]).code == 1);
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}
