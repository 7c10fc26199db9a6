//! Queues (S2), caps (S4), reruns (S5) and calls (S6).

use std::fs;

use crate::fleet::{WAIT, until_line};
use crate::support::{Place, eventually};

/// Waits until nothing of the fleet waits or runs.
fn until_idle(place: &Place) {
    eventually("everything is done", || place.is_idle());
}

#[test]
fn a_busy_agent_queues_what_is_asked_for_and_does_it_in_order() {
    let place = Place::sqlite();
    place.agent("worker", &format!("{WAIT}; echo $BELL_JOB >> order"), "");
    let daemon = place.up();
    let jobs: Vec<String> = (0..6).map(|_| place.ask("worker")).collect();
    eventually("the first runs, and five wait", || place.waiting("worker") == 5);
    fs::write(place.path("go"), "").unwrap();
    until_idle(&place);
    assert_eq!(place.lines("order"), jobs, "first come, first served");
    daemon.stop();
}

#[test]
fn what_a_full_queue_dropped_is_on_record_and_can_be_replayed() {
    let place = Place::sqlite();
    place.agent("worker", "echo $BELL_JOB >> done", "work_queue_size = 2");
    let jobs: Vec<String> = (0..4).map(|_| place.ask("worker")).collect();
    let dropped: Vec<String> = place.undone().iter().map(|(job, _)| job.to_string()).collect();
    assert_eq!(dropped, [jobs[1].clone(), jobs[0].clone()], "the oldest, the latest first");
    assert!(place.undone().iter().all(|(_, fate)| fate["fate"] == "dropped"), "{:?}", place.undone());
    assert_eq!(place.history().len(), 2, "a row for each: {:?}", place.history());
    let daemon = place.up();
    until_idle(&place);
    place.run(&["jobs", "replay", &jobs[0]]).expect(0);
    until_line(&place.path("done"), &jobs[0]);
    until_idle(&place);
    assert_eq!(place.lines("done"), [jobs[2].clone(), jobs[3].clone(), jobs[0].clone()]);
    assert_eq!(place.undone().len(), 1, "what was done after all is not listed");
    daemon.stop();
}

