//! Every setting says where it comes from.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use bell_project::capacity::Capacity;
use bell_project::effective::{self, Row};
use support::Project;

/// A machine of which nothing is known.
const NONE: Capacity = Capacity { memory: None, cpus: None };

fn origin(rows: &[Row], key: &str) -> String {
    rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no {key}")).origin.to_string()
}

#[test]
fn each_value_names_the_file_and_line_that_set_it() {
    let project = Project::with_agent("scale: 2\nretry: {attempts: 3}\nmetadata:\n  maxReruns: \"1\"");
    project.write("config.toml", "\n[local]\ntimeout = 60\n[gateway]\nport = 1\n");
    project.write("agents/a/config.toml", "grace = \"1s\"\n");
    let (folder, loaded) = (project.open(), project.load());
    let rows = effective::agent(&folder, loaded.agents.values().next().unwrap(), NONE, &|_| None);
    let expected = [
        ("scale", "agents/a/SKILL.md:5"),
        ("retry.attempts", "agents/a/SKILL.md:6"),
        ("retry.backoff", "default"),
        ("max_reruns", "agents/a/SKILL.md:8"),
        ("timeout", "config.toml:3"),
        ("grace", "agents/a/config.toml:1"),
        ("jitter", "default"),
        ("run", "agents/a/SKILL.md:4"),
    ];
    for (key, place) in expected {
        assert_eq!(origin(&rows, key), place, "{key}");
    }
    let rows = effective::project(&folder, &loaded, &|_| None);
    assert_eq!(origin(&rows, "local.timeout"), "config.toml:3");
    assert_eq!(origin(&rows, "local.grace"), "default");
    assert_eq!(origin(&rows, "gateway.port"), "config.toml:5");
    assert_eq!(origin(&rows, "gateway.bind"), "default");
}

#[test]
fn limits_of_a_container_that_are_not_set_are_those_of_the_machine_and_defaults() {
    let project = Project::with_agent("limits: {processes: 7}\ncontainer: {image: x}");
    let (folder, loaded) = (project.open(), project.load());
    let machine = Capacity { memory: Some(8 << 30), cpus: Some(4) };
    let rows = effective::agent(&folder, loaded.agents.values().next().unwrap(), machine, &|_| None);
    for (key, value, place) in [
        ("limits.memory", serde_json::json!("4G"), "default"),
        ("limits.cpus", "2".into(), "default"),
        ("limits.processes", 7.into(), "agents/a/SKILL.md:5"),
    ] {
        assert_eq!(origin(&rows, key), place, "{key}");
        assert_eq!(rows.iter().find(|row| row.key == key).unwrap().value, value, "{key}");
    }
}

#[test]
fn every_setting_has_a_row() {
    let project = Project::with_agent("");
    let (folder, loaded) = (project.open(), project.load());
    let rows = effective::agent(&folder, loaded.agents.values().next().unwrap(), NONE, &|_| None);
    for name in bell_project::node::field_names::<bell_project::settings::AgentSettings>() {
        let inner = format!("{name}.");
        assert!(rows.iter().any(|row| row.key == *name || row.key.starts_with(&inner)), "{name}");
    }
}
