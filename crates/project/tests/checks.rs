//! What is wrong around a project.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use std::os::unix::fs::chown;

use bell_project::check::{IsolationSupport, Surroundings, check, passwd_has};
use support::Project;

fn checked(project: &Project) -> Vec<String> {
    checked_with(project, IsolationSupport::Full)
}

fn checked_with(project: &Project, isolation: IsolationSupport<'_>) -> Vec<String> {
    let presets = ["claude".to_owned(), "codex".to_owned()];
    let path = project.path("bin").display().to_string();
    let around = Surroundings {
        variable: &|name| match name {
            "PATH" => Some(path.clone()),
            "SET" => Some("x".to_owned()),
            _ => None,
        },
        has_user: &|user| passwd_has("root:x:0:0::/root:/bin/sh\nagent:x:1:1::/:/bin/sh\n", user),
        presets: &presets,
        isolation,
    };
    let (folder, loaded) = (project.open(), project.load());
    check(&folder, &loaded, &around).iter().map(ToString::to_string).collect()
}

fn with_program() -> Project {
    let project = Project::new();
    project.write("bin/true", "");
    project.mode("bin/true", 0o755);
    project
}

#[test]
fn a_program_must_be_there_and_executable() {
    let project = with_program();
    project.agent("a", "");
    assert_eq!(checked(&project), Vec::<String>::new());
    project.mode("bin/true", 0o644);
    assert_eq!(checked(&project), ["agents/a/SKILL.md:4:6: error: there is no program \"true\" in PATH"]);
    project.write("agents/a/config.toml", "run = [\"./tool\"]\n");
    assert_eq!(checked(&project), ["agents/a/config.toml:1:7: error: there is no program \"./tool\""]);
    project.write("agents/a/tool", "");
    project.mode("agents/a/tool", 0o644);
    assert_eq!(
        checked(&project),
        ["agents/a/config.toml:1:7: error: the program \"./tool\" is not executable"]
    );
    project.mode("agents/a/tool", 0o755);
    assert_eq!(checked(&project), Vec::<String>::new());
    project.write("agents/a/config.toml", "run = [\"inside\"]\ncontainer = { image = \"x\" }\n");
    assert_eq!(checked(&project), Vec::<String>::new(), "what is in the image can't be seen from here");
}

#[test]
fn a_preset_must_be_known() {
    let project = with_program();
    project.agent("a", "");
    project.write("agents/a/config.toml", "run = \"claud\"\n");
    assert_eq!(
        checked(&project),
        ["agents/a/config.toml:1:7: error: there is no preset \"claud\" (did you mean \"claude\"?)"]
    );
}

#[test]
fn a_user_must_exist_and_a_secret_should() {
    let project = with_program();
    project.agent("a", "user: agnet\nsecrets: ['env:SET', 'env:UNSET']\nmay_call: [b]");
    project.agent("b", "user: \"1234\"");
    project.write("config.toml", "[webhooks.g]\ntype = \"github\"\nsecret = \"env:HOOK\"\n");
    assert_eq!(
        checked(&project),
        [
            "agents/a/SKILL.md:5:7: error: there is no user \"agnet\"",
            "agents/a/SKILL.md:6:10: warning: could not find the variable UNSET",
            "config.toml:3:10: warning: could not find the variable HOOK",
        ]
    );
}

#[test]
fn runs_that_are_not_isolated_or_may_change_the_fleet_are_named() {
    let project = with_program();
    project.agent("a", "");
    project.write("agents/a/config.toml", "isolation = \"none\"\nedits_project = true\n");
    assert_eq!(
        checked(&project),
        [
            "agents/a/config.toml:1:13: warning: its runs are not isolated: they can read keys, secrets and the runs of others",
            "agents/a/config.toml:2:17: warning: its runs may change what defines the fleet: settings, instructions and scripts \
             of all agents",
        ]
    );
}

#[test]
fn a_setting_of_the_project_holds_for_agents_that_say_nothing() {
    let project = with_program();
    project.agent("a", "");
    project.write("config.toml", "isolation = \"none\"\n");
    let [problem] = checked(&project).try_into().unwrap();
    assert!(problem.starts_with("config.toml:1:13: warning: its runs are not isolated"), "{problem}");
    project.write("agents/a/config.toml", "isolation = \"strict\"\n");
    assert_eq!(checked(&project), [""; 0]);
}

#[test]
fn an_agent_that_this_machine_can_not_isolate_is_an_error_unless_it_asks_for_none() {
    let project = with_program();
    project.agent("a", "");
    let missing = IsolationSupport::Missing("Do this.");
    let [problem] = checked_with(&project, missing).try_into().unwrap();
    assert!(problem.contains("error: this machine can't isolate its runs"), "{problem}");
    let [problem] = checked_with(&project, IsolationSupport::Partial("sockets")).try_into().unwrap();
    assert!(
        problem.contains("warning: this machine can isolate its runs only in part: sockets"),
        "{problem}"
    );
    project.write("agents/a/config.toml", "container = { image = \"x\" }\n");
    assert_eq!(checked_with(&project, missing), [""; 0]);
}

#[test]
fn what_others_can_change_of_an_agent_is_named() {
    let project = with_program();
    project.agent("a", "");
    let changed = "others can change this agent";
    project.mode("agents/a", 0o777);
    let everybody = format!("agents/a: warning: is writable by every user (mode 777): {changed}");
    assert_eq!(checked(&project), [everybody]);

    project.mode("agents/a", 0o775);
    assert_eq!(checked(&project), [""; 0], "a group of root alone");
    // As every Debian has it: the group of nobody, with that user in it.
    chown(project.path("agents/a"), None, Some(65_534)).unwrap();
    let [group] = checked(&project).try_into().unwrap();
    assert!(
        group.starts_with("agents/a: warning: is writable by a group") && group.ends_with(changed),
        "{group}"
    );

    project.mode("agents/a", 0o755);
    chown(project.path("agents/a/SKILL.md"), Some(65_534), None).unwrap();
    let owner = format!("agents/a/SKILL.md: warning: belongs to another user (uid 65534): {changed}");
    assert_eq!(checked(&project), [owner]);
}