/// How many were at it at once at most, from lines of `+` and `-`.
fn most(lines: &[String]) -> i32 {
    let (mut now, mut most) = (0, 0);
    for line in lines {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    most
}

#[test]
fn no_more_runs_at_once_than_the_agent_and_the_project_allow() {
    let place = Place::sqlite();
    // Each notes that it is there in its own file and in that of the fleet.
    let script = "for f in $BELL_AGENT.txt fleet.txt; do echo + >> $f; done; sleep 0.15; \
                  for f in $BELL_AGENT.txt fleet.txt; do echo - >> $f; done";
    place.write("config.toml", "scale = 3\n");
    place.agent("one", script, "");
    place.agent("two", script, "scale = 2");
    place.agent("many", script, "scale = 50");
    let daemon = place.up();
    for _ in 0..6 {
        for agent in ["one", "two", "many"] {
            place.ask(agent);
        }
    }
    until_idle(&place);
    let counted = ["one.txt", "two.txt", "many.txt", "fleet.txt"].map(|name| place.lines(name));
    assert_eq!(counted.each_ref().map(Vec::len), [12, 12, 12, 36], "everything ran");
    let counted = counted.each_ref().map(|lines| most(lines));
    assert!(counted[0] == 1 && counted[1] <= 2 && counted[2] <= 3 && counted[3] <= 3, "{counted:?}");
    assert!(counted[3] > 1, "they do run side by side");
    daemon.stop();
}

#[test]
fn an_agent_of_scale_zero_runs_for_nobody_and_each_is_told_why() {
    let place = Place::sqlite();
    place.agent("off", "true", "scale = 0\nschedule = \"0 12 * * *\"");
    place.agent("caller", "bell call off 2> said; echo $? > code", "");
    let refused = place.run(&["run", "off"]).expect(4);
    assert!(refused.err.contains("its scale is 0"), "{refused:?}");
    place.seen("off", "2026-06-01T11:59:54Z");
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    place.run_agent("caller");
    assert_eq!(place.lines("code"), ["4"]);
    assert!(place.lines("said").join("\n").contains("scale is 0"), "{:?}", place.lines("said"));
    eventually("its tick is decided", || place.ticks("off").len() == 1);
    assert_eq!(place.skips(), ["the agent is disabled: its scale is 0"]);
    assert_eq!(place.runs_of("off").len(), 0);
    daemon.stop();
}

#[test]
fn reruns_end_at_their_limit_and_with_a_failure_and_are_not_for_calls() {
    let place = Place::sqlite();
    place.agent("endless", "echo x >> endless; bell rerun", "max_reruns = 3");
    place.agent("failing", "echo x >> failing; bell rerun; exit 1", "max_reruns = 3");
    place.agent("callee", "echo x >> callee; bell rerun; echo $? > code", "max_reruns = 3");
    place.agent("caller", "bell call callee --wait", "");
    place.agent(
        "ticking",
        "echo x >> ticking; [ $(wc -l < ticking) -ge 2 ] || bell rerun",
        "schedule = \"0 12 * * *\"",
    );
    place.seen("ticking", "2026-06-01T11:59:54Z");
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    assert_eq!(place.run_agent("endless")["fate"]["end"]["end"], "completed");
    place.run(&["run", "failing", "--wait"]).expect(1);
    place.run(&["run", "caller", "--wait"]).expect(0);
    eventually("the schedule fired", || place.ticks("ticking").len() == 1);
    until_idle(&place);
    let times = ["endless", "failing", "callee", "ticking"].map(|name| place.lines(name).len());
    assert_eq!(times, [4, 1, 1, 2]);
    assert_eq!(place.lines("code"), ["4"], "a run for a call is told that it may not");
    daemon.stop();
}

#[test]
fn a_failure_is_tried_again_only_where_the_agent_says_so_and_is_listed_when_it_stays_one() {
    let place = Place::sqlite();
    let retry = |on: &str| format!("retry = {{ attempts = 3, on = [\"{on}\"], backoff = \"100ms\" }}");
    place.agent("heals", "echo x >> heals; [ $(wc -l < heals) -ge 3 ]", &retry("failed"));
    place.agent("stays", "echo x >> stays; false", &retry("failed"));
    place.agent("other", "echo x >> other; false", &retry("timeout"));
    place.agent("plain", "echo x >> plain; false", "");
    let daemon = place.up();
    assert_eq!(place.run_agent("heals")["fate"]["end"]["end"], "completed");
    for agent in ["stays", "other", "plain"] {
        place.run(&["run", agent, "--wait"]).expect(1);
    }
    let times = ["heals", "stays", "other", "plain"].map(|name| place.lines(name).len());
    assert_eq!(times, [3, 3, 1, 1]);
    assert_eq!(place.undone().len(), 3, "{:?}", place.undone());
    daemon.stop();
}

#[test]
fn a_call_to_a_busy_agent_waits_in_line_and_brings_back_what_it_returned() {
    let place = Place::sqlite();
    place.agent("helper", &format!("{WAIT}; bell return \"done by $BELL_RUN\""), "");
    place.agent("caller", "bell call helper --wait > got", "");
    let daemon = place.up();
    place.ask("helper");
    eventually("the helper is busy", || place.lines("up").len() == 1);
    place.ask("caller");
    eventually("the call waits", || place.waiting("helper") == 1);
    fs::write(place.path("go"), "").unwrap();
    until_idle(&place);
    let helpers = place.runs_of("helper");
    assert_eq!(place.lines("got"), [format!("done by {}", helpers[0]["run"].as_str().unwrap())]);
    daemon.stop();
}

#[test]
fn a_call_that_is_dropped_or_fails_fails_the_one_who_waits() {
    let place = Place::sqlite();
    place.agent("failing", "exit 7", "");
    place.agent("full", WAIT, "work_queue_size = 1");
    place.agent("hears-failure", "bell call failing --wait > failure; echo $? > failure.code", "");
    place.agent("hears-drop", "echo x >> calling; bell call full --wait > drop; echo $? > drop.code", "");
    let daemon = place.up();
    place.run_agent("hears-failure");
    assert_eq!(place.lines("failure.code"), ["1"]);
    assert!(place.lines("failure")[0].contains("failed (exit code 7)"), "{:?}", place.lines("failure"));
    place.ask("full");
    eventually("it is busy", || place.lines("up").len() == 1);
    place.ask("hears-drop");
    eventually("the call waits", || place.waiting("full") == 1);
    place.ask("full");
    // The agent is still busy: who was dropped hears of it at once, and not when its turn would have come.
    eventually("the caller has heard", || place.lines("drop.code") == ["1"]);
    assert!(place.lines("drop")[0].contains("dropped"), "{:?}", place.lines("drop"));
    fs::write(place.path("go"), "").unwrap();
    until_idle(&place);
    daemon.stop();
}

#[test]
fn calls_that_are_not_allowed_are_refused_with_the_reason() {
    let place = Place::sqlite();
    let each = "for who in worker nobody closed '../x'; do bell call $who 2>> said; echo $? >> codes; done";
    place.agent("worker", each, "may_call = [\"open\"]");
    place.agent("open", "true", "");
    place.agent("closed", "true", "");
    let daemon = place.up();
    place.run_agent("worker");
    let said = place.lines("said").join("\n");
    assert_eq!(place.lines("codes"), ["4"; 4], "{said}");
    for why in ["an agent can't call itself", "worker may not"] {
        assert!(said.contains(why), "{why:?} is not in {said}");
    }
    assert_eq!(place.runs().len(), 1);
    daemon.stop();
}
