//! C1: which agents a project has.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use std::os::unix::fs::symlink;

use support::{Project, name, said};

const SKILL: &str = "---\nname: NAME\ndescription: Does it.\nrun: [\"true\"]\n---\n";

fn skill(name: &str) -> String {
    SKILL.replace("NAME", name)
}

#[test]
fn agents_are_folders_with_a_skill_in_either_place() {
    let project = Project::new();
    project.write("agents/one/SKILL.md", skill("one"));
    project.write("two/SKILL.md", skill("two"));
    project.write("docs/README.md", "no agent");
    project.write(".hidden/SKILL.md", skill("hidden"));
    project.write("agents/.git/SKILL.md", skill("git"));
    let loaded = project.load();
    assert_eq!(said(&loaded), Vec::<String>::new());
    assert_eq!(loaded.agents.keys().cloned().collect::<Vec<_>>(), [name("one"), name("two")]);
    assert_eq!(loaded.agents[&name("one")].folder.to_str(), Some("agents/one"));
}

#[test]
fn a_project_without_agents_says_where_it_looked() {
    let project = Project::new();
    project.write("a/b/SKILL.md", skill("b"));
    let loaded = project.load();
    let root = project.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    assert_eq!(
        said(&loaded),
        [format!(".: error: no agents: looked for {root}/agents/<name>/SKILL.md and {root}/<name>/SKILL.md")]
    );
    assert!(loaded.problems[0].hint.as_deref().unwrap().contains("bell init"));
}

#[test]
fn a_folder_with_another_name_than_an_agent_may_have_is_refused() {
    let project = Project::new();
    for folder in ["Upper", "a_b", "a--b", "-a", "a.b"] {
        project.write(&format!("agents/{folder}/SKILL.md"), skill("x"));
    }
    let loaded = project.load();
    assert_eq!(loaded.problems.len(), 5, "{:?}", said(&loaded));
    assert!(loaded.problems.iter().all(|problem| problem.message.contains("the folder's name")));
    assert!(loaded.agents.is_empty());
}

#[test]
fn the_same_name_in_both_places_is_refused() {
    let project = Project::new();
    project.write("agents/a/SKILL.md", skill("a"));
    project.write("a/SKILL.md", skill("a"));
    let loaded = project.load();
    assert_eq!(said(&loaded), ["agents/a/SKILL.md: error: there is another agent of this name in a"]);
    assert!(loaded.agents.is_empty());
}

#[test]
fn a_folder_in_agents_without_a_skill_gets_a_word() {
    let project = Project::with_agent("");
    project.write("agents/b/README.md", "");
    assert_eq!(said(&project.load()), ["agents/b: warning: no agent: it has no SKILL.md"]);
}

#[test]
fn links_out_of_the_project_are_refused_and_links_inside_are_followed() {
    let outside = Project::new();
    outside.write("SKILL.md", skill("linked"));
    let project = Project::with_agent("");
    project.write("agents/linked/note", "");
    symlink(outside.path("SKILL.md"), project.path("agents/linked/SKILL.md")).unwrap();
    symlink(outside.path(""), project.path("agents/folder")).unwrap();
    symlink(outside.path(""), project.path("data")).unwrap();
    project.write("shared/two.md", skill("two"));
    project.write("agents/two/note", "");
    symlink("../../shared/two.md", project.path("agents/two/SKILL.md")).unwrap();
    let loaded = project.load();
    assert_eq!(
        said(&loaded),
        [
            "agents/folder/SKILL.md: error: can't be read: it leads out of the project",
            "agents/linked/SKILL.md: error: can't be read: it leads out of the project",
        ]
    );
    assert_eq!(loaded.agents.keys().cloned().collect::<Vec<_>>(), [name("a"), name("two")]);
}

#[test]
fn a_config_that_leads_out_of_the_project_is_refused() {
    let outside = Project::new();
    outside.write("c.toml", "scale = 1");
    let project = Project::with_agent("");
    symlink(outside.path("c.toml"), project.path("config.toml")).unwrap();
    assert_eq!(said(&project.load()), ["config.toml: error: can't be read: it leads out of the project"]);
}
