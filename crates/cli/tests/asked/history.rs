//! What happened, in order.

use std::fs;

use serde_json::Value;

use crate::support::{Place, eventually};

fn rows(place: &Place, more: &[&str]) -> Vec<Value> {
    place.json(&[&["history"], more].concat())["rows"].as_array().unwrap().clone()
}

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

#[test]
fn triggers_runs_drops_and_pauses_are_told_in_order_with_their_reasons() {
    let place = Place::sqlite();
    place.agent("worker", "true", "workQueueSize = 1");
    place.agent("other", "true", "");
    place.run(&["pause", "--reason", "lunch"]).expect(0);
    let (dropped, kept) = (place.ask("worker"), place.ask("worker"));
    place.run(&["resume"]).expect(0);
    let daemon = place.up();
    eventually("it ran", || place.ends() == ["completed"]);
    daemon.stop();
    place.ask("other");
    let all = rows(&place, &[]);
    let mut order = kinds(&all);
    // The second trigger and the drop of the first are one commit.
    order[2..4].sort_unstable();
    assert_eq!(order, ["pause", "trigger", "drop", "trigger", "pause", "run", "trigger"], "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0]["at_ms"].as_u64() <= pair[1]["at_ms"].as_u64()));
    assert_eq!(all[0]["says"], "paused: lunch");
    let drop = all.iter().find(|row| row["kind"] == "drop").unwrap();
    assert_eq!(drop["says"], format!("{dropped} dropped: the queue was full, and it was the oldest"));
    let run = all.iter().find(|row| row["kind"] == "run").unwrap();
    assert_eq!(run["job"], kept.as_str());
    assert_eq!(kinds(&rows(&place, &["--agent", "other"])), ["pause", "pause", "trigger"]);
    assert_eq!(kinds(&rows(&place, &["--kind", "run", "--kind", "drop"])), ["drop", "run"]);
    assert_eq!(kinds(&rows(&place, &["--limit", "1"])), ["trigger"]);
    assert!(rows(&place, &["--since", "2099-01-01T00:00Z"]).is_empty());
    place.run(&["history", "--since", "tomorrow"]).expect(4);
    let plain = place.run(&["history", "--kind", "pause"]).expect(0).out;
    assert!(plain.lines().next().unwrap().ends_with("paused: lunch"), "{plain}");
}

#[test]
fn what_is_older_than_the_retention_is_forgotten_with_its_log() {
    let place = Place::sqlite();
    place.agent("worker", "echo hello", "");
    let daemon = place.up();
    place.run_agent("worker");
    daemon.stop();
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    assert!(place.path(&format!(".bell/runs/{run}")).is_dir());
    place.write("config.toml", "historyRetentionDays = 0\n");
    let daemon = place.up();
    eventually("it is forgotten", || {
        rows(&place, &[]).is_empty() && !place.path(&format!(".bell/runs/{run}")).exists()
    });
    daemon.stop();
    place.run(&["why", &run]).expect(2);
    assert_eq!(fs::read_dir(place.path(".bell/runs")).unwrap().count(), 0);
}
