//! Schedules (S1). The daemon's wall clock is set to shortly before the moment that matters; leases and waits
//! follow clocks that can't be set.

use std::fs;
use std::time::Duration;

use bell_core::work::fire::Verdict;
use bell_project::cron::Timestamp;
use bell_project::folder::Folder;
use bell_project::load::Loaded;

use crate::fleet::WAIT;
use crate::support::{Place, eventually};

/// What came of the ticks of an agent, in order.
fn verdicts(place: &Place, agent: &str) -> Vec<String> {
    place.ticks(agent).into_iter().map(|(_, verdict)| verdict).collect()
}

/// The nominal times of an agent's ticks that became jobs, in order.
fn fired(place: &Place, agent: &str) -> Vec<String> {
    place
        .ticks(agent)
        .into_iter()
        .filter(|(_, verdict)| verdict == "job")
        .map(|(nominal, _)| nominal)
        .collect()
}

#[test]
fn a_tick_with_a_free_runner_starts_a_run_at_its_nominal_time_and_once() {
    let place = Place::sqlite();
    place.agent("worker", "cat $BELL_TRIGGER_FILE; echo", "schedule = \"0 12 * * *\"");
    place.seen("worker", "2026-06-01T11:59:57Z");
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    eventually("it ran", || place.ends() == ["completed"]);
    assert!(place.log_of("worker").contains("\"scheduled\":\"2026-06-01T12:00:00Z\""));
    daemon.kill();
    // A clock that was set back finds the same tick again, and that it was decided.
    place.agent("marker", "true", "schedule = \"* * * * *\"");
    place.seen("marker", "2026-06-01T11:59:57Z");
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    eventually("the minute comes again", || !fired(&place, "marker").is_empty());
    assert_eq!(fired(&place, "worker"), ["2026-06-01T12:00:00Z"]);
    eventually("everything is done", || place.is_idle());
    assert_eq!(place.runs_of("worker").len(), 1);
    daemon.stop();
}

#[test]
fn a_busy_agent_skips_a_tick_or_queues_it_as_configured_and_a_row_says_why() {
    let place = Place::sqlite();
    for overlap in ["skip", "queue-one", "queue"] {
        let settings = format!("schedule = \"* * * * *\"\noverlap = \"{overlap}\"\ncatchup = {{ max = 9 }}");
        place.agent(overlap, WAIT, &settings);
        place.seen(overlap, "2026-06-01T11:59:57Z");
    }
    // Down for three minutes: the ticks that are made up for come one right after the other.
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    eventually("all three wait", || place.lines("up").len() == 3);
    daemon.kill();
    place.up_at("2026-06-01T12:03:05Z").let_it(|| {
        for overlap in ["skip", "queue-one", "queue"] {
            eventually("four ticks are decided", || place.ticks(overlap).len() == 4);
        }
        let skipped = &verdicts(&place, "skip")[1..];
        assert!(
            skipped.iter().all(|why| why.starts_with("all 1 runners are busy, with skip-")),
            "{skipped:?}"
        );
        let one = verdicts(&place, "queue-one");
        assert_eq!(one[..2], ["job", "job"]);
        assert!(one[2..].iter().all(|why| why.contains("a tick waits in the queue already")), "{one:?}");
        assert_eq!(verdicts(&place, "queue"), ["job"; 4]);
        assert_eq!(place.skips().len(), 5, "each has a row in history: {:?}", place.skips());
        fs::write(place.path("go"), "").unwrap();
        eventually("everything is done", || place.is_idle());
    });
    let ran = ["skip", "queue-one", "queue"].map(|overlap| place.runs_of(overlap).len());
    assert_eq!(ran, [1, 2, 4]);
}

