//! S14: jobs whose agent declares locks wait for them in their queue, without a runner and without a process.

use std::fs;

use bell_core::work::job::{JobId, LockWait};
use serde_json::Value;

use crate::fleet::WAIT;
use crate::support::{Place, eventually};

/// Holds a key as a program outside of the fleet, for longer than any test waits for something.
fn hold(place: &Place, key: &str) {
    place.run(&["lock", "acquire", key, "--ttl", "10m"]).expect(0);
}

fn release(place: &Place, key: &str) {
    place.run(&["lock", "release", key]).expect(0);
}

fn ask_for(place: &Place, agent: &str, prompt: &str) -> String {
    place.json(&["run", agent, "--prompt", prompt])["job"].as_str().unwrap().to_owned()
}

fn lock_wait(place: &Place, job: &str) -> Option<LockWait> {
    place.job(&JobId::from(job)).lock_wait
}

fn until_it_waits(place: &Place, job: &str) -> LockWait {
    eventually("the job waits for its locks", || lock_wait(place, job).is_some());
    lock_wait(place, job).unwrap()
}

fn fate(place: &Place, job: &str) -> Value {
    place.fate(&JobId::from(job))
}

fn until_over(place: &Place, job: &str) -> Value {
    eventually("the job is over", || !fate(place, job).is_null());
    fate(place, job)
}

#[test]
fn a_job_waits_for_its_locks_without_a_runner_and_only_those_that_want_them_wait_behind_it() {
    let place = Place::sqlite();
    place.agent("editor", "echo $BELL_LOCK_FENCE >> fences", "locks = [\"repo://{prompt}\"]\nscale = 1");
    let daemon = place.up();
    hold(&place, "repo://a");
    let first = ask_for(&place, "editor", "a");
    until_it_waits(&place, &first);
    place.until_waiting("repo://a", 1);
    let second = ask_for(&place, "editor", "a");
    let other = ask_for(&place, "editor", "b");
    assert_eq!(
        until_over(&place, &other)["end"]["end"],
        "completed",
        "another key, and the one runner was free"
    );
    assert!(fate(&place, &first).is_null() && fate(&place, &second).is_null());
    assert_eq!(lock_wait(&place, &second), None, "it waits behind the first one, not beside it");
    assert_eq!((place.waiting("editor"), place.runs().len()), (2, 1), "waiting takes no run");
    let why = place.run(&["why", &first]).expect(0).out;
    assert!(why.contains("waits for its locks: repo://a"), "{why}");
    release(&place, "repo://a");
    let [first, second] = [&first, &second].map(|job| until_over(&place, job));
    assert_eq!((&first["end"]["end"], &second["end"]["end"]), (&"completed".into(), &"completed".into()));
    let fences: Vec<u64> = place.lines("fences").iter().map(|fence| fence.parse().unwrap()).collect();
    assert_eq!(fences.len(), 3);
    assert!(fences.is_sorted(), "{fences:?}");
    eventually("the lock is free", || place.is_free("repo://a"));
    daemon.stop();
}

#[test]
fn all_locks_of_a_job_are_granted_at_once_and_none_before() {
    let place = Place::sqlite();
    place.agent("mover", "true", "locks = [\"repo://a\", \"repo://b\"]");
    let daemon = place.up();
    hold(&place, "repo://b");
    let job = ask_for(&place, "mover", "x");
    until_it_waits(&place, &job);
    place.until_waiting("repo://b", 1);
    assert!(place.show("repo://a")["holder"].is_null(), "{}", place.show("repo://a"));
    release(&place, "repo://b");
    assert_eq!(until_over(&place, &job)["end"]["end"], "completed");
    daemon.stop();
}

