//! C2: `SKILL.md`, its frontmatter, and the `config.toml` beside it.

mod support;

use bell_project::agent::Program;
use bell_project::settings::{Length, Overlap, Size};
use support::{Project, name, said};

/// What is said about an agent with these lines from line 5 of its frontmatter on.
fn about(lines: &str) -> Vec<String> {
    let loaded = Project::with_agent(lines).load();
    said(&loaded)
}

#[test]
fn the_body_is_the_instructions_and_the_rest_is_settings() {
    let project = Project::with_agent(
        "schedule: 0 9 * * MON-FRI\ntimezone: Europe/Berlin\nscale: 3\ntimeout: 10m\noverlap: queue-one\nparams: {team: core, n: 2}\nallowed-tools: Bash Read",
    );
    let agent = project.only("a");
    assert_eq!(&*agent.instructions, "Do it.\n");
    assert_eq!(agent.skill.description, "Does it.");
    assert_eq!(agent.skill.allowed_tools.as_deref(), Some("Bash Read"));
    assert_eq!(agent.settings.scale, 3);
    assert_eq!(agent.settings.timeout, Length::from_secs(600));
    assert_eq!(agent.settings.overlap, Overlap::QueueOne);
    assert_eq!(agent.settings.params["n"], 2);
    assert_eq!(agent.schedule().unwrap().zone().name(), "Europe/Berlin");
    assert_eq!(agent.program, Program::Command(vec!["true".into()]));
}

#[test]
fn both_spellings_of_a_key_are_read() {
    let agent = Project::with_agent("maxReruns: 4\nmay_call: []\nresourceLockTimeout: 60").only("a");
    assert_eq!(agent.settings.max_reruns, 4);
    assert_eq!(agent.settings.resource_lock_timeout, Length::from_secs(60));
    assert_eq!(
        about("maxReruns: 4\nmax_reruns: 5"),
        ["agents/a/SKILL.md:6:1: error: max_reruns: given twice, in two spellings"]
    );
}

#[test]
fn under_metadata_text_stands_for_every_kind_of_value() {
    let project = Project::new();
    project.write(
        "agents/a/SKILL.md",
        r#"---
name: a
description: Does it.
metadata:
  author: somebody
  version: "1.0"
  run: '["sh", "-c", "echo a b"]'
  schedule: "@daily"
  scale: "3"
  env: "LANG, TERM"
  locks: "job:{id}"
  catchup: '{"window": "2h", "max": 2}'
  limits: '{"memory": "512M", "files": 64}'
  secrets: "API_KEY env:OTHER"
  params: '{"deep": {"n": [1, 2]}}'
  worktree: "{}"
---
"#,
    );
    let agent = project.only("a");
    assert_eq!(agent.program, Program::Command(vec!["sh".into(), "-c".into(), "echo a b".into()]));
    assert_eq!(agent.settings.scale, 3);
    assert_eq!(agent.settings.env.len(), 2);
    assert_eq!(agent.settings.locks[0].as_str(), "job:{id}");
    assert_eq!(agent.settings.catchup.as_ref().unwrap().max, 2);
    assert_eq!(agent.settings.limits.memory, Some(Size::from_bytes(512 << 20)));
    assert_eq!(agent.settings.limits.files, Some(64));
    assert_eq!(agent.settings.secrets.0.len(), 2);
    assert_eq!(agent.settings.params["deep"]["n"][1], 2);
    assert!(agent.settings.worktree.is_some());
    assert_eq!(agent.skill.metadata["author"].0, "somebody");
}

#[test]
fn other_peoples_metadata_is_left_alone_but_a_slip_is_noticed() {
    let said = about("metadata: {author: me, shedule: daily, priority: high}");
    assert_eq!(
        said,
        ["agents/a/SKILL.md:5:24: warning: metadata \"shedule\" is no setting (did you mean \"schedule\"?)"]
    );
    assert_eq!(
        about("scale: 1\nmetadata:\n  scale: \"2\""),
        ["agents/a/SKILL.md:7:3: error: \"scale\" is given at the top level too"]
    );
}

#[test]
fn the_config_beside_it_wins_key_by_key() {
    let project = Project::with_agent("scale: 2\ntimeout: 1m\nlimits: {files: 10}");
    project.write("agents/a/config.toml", "scale = 5\n[limits]\nprocesses = 7\n");
    let agent = project.only("a");
    assert_eq!(agent.settings.scale, 5);
    assert_eq!(agent.settings.timeout, Length::from_secs(60));
    assert_eq!(agent.settings.limits.processes, Some(7));
    assert_eq!(agent.settings.limits.files, None, "a key wins as a whole");
    assert_eq!(agent.place_of("scale").to_string(), "agents/a/config.toml:1:9");
    assert_eq!(agent.place_of("timeout").to_string(), "agents/a/SKILL.md:6:10");
}

