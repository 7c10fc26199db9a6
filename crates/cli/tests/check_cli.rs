//! `bell check` and `bell config`, with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bell_project::samples::SAMPLES;
use support::Place;

const CANARY: &str = "hunter2-canary";

fn write(place: &Place, name: &str, text: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A place with the sample project in it.
fn project() -> Place {
    let place = Place::sqlite();
    for sample in SAMPLES {
        write(&place, sample.path, sample.text);
        let mode = fs::Permissions::from_mode(sample.mode);
        fs::set_permissions(place.path(sample.path), mode).unwrap();
    }
    // Agents run as the owner of the project, who is not root, and whom root trusts.
    write(&place, "home/.config/bell/config.toml", "safe_projects = [\"*\"]\n");
    std::os::unix::fs::chown(place.folder.path(), Some(65_534), Some(65_534)).unwrap();
    place
}

#[test]
fn a_project_in_which_nothing_is_wrong_shows_its_agents_and_next_fires() {
    let place = project();
    let plain = place.run(&["check"]).expect(0);
    assert!(plain.out.contains("heartbeat: * * * * * (UTC), next at "), "{plain:?}");
    assert!(plain.out.ends_with("2 agents, 0 errors, 0 warnings\n"), "{plain:?}");
    let json = place.json(&["check", "."]);
    assert_eq!(json["valid"], true);
    assert_eq!(json["agents"][1]["name"], "heartbeat");
    assert_eq!(json["agents"][1]["next"].as_array().unwrap().len(), 5);
    assert!(!place.path("bell.db").exists(), "nothing is opened and nothing is written");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let place = project();
    write(&place, "config.toml", "scal = 1\n[gateway]\nport = \"x\"\n");
    write(
        &place,
        "agents/bad/SKILL.md",
        "---\nname: bad\ndescription: d\nrun: claud\nuser: nobody-has-this-name\nschedule: 0 0 31 2 *\nlocks: ['{x}']\n---\nDo it.\n",
    );
    write(
        &place,
        "agents/worse/SKILL.md",
        "---\nname: worse\ndescription: d\nrun: [no-such-program-here]\nuser: nobody-has-this-name\nsecrets: [MISSING]\n---\n",
    );
    let ran = place.run(&["check"]).expect(4);
    let expected = [
        "agents/bad/SKILL.md:6:11: error: schedule: \"0 0 31 2 *\" never comes: no day is like that",
        "agents/bad/SKILL.md:7:9: error: locks[0]: not a key with blanks: it does not begin with a scheme",
        "agents/worse/SKILL.md:4:6: error: there is no program \"no-such-program-here\" in PATH",
        "agents/worse/SKILL.md:5:7: error: there is no user \"nobody-has-this-name\"",
        "agents/worse/SKILL.md:6:10: warning: could not read the secret .bell/secrets/MISSING: it is not there",
        "config.toml:1:1: error: unknown key \"scal\" (did you mean \"scale\"?)",
        "config.toml:3:8: error: gateway.port: expected a whole number that is not negative, found text",
    ];
    for line in expected {
        assert!(ran.out.lines().any(|said| said == line), "{line}\nis not in\n{}", ran.out);
    }
    assert!(ran.out.contains("  hint: "));
    let json = place.run(&["check", "--json"]).expect(4).json();
    assert_eq!(
        (json["valid"].as_bool(), json["errors"].as_u64(), json["warnings"].as_u64()),
        (Some(false), Some(6), Some(1))
    );
    let first = &json["problems"][0];
    assert_eq!(
        (first["file"].as_str(), first["line"].as_u64(), first["column"].as_u64()),
        (Some("agents/bad/SKILL.md"), Some(6), Some(11))
    );
}

#[test]
fn an_unknown_preset_brings_the_nearest_and_a_projects_own_is_known() {
    let place = project();
    write(&place, "agents/a/SKILL.md", "---\nname: a\ndescription: d\nrun: claud\n---\nDo it.\n");
    let ran = place.run(&["check"]).expect(4);
    assert!(ran.out.contains("there is no preset \"claud\" (did you mean \"claude\"?)"), "{ran:?}");
    write(&place, "presets/claud.toml", "about = \"mine\"\nargv = [\"mine\"]\nprompt = \"stdin\"\n");
    place.run(&["check"]).expect(0);
    write(&place, "presets/claud.toml", "argv = 3\n");
    let ran = place.run(&["check"]).expect(4);
    assert!(ran.out.contains("presets/claud.toml: error: could not read the preset claud"), "{ran:?}");
}

#[test]
fn a_folder_without_agents_or_no_folder_says_what_to_do() {
    let place = Place::sqlite();
    let ran = place.run(&["check"]).expect(4);
    let here = place.folder.path().canonicalize().unwrap();
    let looked =
        format!("no agents: looked for {0}/agents/<name>/SKILL.md and {0}/<name>/SKILL.md", here.display());
    assert!(ran.out.contains(&looked), "{ran:?}");
    let ran = place.run(&["check", "nowhere"]).expect(4);
    assert!(ran.err.contains("could not open the project nowhere"), "{ran:?}");
    assert!(ran.err.contains("hint: Name the folder of a project"), "{ran:?}");
}

#[test]
fn what_a_file_holds_can_not_fool_a_terminal() {
    let place = Place::sqlite();
    write(&place, "agents/a/SKILL.md", "---\nname: a\ndescription: d\n\"\\e[2Jx\": 1\n---\n");
    let ran = place.run(&["check"]).expect(4);
    assert!(!ran.out.contains('\u{1b}'), "{ran:?}");
}

#[test]
fn every_setting_is_shown_with_its_origin_and_no_secret_is() {
    let place = project();
    write(
        &place,
        "config.toml",
        "store = \"postgres://u:hunter2-canary@db/x\"\nscale = 3\n[webhooks.gh]\ntype = \"github\"\nsecret = \"env:HOOK\"\n",
    );
    write(&place, "agents/desk/config.toml", "timeout = \"1m\"\nsecrets = [\"env:KEY\", \"OTHER\"]\n");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("KEY", CANARY).env("HOOK", CANARY);
        support::finish(command).expect(0)
    };
    let project = run(&["config", "show"]);
    let line = |out: &str, key: &str| {
        out.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap().to_owned()
    };
    assert!(line(&project.out, "scale").ends_with("3  (config.toml:2)"), "{}", project.out);
    assert!(line(&project.out, "max_reruns").ends_with("10  (default)"), "{}", project.out);
    assert!(line(&project.out, "webhooks.gh.secret").contains("env:HOOK (set)"), "{}", project.out);
    assert!(line(&project.out, "store").contains("postgres://…@db/x"), "{}", project.out);
    let agent = run(&["config", "show", "--agent", "desk"]);
    assert!(line(&agent.out, "timeout").ends_with("1m  (agents/desk/config.toml:1)"), "{}", agent.out);
    assert!(line(&agent.out, "scale").ends_with("2  (agents/desk/SKILL.md:7)"), "{}", agent.out);
    assert!(line(&agent.out, "secrets.KEY").contains("env:KEY (set)"), "{}", agent.out);
    assert!(line(&agent.out, "secrets.OTHER").contains("OTHER (unset)"), "{}", agent.out);
    let json = run(&["config", "show", "--agent", "desk", "--json"]);
    let said = [&project, &agent, &json, &run(&["check"])].map(|ran| format!("{ran:?}")).concat();
    assert!(!said.contains(CANARY), "{said}");
    let rows = json.json();
    let scale =
        rows["settings"].as_array().unwrap().iter().find(|row| row["key"] == "scale").unwrap().clone();
    assert_eq!(
        (scale["value"].as_u64(), scale["origin"].as_str()),
        (Some(2), Some("agents/desk/SKILL.md:7"))
    );
}

#[test]
fn an_agent_that_is_not_there_is_not_found() {
    let place = project();
    let ran = place.run(&["config", "show", "--agent", "dsk"]).expect(2);
    assert!(ran.err.contains("hint: Did you mean desk?"), "{ran:?}");
}

#[test]
fn the_schema_is_one_json_object() {
    let place = Place::sqlite();
    for arguments in
        [&["config", "schema"][..], &["config", "schema", "--agent"], &["config", "schema", "--json"]]
    {
        let ran = place.run(arguments).expect(0);
        let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["properties"]["maxReruns"].is_object());
    }
}
