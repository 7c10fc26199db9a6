//! What a project is (C1–C4), and changes to it while it runs (S10).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::fleet::{WAIT, until_line};
use crate::support::{self, Place, eventually};

const CANARY: &str = "hunter2-canary-4711";

#[test]
fn agents_in_both_layouts_run_without_being_registered() {
    let place = Place::sqlite();
    place.agent_in("agents/inside", "echo inside", "");
    place.agent_in("beside", "echo beside", "");
    place.write("notes/readme.txt", "a folder that is no agent");
    let daemon = place.up();
    for agent in ["inside", "beside"] {
        assert_eq!(place.run_agent(agent)["fate"]["end"]["end"], "completed");
        assert_eq!(place.log_of(agent), format!("{agent}\n"));
    }
    let stat = place.json(&["stat"]);
    let names: Vec<&Value> = stat["agents"].as_array().unwrap().iter().map(|agent| &agent["agent"]).collect();
    assert_eq!(names, ["beside", "inside"]);
    daemon.stop();
}

#[test]
fn without_agents_a_daemon_serves_locks_says_where_it_looked_and_takes_up_the_first_one() {
    let place = Place::sqlite();
    let mut daemon = place.start(&["up"]);
    assert_eq!(daemon.line(), "ready");
    place.run(&["lock", "acquire", "deploy://api"]).expect(0);
    place.agent("worker", "true", "");
    eventually("the first agent is taken up", || place.run(&["run", "worker"]).code == 0);
    let banner = daemon.stop().err;
    for looked in ["agents/<name>/SKILL.md", "/<name>/SKILL.md", "bell init"] {
        assert!(banner.contains(looked), "{banner}");
    }
}

#[test]
fn settings_stand_at_the_top_or_under_metadata_and_the_agents_config_wins() {
    let place = Place::sqlite();
    let fields = "user: root\nlicense: MIT\ncompatibility: any\nallowed-tools: Bash\n";
    let run = "run: [\"sh\", \"-c\", \"cat $BELL_PARAMS_FILE; echo\"]";
    let top = format!(
        "---\nname: top\ndescription: d\n{fields}{run}\ntimeout: 41s\nscale: 3\nparams: {{ repo: acme }}\n---\nDo it.\n"
    );
    let under = format!(
        "---\nname: under\ndescription: d\n{fields}metadata:\n  author: somebody\n  run: '[\"sh\", \"-c\", \"cat $BELL_PARAMS_FILE; echo\"]'\n  timeout: 41s\n  scale: \"3\"\n  params: '{{\"repo\": \"acme\"}}'\n---\nDo it.\n"
    );
    place.write("agents/top/SKILL.md", &top);
    place.write("agents/under/SKILL.md", &under);
    place.run(&["check"]).expect(0);
    for agent in ["top", "under"] {
        let shown = settings(&place, &["config", "show", "--agent", agent]);
        assert_eq!((&shown["timeout"].0, &shown["scale"].0), (&"41s".into(), &3.into()), "{agent}");
    }
    let daemon = place.up();
    for agent in ["top", "under"] {
        place.run_agent(agent);
        assert_eq!(place.log_of(agent), "{\"repo\":\"acme\"}\n");
        place.write(&format!("agents/{agent}/config.toml"), "params = { repo = \"other\" }\n");
        eventually("the agent's config.toml wins", || {
            place.run_agent(agent);
            place.log_of(agent) == "{\"repo\":\"other\"}\n"
        });
    }
    daemon.stop();
}

/// Every setting by name: its value and where it comes from.
fn settings(place: &Place, arguments: &[&str]) -> BTreeMap<String, (Value, String)> {
    let shown = place.json(arguments);
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        (text("key"), (row["value"].clone(), text("origin")))
    };
    shown["settings"].as_array().unwrap().iter().map(row).collect()
}

/// Keys of a project with a value that is not the default.
const PROJECT_KEYS: [(&str, &str); 12] = [
    ("resource_lock_timeout", "77"),
    ("max_reruns", "4"),
    ("max_call_depth", "2"),
    ("work_queue_size", "7"),
    ("scale", "6"),
    ("default_agent_scale", "5"),
    ("history_retention_days", "3"),
    ("on_stop", "\"keep\""),
    ("overflow", "\"reject\""),
    ("stop_timeout", "\"9s\""),
    ("timezone", "\"Europe/Berlin\""),
    ("store", "\"sqlite:elsewhere.db\""),
];

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap().to_owned();
    let later = words.map(|word| word[..1].to_uppercase() + &word[1..]);
    first + &later.collect::<String>()
}

