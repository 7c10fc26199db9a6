//! What stands in `deploy/`: alert rules that fire when they should, a dashboard and rules that ask only for numbers that
//! exist, a page of the runbook for every alert, units that systemd can read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bell_gateway::metrics::names::{ALL, Kind};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "these programs judge what we deploy")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn run(name: &str, arguments: &[&str]) {
    let ended = program(name).args(arguments).current_dir(root().join("deploy/prometheus")).output();
    let ended = ended.unwrap_or_else(|error| panic!("{name}: {error}; tools/check installs it"));
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&said));
}

/// Every word of a text that could be the name of one of our series.
fn names_in(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("bell_")).map(str::to_owned).collect()
}

/// Whether a series of this name is shown.
fn is_shown(name: &str) -> bool {
    ALL.iter().any(|series| match series.kind {
        Kind::Histogram => {
            name.strip_prefix(series.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
        }
        Kind::Counter | Kind::Gauge | Kind::Info => name == series.name,
    })
}

/// The alerts, each with its page.
fn alerts() -> Vec<(String, String)> {
    let text = read("deploy/prometheus/rules.yml");
    let value =
        |line: &str, name: &str| line.trim_start_matches(['-', ' ']).strip_prefix(name).map(str::to_owned);
    let alerts: Vec<String> = text.lines().filter_map(|line| value(line, "alert: ")).collect();
    let pages: Vec<String> = text.lines().filter_map(|line| value(line, "runbook: ")).collect();
    assert_eq!(alerts.len(), pages.len(), "every alert names one page");
    alerts.into_iter().zip(pages).collect()
}

/// The expressions of every panel.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()).collect()
}

#[test]
fn the_rules_fire_on_recorded_series_and_only_then() {
    run("promtool", &["check", "rules", "rules.yml"]);
    run("promtool", &["check", "config", "--syntax-only", "prometheus.yml"]);
    run("promtool", &["test", "rules", "rules.test.yml"]);
}

#[test]
fn every_alert_is_tried_both_ways() {
    let tried = read("deploy/prometheus/rules.test.yml");
    for (alert, _) in alerts() {
        for way in ["fires", "is silent"] {
            assert!(tried.contains(&format!("- name: {alert} {way}\n")), "{alert} {way}: not tried");
        }
    }
}

#[test]
fn rules_and_dashboard_ask_only_for_what_is_shown() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/bellwether.json")).expect("JSON");
    let expressions = expressions(&dashboard).join("\n");
    let asked = [names_in(&read("deploy/prometheus/rules.yml")), names_in(&expressions)].concat();
    let strange: Vec<_> = asked.iter().filter(|name| !is_shown(name)).collect();
    assert!(strange.is_empty(), "nobody shows these: {strange:?}");
    for series in ALL {
        assert!(expressions.contains(series.name), "{} is not on the dashboard", series.name);
    }
}

#[test]
fn every_alert_has_a_page_and_every_page_an_alert() {
    let index = read("docs/runbook/README.md");
    let alerts = alerts();
    for (alert, page) in &alerts {
        let text = read(page);
        assert!(text.contains(&format!("`{alert}`")), "{page} does not say that it is about {alert}");
        for section in ["## What it means", "## What to look at", "## What to do"] {
            assert!(text.contains(section), "{page} has no {section}");
        }
        let name = page.rsplit('/').next().expect("a name");
        assert!(index.contains(&format!("| `{alert}` |")) && index.contains(&format!("({name})")), "{alert}");
    }
    for entry in fs::read_dir(root().join("docs/runbook")).expect("the runbook").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_named = alerts.iter().any(|(_, page)| page.ends_with(&format!("/{name}")));
        assert!(is_named || name == "README.md", "no alert leads to {name}");
    }
}

#[test]
fn systemd_can_read_the_units() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |name: &str| {
        // The user and the program are of the machine that they are made for.
        let text = read(&format!("deploy/systemd/{name}"));
        let text = text.replace("/usr/local/bin/bell up", "/bin/true").replace("=bell\n", "=root\n");
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a copy");
        path.to_string_lossy().into_owned()
    };
    let (service, socket) = (copy("bell.service"), copy("bell.socket"));
    if program("systemd-analyze").arg("--version").output().is_ok() {
        run("systemd-analyze", &["verify", &service, &socket]);
    }
}