#[test]
fn what_an_agent_leaves_out_the_project_gives() {
    let project = Project::with_agent("");
    project.write(
        "config.toml",
        "defaultAgentScale = 2\ntimezone = \"Asia/Tokyo\"\nwork_queue_size = 7\n[local]\ntimeout = 60\n",
    );
    let agent = project.only("a");
    assert_eq!(agent.settings.scale, 2);
    assert_eq!(agent.settings.timeout, Length::from_secs(60));
    assert_eq!(agent.settings.work_queue_size, 7);
    assert_eq!(agent.settings.timezone.name(), "Asia/Tokyo");
    assert_eq!(agent.settings.max_reruns, 10);
}

#[test]
fn every_wrong_line_is_told_with_line_column_and_nearest_name() {
    let lines = "schedul: daily\nscale: many\ntimeout: 3 weeks\ntimezone: Europe/Berlim\noverlap: que\nlimits: {memory: much, fils: 3}\nretry: {on: [lost, broke]}";
    assert_eq!(
        about(lines),
        [
            "agents/a/SKILL.md:5:1: error: unknown key \"schedul\" (did you mean \"schedule\"?)",
            "agents/a/SKILL.md:6:8: error: scale: expected a whole number that is not negative, found text",
            "agents/a/SKILL.md:7:10: error: timeout: \"3 weeks\" is not a length of time",
            "agents/a/SKILL.md:8:11: error: timezone: no time zone is called \"Europe/Berlim\" (did you mean \"Europe/Berlin\"?)",
            "agents/a/SKILL.md:9:10: error: overlap: \"que\" is none of its words (did you mean \"queue\"?)",
            "agents/a/SKILL.md:10:18: error: limits.memory: \"much\" is not a size",
            "agents/a/SKILL.md:10:24: error: limits: unknown key \"fils\" (did you mean \"files\"?)",
            "agents/a/SKILL.md:11:20: error: retry.on[1]: \"broke\" is none of its words",
        ]
    );
}

#[test]
fn a_wrong_schedule_is_refused_where_it_stands() {
    let cases = [
        ("0 0 31 2 *", "never comes: no day is like that"),
        ("* * * * * *", "has 6 fields instead of 5"),
        ("@reboot", "is none of @hourly, @daily, @weekly, @monthly, @yearly"),
        ("61 * * * *", "can't be read: "),
    ];
    for (expression, words) in cases {
        let said = about(&format!("schedule: \"{expression}\""));
        assert_eq!(said.len(), 1, "{said:?}");
        let start = format!("agents/a/SKILL.md:5:11: error: schedule: {expression:?} {words}");
        assert!(said[0].starts_with(&start), "{said:?}");
    }
}

#[test]
fn the_rules_of_the_agent_skills_format_hold() {
    let project = Project::new();
    let long = "x".repeat(1025);
    let cases = [
        ("description: d", "agents/a/SKILL.md:2:1: error: \"name\" is missing"),
        ("name: b\ndescription: d", "agents/a/SKILL.md:2:7: error: the name \"b\" is not that of the folder"),
        ("name: a", "agents/a/SKILL.md:2:1: error: \"description\" is missing"),
        (
            "name: a\ndescription: ''",
            "agents/a/SKILL.md:3:14: error: the description has 0 characters, not 1 to 1024",
        ),
        (
            &format!("name: a\ndescription: {long}"),
            "agents/a/SKILL.md:3:14: error: the description has 1025 characters, not 1 to 1024",
        ),
        (
            "name: a\ndescription: 7",
            "agents/a/SKILL.md:3:14: error: description: expected text, found the number 7",
        ),
        (
            &format!("name: a\ndescription: d\ncompatibility: {long}"),
            "agents/a/SKILL.md:4:16: error: compatibility has more than 500 characters",
        ),
        (
            "name: a\ndescription: d\nmetadata: {k: [1]}",
            "agents/a/SKILL.md:4:15: error: metadata.k: expected text: metadata holds nothing else, found a list",
        ),
    ];
    for (frontmatter, expected) in cases {
        project.write("agents/a/SKILL.md", format!("---\n{frontmatter}\nrun: claude\n---\n"));
        assert_eq!(said(&project.load()), [expected]);
    }
}

#[test]
fn without_a_command_the_file_called_run_runs_it() {
    let project = Project::new();
    let skill = "---\nname: a\ndescription: d\n---\n";
    project.write("agents/a/SKILL.md", skill);
    let nothing = said(&project.load());
    assert_eq!(
        nothing,
        [
            "agents/a/SKILL.md: error: nothing says what runs it: it has no \"run\", and there is no file called run"
        ]
    );
    project.write("agents/a/run", "#!/bin/sh\n");
    project.mode("agents/a/run", 0o644);
    assert_eq!(said(&project.load()), ["agents/a/run: error: is not executable"]);
    project.mode("agents/a/run", 0o755);
    assert_eq!(project.only("a").program, Program::File("agents/a/run".into()));
}