#[test]
fn every_key_of_a_project_is_read_in_both_spellings() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let tables = "[gateway]\nport = 9090\nbind = \"127.0.0.2\"\n[local]\ntimeout = 11\n[webhooks.gh]\ntype = \"github\"\nsecret = \"env:HOOK\"\n";
    let spelled = |spell: &dyn Fn(&str) -> String| {
        let lines = PROJECT_KEYS.map(|(key, value)| format!("{} = {value}\n", spell(key)));
        place.write("config.toml", &(lines.concat() + tables));
        settings(&place, &["config", "show"])
    };
    let (snake, camel) = (spelled(&str::to_owned), spelled(&camel));
    assert_eq!(snake, camel);
    for (key, _) in PROJECT_KEYS.iter().filter(|(key, _)| *key != "store") {
        assert!(snake[*key].1.starts_with("config.toml:"), "{key}: {:?}", snake[*key]);
    }
    for key in ["gateway.port", "gateway.bind", "local.timeout", "webhooks.gh.type"] {
        assert!(snake[key].1.starts_with("config.toml:"), "{key}: {:?}", snake[key]);
    }
    assert_eq!(snake["resource_lock_timeout"].0, "77s", "a number is in seconds");
    // And the other defaults are those that are written down.
    place.write("config.toml", "");
    let defaults = settings(&place, &["config", "show"]);
    let expected = [
        ("resource_lock_timeout", Value::from("30m")),
        ("max_reruns", 10.into()),
        ("max_call_depth", 3.into()),
        ("work_queue_size", 100.into()),
        ("default_agent_scale", 1.into()),
        ("history_retention_days", 14.into()),
        ("gateway.port", 8080.into()),
        ("gateway.bind", "127.0.0.1".into()),
        ("local.timeout", "15m".into()),
    ];
    for (key, value) in expected {
        assert_eq!(defaults[key], (value, "default".to_owned()), "{key}");
    }
}

#[test]
fn a_key_that_nobody_knows_is_refused_with_its_place_and_the_nearest_name() {
    let place = Place::sqlite();
    place.agent("worker", "true", "timeuot = 3\n");
    place.write("config.toml", "maxRerun = 3\n");
    let said = place.run(&["check"]).expect(4).out;
    for line in [
        "config.toml:1:1: error: unknown key \"maxRerun\" (did you mean \"max_reruns\"?)",
        "agents/worker/config.toml:1:1: error: unknown key \"timeuot\" (did you mean \"timeout\"?)",
    ] {
        assert!(said.contains(line), "{line}\nis not in\n{said}");
    }
}

/// A project with a secret from each kind of place, and two agents of which one lists them. What each of them sees of
/// the machine while it runs is written into files.
fn with_secrets() -> Place {
    let place = Place::sqlite();
    let look = "env > $BELL_AGENT.env; cat /proc/[0-9]*/cmdline > $BELL_AGENT.argv 2> /dev/null; true";
    let has = "[ \"$FROM_ENV\" = \"$(cat token.txt)\" ] && [ \"$FROM_FILE\" = \"$(cat token.txt)\" ] && [ \"$FROM_FOLDER\" = \"$(cat token.txt)\" ]";
    let secrets =
        "secrets = { FROM_ENV = \"env:OUTSIDE\", FROM_FILE = \"file:token.txt\", FROM_FOLDER = \"KEPT\" }";
    place.agent("trusted", &format!("{look}; {has}"), secrets);
    place.agent("stranger", look, "");
    for name in ["token.txt", ".bell/secrets/KEPT"] {
        place.write(name, CANARY);
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    place
}

#[test]
fn secrets_reach_only_the_agents_that_list_them_and_are_shown_nowhere() {
    let place = with_secrets();
    let mut command = place.command(&["--json", "up"]);
    command.env("OUTSIDE", CANARY).env("BELL_LOG", "trace");
    let mut daemon = support::start(command);
    let mut said = daemon.line();
    for agent in ["trusted", "stranger"] {
        assert_eq!(
            place.run_agent(agent)["fate"]["end"]["end"],
            "completed",
            "{agent}: {}",
            place.log_of(agent)
        );
        said += &place.log_of(agent);
        said += &fs::read_to_string(place.path(&format!("{agent}.argv"))).unwrap().replace('\0', " ");
    }
    assert!(fs::read_to_string(place.path("trusted.env")).unwrap().contains(CANARY));
    said += &fs::read_to_string(place.path("stranger.env")).unwrap();
    let stopped = daemon.stop();
    said += &(stopped.out + &stopped.err);
    for arguments in [&["runs"][..], &["stat"], &["check"], &["config", "show", "--agent", "trusted"]] {
        said += &place.json(arguments).to_string();
        said += &format!("{:?}", place.run(arguments));
    }
    said += &format!("{:?}", place.history());
    assert!(!said.contains(CANARY), "a secret was shown: {}", around(&said));
    for file in files_below(&place.path(".bell/runs")).into_iter().chain([place.path("bell.db")]) {
        let kept = fs::read(&file).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&kept).contains(CANARY), "a secret was kept in {}", file.display());
    }
}

