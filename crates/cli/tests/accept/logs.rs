//! What runs printed (G5).

use std::fs;

use bell_project::cron::Timestamp;
use bell_store::clock::wall;
use serde_json::Value;

use crate::support::{Place, eventually};

const LINES: usize = 20_000;

#[test]
fn a_log_is_complete_after_the_end_and_readable_without_a_daemon() {
    let place = Place::sqlite();
    let script = format!("seq 1 {LINES}; echo careful >&2; printf 'no line end'");
    place.agent("worker", &script, "");
    let daemon = place.up();
    place.run_agent("worker");
    daemon.kill();
    let log = place.log_of("worker");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), LINES + 2);
    assert_eq!(lines.iter().filter(|line| line.parse::<usize>().is_ok()).count(), LINES);
    for rest in ["careful", "no line end"] {
        assert!(lines.contains(&rest), "{rest}");
    }
}

#[test]
fn a_log_is_streamed_while_the_run_goes_on_also_without_a_daemon_and_ends_with_it() {
    let place = Place::sqlite();
    place.agent("worker", "echo one; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done; echo two", "");
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || !place.runs().is_empty());
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    let mut follows = place.start(&["logs", "-f", &run]);
    assert_eq!(follows.line(), "one", "while it runs");
    daemon.kill();
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(follows.line(), "two");
    follows.end().expect(0);
}

/// The text of every line of a log that comes as JSON, and where the last page ends.
fn read(place: &Place, arguments: &[&str]) -> (Vec<String>, u64) {
    let out = place.run(arguments).expect(0).out;
    let pages: Vec<Value> = out.lines().map(|page| serde_json::from_str(page).unwrap()).collect();
    let lines = pages.iter().flat_map(|page| page["lines"].as_array().unwrap());
    let text = lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    (text, pages.last().map_or(0, |page| page["next"].as_u64().unwrap()))
}

#[test]
fn a_log_is_read_on_from_where_a_reader_left_off() {
    let place = Place::sqlite();
    place.agent(
        "worker",
        "echo one; echo up > up; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done; echo two; echo three",
        "",
    );
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || place.lines("up") == ["up"]);
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    let mut next = 0;
    eventually("the first line is there", || {
        let (lines, end) = read(&place, &["--json", "logs", &run]);
        next = end;
        lines == ["one"]
    });
    fs::write(place.path("go"), "").unwrap();
    eventually("it is over", || place.ends() == ["completed"]);
    let (rest, _) = read(&place, &["--json", "logs", &run, "--from", &next.to_string()]);
    assert_eq!(rest, ["two", "three"]);
    daemon.stop();
}

#[test]
fn a_log_is_capped_and_says_so_and_the_run_goes_on() {
    let place = Place::sqlite();
    place.agent("worker", "seq 1 200000; echo last >&2; echo done > done", "limits = { output = \"64K\" }");
    let daemon = place.up();
    assert_eq!(place.run_agent("worker")["fate"]["end"]["end"], "completed");
    assert_eq!(place.lines("done"), ["done"], "it was read to the end");
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    let kept = fs::metadata(place.path(&format!(".bell/runs/{run}/output.log"))).unwrap().len();
    assert!(kept < 256 * 1024, "{kept} bytes are kept");
    let log = place.log_of("worker");
    assert!(log.starts_with("1\n2\n3\n") && log.lines().count() < 100_000, "{}", log.lines().count());
    assert!(log.contains(" bytes are left out here; the last of the output follows\n"), "it says so");
    assert!(log.ends_with("\nlast\n"), "the last words often say why: {}", &log[log.len() - 300..]);
    daemon.stop();
}

#[test]
fn old_logs_go_with_the_history_that_names_them_and_newer_ones_stay() {
    let place = Place::sqlite();
    place.write("config.toml", "history_retention_days = 3\n");
    place.agent("worker", "echo something", "");
    let daemon = place.up();
    place.run_agent("worker");
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    daemon.stop();
    let in_days = |days: u64| {
        let then = Timestamp::from_second(i64::try_from(wall().as_secs() + days * 86_400).unwrap()).unwrap();
        place.up_at(&then.to_string())
    };
    // A run of its own shows that the daemon has looked around.
    in_days(2).let_it(|| {
        place.agent("marker", "true", "");
        place.run_agent("marker");
    });
    place.run(&["logs", &run]).expect(0);
    in_days(4).let_it(|| {
        eventually("the log is gone", || place.run(&["logs", &run]).code == 2);
        eventually("so is the run", || place.runs().iter().all(|known| known["run"] != run.as_str()));
    });
}