#[test]
fn text_that_is_no_preset_is_not_taken_for_a_command_line() {
    let project = Project::new();
    project.write("agents/a/SKILL.md", "---\nname: a\ndescription: d\nrun: sh -c 'rm -rf /'\n---\n");
    let loaded = project.load();
    assert_eq!(
        said(&loaded),
        ["agents/a/SKILL.md:4:6: error: run: text is the name of a preset, and this can't be one"]
    );
    project.write("agents/a/SKILL.md", "---\nname: a\ndescription: d\nrun: claude\nmodel: opus\n---\n");
    assert_eq!(project.only("a").program, Program::Preset("claude".into()));
}

#[test]
fn an_agent_that_is_broken_leaves_the_others_alone() {
    let project = Project::with_agent("");
    project.agent("b", "scale: -1");
    let loaded = project.load();
    assert_eq!(loaded.agents.keys().cloned().collect::<Vec<_>>(), [name("a")]);
    assert_eq!(loaded.problems.len(), 1);
}

#[test]
fn settings_that_do_nothing_together_get_a_word() {
    let project = Project::with_agent(
        "jitter: 10s\nscale: 5\nmay_call: [a]\nwebhooks: [{source: gihub, events: issues}]",
    );
    project.write("config.toml", "scale = 2\n[webhooks.github]\ntype = \"github\"\nsecret = \"env:X\"\n");
    assert_eq!(
        said(&project.load()),
        [
            "agents/a/SKILL.md:5:9: warning: jitter does nothing: there is no schedule",
            "agents/a/SKILL.md:6:8: warning: scale 5 is more than the project's cap of 2",
            "agents/a/SKILL.md:7:11: error: an agent can't call itself",
            "agents/a/SKILL.md:8:11: error: no webhook source is called \"gihub\" (did you mean \"github\"?)",
        ]
    );
}

#[test]
fn filters_of_deliveries_are_checked_by_name_and_value() {
    let project = Project::with_agent(
        "webhooks:\n  - {source: hub, evnts: issues}\n  - {source: hub, labels: []}\n  - {source: hub, repo: a/b, repos: a/c}\n  - {source: hub, events: ''}",
    );
    project.write("config.toml", "[webhooks.hub]\ntype = \"github\"\nsecret = \"env:X\"\n");
    let said = said(&project.load());
    let expected = [
        "agents/a/SKILL.md:6:19: error: webhooks[0]: unknown key \"evnts\" (did you mean \"events\"?)",
        "agents/a/SKILL.md:7:27: error: webhooks[1].labels: nothing is in the list",
        "agents/a/SKILL.md:8:5: error: webhooks[2]: repos is given twice, in two words",
        // What can't be read is left out, and what stands behind it moves up.
        "agents/a/SKILL.md:9:27: error: webhooks[2].events: the value is empty",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (line, start) in said.iter().zip(expected) {
        assert!(line.starts_with(start), "{line} should begin with {start}");
    }
}

#[test]
fn filters_of_deliveries_take_one_value_or_several_in_either_word() {
    let project = Project::with_agent(
        "webhooks: [{source: hub, event: issues, labels: [bug, '!wontfix'], number: 7, org: acme}]",
    );
    project.write("config.toml", "[webhooks.hub]\ntype = \"github\"\nsecret = \"env:X\"\n");
    let loaded = project.load();
    assert_eq!(said(&loaded), Vec::<String>::new());
    let rules = &loaded.agents.values().next().unwrap().settings.webhooks;
    let json = serde_json::to_value(rules).unwrap();
    let expected = serde_json::json!([{
        "source": "hub", "events": ["issues"], "labels": ["bug", "!wontfix"], "numbers": ["7"], "organizations": ["acme"]
    }]);
    assert_eq!(json, expected);
}

#[test]
fn what_does_not_hold_in_a_container_or_outside_of_one_is_reported() {
    for (lines, problem) in [
        (
            "paths: {read: [docs]}\ncontainer: {image: x}",
            "agents/a/SKILL.md:5:8: error: paths does not hold in a container, which sees the project and its image",
        ),
        (
            "limits: {cpus: 1.5}",
            "agents/a/SKILL.md:5:9: warning: limits.cpus does nothing: there is no container",
        ),
        (
            "limits: {cpus: none}\ncontainer: {image: x}",
            "agents/a/SKILL.md:5:16: error: limits.cpus: \"none\" is not a number of processors",
        ),
    ] {
        assert_eq!(about(lines), [problem]);
    }
}
