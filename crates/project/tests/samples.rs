//! The sample project is right: for us, and by the rules of the Agent Skills format.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use bell_project::samples::SAMPLES;
use support::Project;

fn written() -> Project {
    let project = Project::new();
    for sample in SAMPLES {
        project.write(sample.path, sample.text);
        project.mode(sample.path, sample.mode);
    }
    project
}

#[test]
fn the_sample_project_loads_without_a_word() {
    let project = written();
    for agent in ["heartbeat", "desk"] {
        let agent = project.only(agent);
        assert!(agent.schedule().is_some() && agent.is_enabled());
    }
    assert_eq!(project.only("desk").settings.scale, 2);
}

#[test]
fn its_skills_have_only_the_fields_that_the_format_knows() {
    let known = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
    for sample in SAMPLES.iter().filter(|sample| sample.path.ends_with("SKILL.md")) {
        let frontmatter = sample.text.split("---\n").nth(1).unwrap();
        for line in frontmatter.lines().filter(|line| !line.starts_with(' ')) {
            let key = line.split(':').next().unwrap();
            assert!(known.contains(&key), "{}: {key}", sample.path);
        }
        for line in frontmatter.lines().filter(|line| line.starts_with("  ")) {
            let value = line.split_once(": ").unwrap().1;
            assert!(value.starts_with('"') && value.ends_with('"'), "metadata holds text: {line}");
        }
    }
}

#[test]
fn its_scripts_are_plain_sh() {
    for sample in SAMPLES.iter().filter(|sample| sample.path.ends_with("/run")) {
        assert!(sample.text.starts_with("#!/bin/sh\n"));
        assert_eq!(sample.mode, 0o755);
        for word in ["curl", "wget", "[[", "function ", "API_KEY"] {
            assert!(!sample.text.contains(word), "{}: {word}", sample.path);
        }
    }
}