#[test]
fn what_was_missed_while_down_is_made_up_for_within_window_and_cap_and_the_rest_is_told() {
    let place = Place::sqlite();
    place.agent("none", "true", "schedule = \"* * * * *\"");
    place.agent(
        "some",
        "true",
        "schedule = \"* * * * *\"\noverlap = \"queue\"\ncatchup = { window = \"5m\", max = 2 }",
    );
    place.seen("none", "2026-06-01T11:59:57Z");
    place.seen("some", "2026-06-01T11:59:57Z");
    place.up_at("2026-06-01T11:59:58Z").let_it(|| {
        eventually("both fire", || !place.ticks("none").is_empty() && !place.ticks("some").is_empty());
        eventually("everything is done", || place.is_idle());
    });
    place.up_at("2026-06-01T12:10:05Z").let_it(|| {
        eventually("all is decided", || place.ticks("none").len() == 11 && place.ticks("some").len() == 11);
        eventually("everything is done", || place.is_idle());
    });
    assert_eq!(fired(&place, "none"), ["2026-06-01T12:00:00Z", "2026-06-01T12:10:00Z"]);
    let missed = &verdicts(&place, "none")[1..10];
    assert!(
        missed.iter().all(|why| why.contains("no daemon was there") && why.contains("catchup")),
        "{missed:?}"
    );
    // The last two within the window, and the one that is on time.
    assert_eq!(
        fired(&place, "some")[1..],
        ["2026-06-01T12:08:00Z", "2026-06-01T12:09:00Z", "2026-06-01T12:10:00Z"]
    );
    let verdicts = verdicts(&place, "some");
    assert!(verdicts[1..6].iter().all(|why| why.contains("catchup.window")), "{verdicts:?}");
    assert!(verdicts[6..8].iter().all(|why| why.contains("catchup.max")), "{verdicts:?}");
    assert_eq!((place.runs_of("none").len(), place.runs_of("some").len()), (2, 4));
}

#[test]
fn when_clocks_go_forward_a_time_that_is_left_out_fires_once_at_the_end_of_the_gap() {
    let place = Place::sqlite();
    let settings = "timezone = \"Europe/Berlin\"\nschedule = ";
    place.agent("nightly", "true", &format!("{settings}\"30 2 * * *\""));
    place.agent("hourly", "true", &format!("{settings}\"0 * * * *\""));
    place.seen("nightly", "2026-03-29T00:59:57Z");
    place.seen("hourly", "2026-03-29T00:59:57Z");
    // 01:59:58 in Berlin; two seconds later it is 03:00.
    place.up_at("2026-03-29T00:59:58Z").let_it(|| {
        eventually("both fire", || {
            !fired(&place, "nightly").is_empty() && !fired(&place, "hourly").is_empty()
        });
    });
    // 03:29:58 in Berlin: 02:30 would have been an hour ago, had it been.
    place.agent("half-past", "true", &format!("{settings}\"30 * * * *\""));
    place.seen("half-past", "2026-03-29T01:29:57Z");
    place.up_at("2026-03-29T01:29:58Z").let_it(|| {
        eventually("half past fires", || !fired(&place, "half-past").is_empty());
    });
    assert_eq!(fired(&place, "nightly"), ["2026-03-29T01:00:00Z"]);
    assert_eq!(fired(&place, "hourly"), ["2026-03-29T01:00:00Z"]);
}

#[test]
fn when_clocks_go_back_a_time_that_comes_twice_fires_once() {
    let place = Place::sqlite();
    let settings = "timezone = \"Europe/Berlin\"\nschedule = ";
    place.agent("nightly", "true", &format!("{settings}\"30 2 * * *\""));
    place.agent("hourly", "true", &format!("{settings}\"30 * * * *\""));
    place.seen("nightly", "2026-10-25T00:29:57Z");
    place.seen("hourly", "2026-10-25T00:29:57Z");
    for (visit, (moment, count)) in
        [("2026-10-25T00:29:58Z", 1), ("2026-10-25T01:29:58Z", 2)].into_iter().enumerate()
    {
        place.up_at(moment).let_it(|| {
            eventually(&format!("half past two, number {visit}"), || {
                // The nightly one fires at the first visit only, and is waited for: it is decided after the other.
                fired(&place, "hourly").len() == count && !fired(&place, "nightly").is_empty()
            });
        });
    }
    assert_eq!(fired(&place, "nightly"), ["2026-10-25T00:30:00Z"], "the first of the two");
}

#[test]
fn a_tick_with_jitter_is_late_as_meant_and_is_not_missed() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 12 * * *\"\njitter = \"30m\"");
    place.up_at("2026-06-01T11:00:00Z").let_it(|| place.until_seen("worker"));
    let nominal: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
    let project = Loaded::load(&Folder::open(place.folder.path()).unwrap());
    let agent = project.agents.values().next().unwrap();
    let delay = agent.schedule().unwrap().delay(&agent.name, nominal, agent.settings.jitter.get());
    assert!(delay > Duration::from_secs(120), "the same for the same name and time: {delay:?}");
    let shortly_before = nominal + delay - Duration::from_secs(3);
    place.up_at(&shortly_before.to_string()).let_it(|| {
        eventually("it fires", || fired(&place, "worker") == [nominal.to_string()]);
    });
    let decided = place.fires("worker").last().unwrap().1.at.0;
    let late = decided - u64::try_from(nominal.as_millisecond()).unwrap();
    assert!(u128::from(late) >= delay.as_millis(), "{late} ms late, and {delay:?} was meant");
}