#[test]
fn a_secret_that_others_may_read_is_refused_and_only_that_run_suffers() {
    let place = with_secrets();
    fs::set_permissions(place.path("token.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = place.command(&["--json", "up"]);
    command.env("OUTSIDE", CANARY);
    let mut daemon = support::start(command);
    daemon.line();
    let refused = place.run(&["--json", "run", "trusted", "--wait"]).expect(1).json();
    assert_eq!(refused["fate"]["end"]["end"], "unstartable");
    assert!(refused["fate"]["end"]["reason"].as_str().unwrap().contains("token.txt"), "{refused}");
    assert_eq!(place.run_agent("stranger")["fate"]["end"]["end"], "completed");
    daemon.stop();
}

fn around(said: &str) -> &str {
    let at = said.find(CANARY).unwrap_or_default();
    let from = said.floor_char_boundary(at.saturating_sub(200));
    &said[from..at]
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_below(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}

/// What the agent `worker` printed when it last ran, asked to run now.
fn prints(place: &Place) -> String {
    place.run(&["run", "worker", "--wait"]);
    place.log_of("worker")
}

#[test]
fn a_change_by_write_or_rename_is_taken_up_and_an_agent_that_is_gone_is_not_run() {
    let place = Place::sqlite();
    place.agent("worker", "echo one", "");
    place.agent("other", "true", "");
    let daemon = place.up();
    assert_eq!(prints(&place), "one\n");
    // In place: the same file, opened and written over.
    let skill = "---\nname: worker\ndescription: d\nuser: root\nrun: [\"echo\", \"two\"]\n---\nDo it.\n";
    fs::write(place.path("agents/worker/SKILL.md"), skill).unwrap();
    eventually("what was written in place", || prints(&place) == "two\n");
    // By rename, as editors and git do it.
    place.write("agents/worker/SKILL.md", &skill.replace("two", "three"));
    eventually("what was renamed into place", || prints(&place) == "three\n");
    // A whole folder that appears at once.
    place.agent_in("elsewhere/late", "echo late", "");
    fs::rename(place.path("elsewhere/late"), place.path("agents/late")).unwrap();
    eventually("the new agent", || place.run(&["run", "late", "--wait"]).code == 0);
    fs::remove_dir_all(place.path("agents/worker")).unwrap();
    place.run(&["run", "worker"]).expect(2);
    assert_eq!(place.run_agent("other")["fate"]["end"]["end"], "completed", "the others go on");
    daemon.stop();
}

#[test]
fn a_broken_file_keeps_the_last_good_version_and_is_shown() {
    let place = Place::sqlite();
    place.agent("worker", "echo good", "");
    let daemon = place.up();
    place.run(&["pause", "worker"]).expect(0);
    place.ask("worker");
    place.write("agents/worker/SKILL.md", "---\nname: worker\ndescription: [\n---\n");
    let check = place.run(&["check"]).expect(4);
    assert!(check.out.contains("agents/worker/SKILL.md:"), "{}", check.out);
    // Who knows this agent has seen what was written before it.
    place.agent("later", "true", "");
    place.run_agent("later");
    place.run(&["resume", "worker"]).expect(0);
    eventually("it goes on as it was", || place.is_idle() && place.runs_of("worker").len() == 1);
    assert_eq!(place.log_of("worker"), "good\n");
    let said = daemon.stop().err;
    assert!(said.contains("agents/worker/SKILL.md:") && said.contains("it goes on as it was"), "{said}");
}

#[test]
fn a_schedule_that_is_taken_out_fires_no_more_and_one_that_is_put_in_does() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 12 * * *\"");
    place.agent("late", WAIT, "");
    place.seen("worker", "2026-06-01T11:59:00Z");
    let daemon = place.up_at("2026-06-01T11:59:40Z");
    place.agent("worker", "true", "");
    place.agent("late", WAIT, "schedule = \"0 12 * * *\"");
    eventually("the new schedule fires", || place.ticks("late").len() == 1);
    assert_eq!(place.ticks("worker"), []);
    fs::write(place.path("go"), "").unwrap();
    until_line(&place.path("up"), place.runs()[0]["run"].as_str().unwrap());
    daemon.stop();
}