#[test]
fn jobs_that_wait_for_locks_count_for_the_size_of_the_queue() {
    let place = Place::sqlite();
    let settings = "locks = [\"repo://a\"]\nwork_queue_size = 2\noverflow = \"reject\"";
    place.agent("editor", "true", settings);
    let daemon = place.up();
    hold(&place, "repo://a");
    let first = ask_for(&place, "editor", "x");
    until_it_waits(&place, &first);
    ask_for(&place, "editor", "y");
    let refused = place.run(&["run", "editor"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("full"), "{refused:?}");
    daemon.stop();
}

#[test]
fn a_job_that_waits_too_long_for_its_locks_is_a_dead_letter_that_says_why_and_can_be_replayed() {
    let place = Place::sqlite();
    place.agent("editor", "true", "locks = [\"repo://a\"]\nlock_wait = \"1s\"");
    let daemon = place.up();
    hold(&place, "repo://a");
    let job = ask_for(&place, "editor", "x");
    let fate = until_over(&place, &job);
    let reason = fate["end"]["reason"].as_str().unwrap();
    assert!(reason.contains("waited for repo://a"), "{fate}");
    assert_eq!(place.undone().len(), 1);
    assert!(place.runs().is_empty(), "it never ran");
    eventually("it waits no more", || place.show("repo://a")["waiting"] == 0);
    release(&place, "repo://a");
    place.run(&["jobs", "replay", &job]).expect(0);
    eventually("it ran", || place.ends() == ["completed"]);
    daemon.stop();
}

#[test]
fn a_busy_job_is_skipped_or_fails_where_its_agent_says_so_and_scheduled_ones_are_skipped() {
    let place = Place::sqlite();
    place.agent("skips", "true", "locks = [\"repo://a\"]\non_busy = \"skip\"");
    place.agent("fails", "true", "locks = [\"repo://a\"]\non_busy = \"fail\"");
    place.agent("ticks", "true", "locks = [\"repo://a\"]\nschedule = \"* * * * *\"");
    // A tick that is queued behind a job that waits is skipped as well: it would come late.
    let late = "locks = [\"repo://a\"]\nschedule = \"* * * * *\"\noverlap = \"queue\"";
    place.agent("late", "true", late);
    place.seen("ticks", "2026-11-16T10:00:00Z");
    place.seen("late", "2026-11-16T10:00:00Z");
    hold(&place, "repo://a");
    let first = place.ask("late");
    let daemon = place.up_at("2026-11-16T10:00:50Z");
    let skipped = until_over(&place, &ask_for(&place, "skips", "x"));
    assert_eq!(skipped["end"]["end"], "busy", "{skipped}");
    assert!(place.runs_of("skips").is_empty() && place.undone().is_empty(), "nothing is to be done about it");
    let failed = until_over(&place, &ask_for(&place, "fails", "x"));
    assert_eq!(failed["end"]["end"], "busy", "{failed}");
    assert_eq!((place.runs_of("fails").len(), place.undone().len()), (1, 1));
    for agent in ["ticks", "late"] {
        eventually("the tick is skipped", || {
            place.history().iter().any(|event| {
                event.agent.as_ref().is_some_and(|name| name.as_str() == agent)
                    && serde_json::to_value(&event.what).unwrap()["what"] == "shelved"
            })
        });
    }
    assert_eq!(place.undone().len(), 1, "a tick is no dead letter");
    assert!(fate(&place, &first).is_null(), "the job before it waits on");
    daemon.stop();
}

#[test]
fn a_call_that_needs_what_its_caller_holds_fails_at_once_with_the_path() {
    let place = Place::sqlite();
    place.agent("helper", "true", "locks = [\"repo://a\"]");
    let settings = "locks = [\"repo://a\"]\ntimeout = \"30s\"";
    place.agent("caller", "bell call helper --wait > said 2>&1; echo $? > code", settings);
    let daemon = place.up();
    let ran = place.run_agent("caller");
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{ran}");
    assert_eq!(place.lines("code"), ["1"]);
    let said = place.lines("said").join("\n");
    assert!(said.contains("repo://a") && said.contains("bell://calls/"), "{said}");
    assert!(place.runs_of("helper").is_empty());
    daemon.stop();
}

#[test]
fn a_call_behind_a_job_that_waits_for_what_its_caller_holds_fails_at_once_too() {
    let place = Place::sqlite();
    place.agent("helper", "true", "locks = [\"repo://a\"]");
    let script = "echo x > up; until [ -e go ] || [ ! -e $PWD ]; do sleep 0.05; done; \
                  bell call helper --wait > said 2>&1; echo $? > code";
    place.agent("caller", script, "locks = [\"repo://a\"]\ntimeout = \"30s\"");
    let daemon = place.up();
    place.ask("caller");
    place.until_file("up");
    let first = place.ask("helper");
    until_it_waits(&place, &first);
    place.until_waiting("repo://a", 1);
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(until_over(&place, &first)["end"]["end"], "completed", "the job before it got its turn");
    assert_eq!((place.ends(), place.lines("code")), (vec!["completed".to_owned(); 2], vec!["1".to_owned()]));
    let said = place.lines("said").join("\n");
    assert!(said.contains("repo://a") && said.contains("bell://calls/"), "{said}");
    daemon.stop();
}

#[test]
fn a_call_whose_deadlock_is_closed_by_another_while_it_waits_fails_too() {
    let place = Place::sqlite();
    place.agent("helper", "true", "locks = [\"repo://b\"]");
    place.agent("caller", "bell call helper --wait > said 2>&1; echo $? > code", "locks = [\"repo://a\"]");
    let script = "bell lock acquire repo://b && echo x > has-b; until [ -e go ] || [ ! -e $PWD ]; do sleep 0.05; done; \
                  bell lock acquire repo://a --wait 60s";
    place.agent("middle", script, "");
    let daemon = place.up();
    place.ask("middle");
    place.until_file("has-b");
    place.ask("caller");
    place.until_waiting("repo://b", 1);
    fs::write(place.path("go"), "").unwrap();
    // Now the call waits for the one in the middle, that one for the caller, and the caller for its call.
    eventually("both are done", || place.ends() == ["completed", "completed"]);
    assert_eq!(place.lines("code"), ["1"]);
    let said = place.lines("said").join("\n");
    assert!(said.contains("repo://b") && said.contains("repo://a"), "{said}");
    daemon.stop();
}

#[test]
fn a_killed_daemon_keeps_the_place_of_a_job_among_those_that_wait_for_a_lock() {
    let place = Place::sqlite();
    place.agent("editor", "echo editor >> order", "locks = [\"repo://a\"]");
    let daemon = place.up();
    hold(&place, "repo://a");
    let job = ask_for(&place, "editor", "x");
    let before = until_it_waits(&place, &job);
    place.until_waiting("repo://a", 1);
    let script = "echo other >> order";
    let other = place.start(&["lock", "run", "repo://a", "--", "sh", "-c", script]);
    place.until_waiting("repo://a", 2);
    daemon.kill();
    let daemon = place.up();
    eventually("the next daemon goes on with it", || place.waiting("editor") == 1);
    assert_eq!(lock_wait(&place, &job), Some(before), "the same session waits, and since then");
    release(&place, "repo://a");
    assert_eq!(until_over(&place, &job)["end"]["end"], "completed");
    other.end().expect(0);
    assert_eq!(place.lines("order"), ["editor", "other"]);
    daemon.stop();
}

#[test]
fn a_job_whose_agent_declares_other_locks_meanwhile_waits_for_those() {
    let place = Place::sqlite();
    place.agent("editor", "true", "locks = [\"repo://a\"]");
    let daemon = place.up();
    hold(&place, "repo://a");
    let job = ask_for(&place, "editor", "x");
    until_it_waits(&place, &job);
    place.agent("editor", "true", "locks = [\"repo://b\"]");
    // The lock is still held: nobody waits for it any more.
    assert_eq!(until_over(&place, &job)["end"]["end"], "completed");
    assert_eq!(place.show("repo://a")["waiting"], 0);
    daemon.stop();
}

#[test]
fn a_cancelled_job_waits_for_no_lock() {
    let place = Place::sqlite();
    place.agent("editor", "true", "locks = [\"repo://a\"]");
    let daemon = place.up();
    hold(&place, "repo://a");
    let job = ask_for(&place, "editor", "x");
    until_it_waits(&place, &job);
    place.until_waiting("repo://a", 1);
    place.run(&["jobs", "cancel", &job]).expect(0);
    eventually("nobody waits", || place.show("repo://a")["waiting"] == 0);
    daemon.stop();
}

#[test]
fn a_job_whose_runner_is_taken_when_it_gets_its_locks_gives_them_back_and_waits_anew() {
    let place = Place::sqlite();
    place.agent("editor", WAIT, "locks = [\"repo://{prompt}\"]\nscale = 1");
    let daemon = place.up();
    hold(&place, "repo://a");
    let first = ask_for(&place, "editor", "a");
    until_it_waits(&place, &first);
    place.until_waiting("repo://a", 1);
    let second = ask_for(&place, "editor", "b");
    eventually("the other one runs", || place.lines("up").len() == 1);
    release(&place, "repo://a");
    eventually("the lock is free again", || place.is_free("repo://a"));
    assert!(fate(&place, &first).is_null(), "it is in its place");
    fs::write(place.path("go"), "").unwrap();
    for job in [&first, &second] {
        assert_eq!(until_over(&place, job)["end"]["end"], "completed");
    }
    daemon.stop();
}

#[test]
fn with_locks_in_another_store_a_job_waits_too_and_a_killed_daemon_leaves_nothing_behind() {
    let place = Place::sqlite();
    let locks = format!("file:{}", place.path("locks").display());
    place.write("config.toml", &format!("locks = \"{locks}\"\n"));
    place.agent("editor", "true", "locks = [\"repo://a\"]");
    let lock = |arguments: &[&str]| place.run(&[&["--json", "--store", &locks, "lock"], arguments].concat());
    let daemon = place.up();
    lock(&["acquire", "repo://a", "--ttl", "120s"]).expect(0);
    let job = ask_for(&place, "editor", "x");
    until_it_waits(&place, &job);
    let waiting = || lock(&["show", "repo://a"]).json()["waiting"] == 1;
    eventually("it waits there", waiting);
    daemon.kill();
    // Granted to a session of which no daemon knows: it holds the lock for 15 s at most, and no runner.
    lock(&["release", "repo://a"]).expect(0);
    eventually("the lock is free", || lock(&["show", "repo://a"]).json()["outcome"] == "free");
    assert!(place.runs().is_empty() && place.waiting("editor") == 1);
    let daemon = place.up();
    assert_eq!(until_over(&place, &job)["end"]["end"], "completed");
    eventually("the lock is free", || lock(&["show", "repo://a"]).json()["outcome"] == "free");
    daemon.stop();
}
