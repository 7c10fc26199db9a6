//! From settings to sources and subscribers: nothing is believed that the settings do not say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bell_control::hooks::{Unusable, hooks};
use bell_intake::{Hooks, Kind, Trust};
use bell_project::folder::Folder;
use bell_project::load::Loaded;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

fn of(config: &str) -> (Hooks, Vec<Unusable>) {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "config.toml", config);
    for (name, scale) in [("on", 1), ("off", 0)] {
        let settings = format!("scale: {scale}\nwebhooks: [{{source: x, events: push}}]");
        let skill = format!("---\nname: {name}\ndescription: d\n{settings}\n---\n");
        write(place.path(), &format!("agents/{name}/SKILL.md"), &skill);
        write(place.path(), &format!("agents/{name}/run"), "#!/bin/sh\n");
    }
    let folder = Folder::open(place.path()).unwrap();
    let variable = |name: &str| match name {
        "SET" => Some("hunter2-canary".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    hooks(&folder, &Loaded::load(&folder), &variable)
}

fn secrets(hooks: &Hooks) -> usize {
    match &hooks.sources["x"].trust {
        Trust::Signed(secrets) => secrets.len(),
        Trust::Anyone => panic!("anyone is believed"),
    }
}

#[test]
fn secrets_that_can_be_used_count_and_the_others_are_told() {
    let (hooks, unusable) =
        of("[webhooks.x]\ntype = \"github\"\nsecret = [\"env:SET\", \"env:UNSET\", \"env:EMPTY\"]\n");
    assert_eq!(secrets(&hooks), 1);
    let why: Vec<&str> = unusable.iter().map(|fault| fault.why.as_str()).collect();
    assert_eq!(why, ["find the variable UNSET", "use the secret env:EMPTY: it is empty"]);
    assert!(!format!("{hooks:?}{unusable:?}").contains("hunter2"));
}

#[test]
fn a_secret_of_the_wrong_form_is_not_used_and_not_shown() {
    let (hooks, unusable) = of("[webhooks.x]\ntype = \"discord\"\nsecret = \"env:SET\"\n");
    assert_eq!(secrets(&hooks), 0);
    assert!(unusable[0].hint.contains("64 hex digits"), "{unusable:?}");
    assert!(!format!("{unusable:?}").contains("hunter2"));
}

#[test]
fn without_a_secret_nobody_is_believed_unless_the_settings_say_so_in_full() {
    let (hooks, _) = of("[webhooks.x]\ntype = \"github\"\n");
    assert_eq!(secrets(&hooks), 0);
    let (hooks, _) = of("[webhooks.x]\ntype = \"github\"\nunsigned = \"yes\"\n");
    assert_eq!(secrets(&hooks), 0);
    let (hooks, _) = of(
        "[webhooks.x]\ntype = \"github\"\nunsigned = \"anyone-may-start-my-agents\"\nsecret = \"env:SET\"\n",
    );
    assert_eq!(secrets(&hooks), 1);
    let (hooks, _) = of("[webhooks.x]\ntype = \"github\"\nunsigned = \"anyone-may-start-my-agents\"\n");
    assert!(matches!(hooks.sources["x"].trust, Trust::Anyone));
}

#[test]
fn the_settings_of_a_generic_source_reach_it_and_a_disabled_agent_wants_nothing() {
    let (hooks, _) = of(
        "[webhooks.x]\ntype = \"hmac\"\nsecret = \"env:SET\"\nheader = \"X-Sig\"\nprefix = \"v=\"\nfields = { number = \"a.b\" }\n",
    );
    let source = &hooks.sources["x"];
    assert!(matches!(&source.kind, Kind::Hmac(scheme) if scheme.header == "X-Sig" && scheme.prefix == "v="));
    assert_eq!(source.fields["number"], "a.b");
    let agents: Vec<&str> = hooks.agents.iter().map(|subscriber| subscriber.agent.as_str()).collect();
    assert_eq!(agents, ["on"]);
}
