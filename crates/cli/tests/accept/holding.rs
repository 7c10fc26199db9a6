//! Pausing (S8) and stopping (S9).

use std::fs;

use rustix::process::Signal;

use crate::fleet::WAIT;
use crate::support::{Place, eventually};

#[test]
fn a_paused_fleet_starts_nothing_whoever_asks_and_a_restart_does_not_change_that() {
    let place = Place::sqlite();
    place.agent("worker", "echo $BELL_AGENT >> ran", "schedule = \"0 12 * * *\"");
    place.agent("helper", "echo $BELL_AGENT >> ran", "");
    place.agent("caller", &format!("{WAIT}; bell call helper --wait; echo called >> ran"), "");
    place.seen("worker", "2026-06-01T11:59:57Z");
    let daemon = place.up_at("2026-06-01T11:00:00Z");
    place.ask("caller");
    eventually("the caller runs", || place.lines("up").len() == 1);
    place.run(&["pause", "--reason", "lunch"]).expect(0);
    // A run by hand, an agent that is added meanwhile, and a call from a run that goes on.
    place.ask("worker");
    place.agent("late", "echo $BELL_AGENT >> ran", "");
    place.ask("late");
    fs::write(place.path("go"), "").unwrap();
    eventually("the call waits", || place.waiting("helper") == 1);
    daemon.kill();
    // Another daemon, and a tick.
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    eventually("the tick is decided", || place.ticks("worker").len() == 1);
    assert_eq!(place.skips(), ["paused: lunch"]);
    assert_eq!(place.lines("ran"), Vec::<String>::new());
    assert_eq!(place.json(&["stat"])["paused"], "lunch");
    place.run(&["resume"]).expect(0);
    eventually("everything is done", || place.is_idle());
    let mut ran = place.lines("ran");
    ran.sort();
    assert_eq!(ran, ["called", "helper", "late", "worker"], "nothing was lost");
    daemon.stop();
}

#[test]
fn one_agent_can_be_paused_alone_and_stays_so_when_its_files_change() {
    let place = Place::sqlite();
    place.agent("held", "echo held >> ran", "");
    place.agent("free", "echo free >> ran", "");
    let daemon = place.up();
    place.run(&["pause", "held", "--reason", "it misbehaves"]).expect(0);
    place.agent("held", "echo changed >> ran", "timeout = \"5m\"");
    place.ask("held");
    place.run_agent("free");
    assert_eq!(place.lines("ran"), ["free"]);
    assert_eq!(place.waiting("held"), 1);
    place.run(&["resume", "held"]).expect(0);
    eventually("everything is done", || place.is_idle());
    assert_eq!(place.lines("ran"), ["free", "changed"]);
    daemon.stop();
}

/// A project whose agents are busy, one that clears its queue when the fleet is stopped and one that keeps it, each with
/// a job that waits.
fn busy() -> Place {
    let place = Place::sqlite();
    place.agent("clears", WAIT, "");
    place.agent("keeps", WAIT, "on_stop = \"keep\"");
    place
}

fn fill(place: &Place) {
    for agent in ["clears", "keeps"] {
        place.ask(agent);
        eventually("it runs", || place.waiting(agent) == 0);
        place.ask(agent);
    }
    eventually("both are busy", || place.lines("up").len() == 2);
}

#[test]
fn a_stop_lets_runs_finish_and_clears_or_keeps_what_waits_as_configured() {
    let place = busy();
    let daemon = place.up();
    fill(&place);
    daemon.signal(Signal::TERM);
    eventually("what waits is cleared", || place.waiting("clears") == 0);
    assert_eq!((place.waiting("keeps"), place.runs().len()), (1, 2), "and nothing new started");
    fs::write(place.path("go"), "").unwrap();
    daemon.end().expect(0);
    assert_eq!(place.ends(), ["completed"; 2]);
    let [(job, fate)] = &place.undone()[..] else { panic!("{:?}", place.undone()) };
    assert_eq!(fate["fate"], "cleared");
    let daemon = place.up();
    eventually("what was kept is done", || place.runs_of("keeps").len() == 2 && place.is_idle());
    place.run(&["jobs", "replay", job.as_str()]).expect(0);
    eventually("what was cleared is done after all", || {
        place.runs_of("clears").len() == 2 && place.is_idle()
    });
    daemon.stop();
}

#[test]
fn a_second_signal_ends_what_runs_and_says_so() {
    let place = busy();
    let daemon = place.up();
    fill(&place);
    daemon.signal(Signal::TERM);
    eventually("it is stopping", || place.waiting("clears") == 0);
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
    assert_eq!(place.ends(), ["interrupted"; 2], "never success");
}

#[test]
fn a_stop_that_takes_too_long_ends_what_runs() {
    let place = busy();
    place.write("config.toml", "stop_timeout = \"1s\"\n");
    let daemon = place.up();
    fill(&place);
    daemon.stop();
    assert_eq!(place.ends(), ["interrupted"; 2]);
}

#[test]
fn a_stop_clears_nothing_while_another_node_is_there() {
    let first = busy();
    // Another machine, as far as it knows: a folder of its own, with an agent that nobody asks for.
    let second = Place { url: first.url.clone(), ..Place::sqlite() };
    second.agent("other", "true", "");
    let (leaving, staying) = (first.up(), second.up());
    eventually("both are there", || first.json(&["stat"])["daemons"] == 2);
    fill(&first);
    leaving.signal(Signal::TERM);
    fs::write(first.path("go"), "").unwrap();
    leaving.end().expect(0);
    assert_eq!((first.waiting("clears"), first.waiting("keeps")), (1, 1));
    assert_eq!(first.undone(), []);
    staying.stop();
}