#[test]
fn a_first_tick_that_nobody_was_there_for_is_told_too() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 12 * * *\"");
    place.agent("caught", "true", "schedule = \"0 12 * * *\"\ncatchup = { window = \"1h\" }");
    place.up_at("2026-06-01T11:00:00Z").let_it(|| {
        place.until_seen("worker");
        place.until_seen("caught");
    });
    place.up_at("2026-06-01T12:30:00Z").let_it(|| {
        eventually("both are decided", || {
            place.ticks("worker").len() == 1 && place.ticks("caught").len() == 1
        });
        eventually("everything is done", || place.is_idle());
    });
    assert!(verdicts(&place, "worker")[0].contains("no daemon was there"), "{:?}", place.ticks("worker"));
    assert_eq!(place.runs_of("caught").len(), 1);
}

#[test]
fn the_next_five_fires_are_shown() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 0 1 1 *\"\ntimezone = \"Europe/Berlin\"");
    let check = place.json(&["check"]);
    let next = check["agents"][0]["next"].as_array().unwrap();
    assert_eq!(next.len(), 5, "{check}");
    assert!(
        next[0].to_string().contains("-12-31T23:00:00Z")
            || next[0].to_string().contains("-01-01T00:00:00+01"),
        "{check}"
    );
}

#[test]
fn a_skipped_tick_is_warned_about_where_the_daemon_speaks() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "schedule = \"0 12 * * *\"");
    place.seen("worker", "2026-06-01T11:59:57Z");
    place.ask("worker");
    let daemon = place.up_at("2026-06-01T11:00:00Z");
    eventually("it is busy", || place.lines("up").len() == 1);
    daemon.kill();
    let daemon = place.up_at("2026-06-01T11:59:58Z");
    eventually("the tick is skipped", || place.skips().len() == 1);
    fs::write(place.path("go"), "").unwrap();
    let said = daemon.stop().err;
    assert!(said.contains("schedule skipped") && said.contains("runners are busy"), "{said}");
}

#[test]
fn a_clock_that_is_set_ahead_and_back_leaves_no_schedule_silent_and_says_why_ticks_were_left_out() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"* * * * *\"\noverlap = \"queue\"");
    place.seen("worker", "2026-06-01T11:59:50Z");
    let daemon = place.up_with_clock("2026-06-01T11:59:55Z");
    eventually("noon fires", || fired(&place, "worker") == ["2026-06-01T12:00:00Z"]);
    place.set_clock("2026-06-01T13:00:30Z");
    eventually("the jump is noticed", || {
        fired(&place, "worker").contains(&"2026-06-01T13:00:00Z".to_owned())
    });
    let left_out = || {
        let ticks = place.ticks("worker").into_iter();
        ticks.filter(|(_, why)| why.contains("the wall clock was set ahead over its time")).count()
    };
    eventually("what it was set over is told", || left_out() > 50);
    assert!(!verdicts(&place, "worker").iter().any(|why| why.contains("no daemon was there")));
    place.set_clock("2026-06-01T12:00:45Z");
    // Its time has come now, although it was told before that it was left out.
    eventually("the next minute fires", || {
        fired(&place, "worker").contains(&"2026-06-01T12:01:00Z".to_owned())
    });
    daemon.kill();
    // Nor does a daemon that starts with the clock set back wait until the time of the last tick comes again.
    let daemon = place.up_with_clock("2026-06-01T12:01:55Z");
    eventually("one more fires", || fired(&place, "worker").contains(&"2026-06-01T12:02:00Z".to_owned()));
    // More ticks may fire on a slow machine: those that have by now count. A claim of the killed daemon that came to nothing is
    // a run that never began.
    let jobs = place.fires("worker").into_iter().filter_map(|(_, fire)| match fire.verdict {
        Verdict::Job { job } => Some(job.to_string()),
        Verdict::Skipped { .. } => None,
    });
    let jobs: Vec<String> = jobs.collect();
    let completed = |job: &String| {
        let runs = place.runs_of("worker").into_iter();
        runs.filter(|run| run["job"] == job.as_str() && run["end"]["end"] == "completed").count()
    };
    eventually("every job is done", || jobs.iter().all(|job| completed(job) > 0));
    assert!(jobs.len() >= 4 && jobs.iter().all(|job| completed(job) == 1), "{jobs:?} {:?}", place.runs());
    daemon.stop();
}
