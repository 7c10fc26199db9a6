//! The check-up of a project's machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::Place;

fn levels(checkup: &Value, about: &str) -> Vec<String> {
    let findings = checkup["findings"].as_array().unwrap();
    let found = findings.iter().filter(|finding| finding["about"] == about);
    found.map(|finding| finding["level"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_project_is_looked_at_where_it_is_and_by_its_name() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let here = place.run(&["--json", "doctor"]).expect(0).json();
    assert_eq!((levels(&here, "folder"), levels(&here, "secrets")), (vec!["ok".into()], vec!["ok".into()]));
    for about in ["versions", "cgroups", "disk"] {
        assert_eq!(levels(&here, about).len(), 1, "{about}: {here}");
    }
    let mut elsewhere =
        place.command(&["--json", "doctor", "--project", place.folder.path().to_str().unwrap()]);
    elsewhere.current_dir("/");
    assert!(crate::support::finish(elsewhere).expect(0).json()["project"].is_string());
    let empty = Place::sqlite();
    assert!(levels(&empty.json(&["doctor"]), "folder").is_empty(), "this is no project");
}

#[test]
fn the_kernel_itself_is_asked_whether_it_has_landlock() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let expected = if bell_runner::stage::has_landlock() { "ok" } else { "note" };
    assert_eq!(levels(&place.json(&["doctor"]), "landlock"), [expected]);
}

#[test]
fn what_is_open_to_others_is_unsafe_and_says_the_command_that_mends_it() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    fs::create_dir_all(place.path(".bell/secrets")).unwrap();
    fs::set_permissions(place.path(".bell"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(place.path(".bell/secrets/KEY"), "x").unwrap();
    fs::set_permissions(place.path(".bell/secrets/KEY"), fs::Permissions::from_mode(0o644)).unwrap();
    // Commands refuse such a project, until its user lists it as safe.
    place.run(&["doctor"]).expect(3);
    let real = place.folder.path().canonicalize().unwrap();
    place
        .write("home/.config/bell/config.toml", &format!("safe_projects = [{:?}]\n", real.to_str().unwrap()));
    let ran = place.run(&["doctor"]).expect(1);
    assert!(ran.out.contains("next: chmod 700 .bell\n"), "{ran:?}");
    assert!(ran.out.contains("KEY (mode 644)"), "{ran:?}");
    assert!(ran.out.lines().last().unwrap().starts_with("unsafe: 2 unsafe"), "{ran:?}");
}

#[test]
fn what_an_agent_needs_and_is_not_there_is_broken() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("agents/coder/SKILL.md", "---\nname: coder\ndescription: x\nrun: claude\n---\nWrite code.\n");
    place.write("agents/lost/SKILL.md", "---\nname: lost\ndescription: x\n---\nx\n");
    place.write("agents/lost/config.toml", "run = [\"no-such-program\"]\n");
    let mut command = place.command(&["--json", "doctor"]);
    command.env("PATH", "/usr/bin:/bin");
    let checkup = crate::support::finish(command).expect(1).json();
    assert_eq!(levels(&checkup, "programs"), ["broken"], "{checkup}");
    assert!(levels(&checkup, "project").contains(&"broken".to_owned()), "{checkup}");
    assert_eq!((&checkup["sound"], &checkup["worst"]), (&false.into(), &"broken".into()));
}
