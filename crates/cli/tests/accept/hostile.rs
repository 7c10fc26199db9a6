//! What wrong input and wrong agents get: a clear error, or the loss of that run alone. The daemon goes on.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::fleet::lives;
use crate::support::{Place, eventually};

/// An alias bomb: ten lines that would become a billion words.
fn bomb() -> String {
    let mut text =
        String::from("---\nname: bomb\ndescription: d\nparams:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let alias = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(text, "  a{level}: &a{level} [{alias}]").unwrap();
    }
    text + "---\n"
}

fn skill(name: &str, rest: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n{rest}\n---\nDo it.\n")
}

/// A project in which one agent is right and everything else is wrong. Answers what `bell check` must say of each.
fn broken_project(place: &Place) -> Vec<&'static str> {
    let outside = place.path("outside");
    fs::create_dir_all(&outside).unwrap();
    place.agent("good", "echo good", "");
    place.write("agents/no-frontmatter/SKILL.md", "Do it.\n");
    place.write("agents/bad-yaml/SKILL.md", "---\nname: [bad-yaml\n---\n");
    place.write("agents/bomb/SKILL.md", &bomb());
    place.write("agents/huge/SKILL.md", &"x".repeat((1 << 20) + 1));
    place.write("agents/Bad_Name/SKILL.md", &skill("Bad_Name", ""));
    place.write("agents/other-name/SKILL.md", &skill("../../etc", ""));
    place.write("agents/never/SKILL.md", &skill("never", "schedule: 0 0 31 2 *\nrun: [\"true\"]"));
    place.write("agents/cron/SKILL.md", &skill("cron", "schedule: every day\nrun: [\"true\"]"));
    fs::create_dir_all(place.path("agents/linked")).unwrap();
    symlink("/etc/passwd", place.path("agents/linked/SKILL.md")).unwrap();
    vec![
        "agents/no-frontmatter/SKILL.md:1:1: error: has no frontmatter",
        "agents/bad-yaml/SKILL.md:",
        "agents/bomb/SKILL.md:",
        "agents/huge/SKILL.md: error: can't be read: it has more than 1048576 bytes",
        "agents/Bad_Name/SKILL.md: error: the folder's name \"Bad_Name\"",
        "agents/other-name/SKILL.md:2:7: error:",
        "agents/never/SKILL.md:4:11: error: schedule: \"0 0 31 2 *\" never comes",
        "agents/cron/SKILL.md:4:11: error:",
        "agents/linked/SKILL.md: error: can't be read:",
    ]
}

#[test]
fn everything_that_is_wrong_in_a_project_is_told_and_the_rest_of_it_runs() {
    let place = Place::sqlite();
    let expected = broken_project(&place);
    let said = place.run(&["check"]).expect(4).out;
    for line in expected {
        assert!(said.lines().any(|said| said.starts_with(line)), "{line}\nis not in\n{said}");
    }
    let daemon = place.up();
    assert_eq!(place.run_agent("good")["fate"]["end"]["end"], "completed");
    for agent in ["bomb", "huge", "never", "linked"] {
        place.run(&["run", agent]).expect(2);
    }
    daemon.stop();
}

#[test]
fn names_with_paths_in_them_lead_nowhere() {
    let place = Place::sqlite();
    place.agent("good", "echo good", "");
    fs::write(place.path("secret.txt"), "canary").unwrap();
    for name in ["../good", "agents/good", "/etc", ".", "..", "Good", "good\n", "-", ""] {
        let code = place.run(&["run", "--", name]).code;
        assert!([2, 4].contains(&code), "run {name:?}: {code}");
        let ran = place.run(&["logs", "--", name]);
        assert!([2, 4].contains(&ran.code) && !ran.out.contains("canary"), "logs {name:?}: {ran:?}");
    }
    place.run(&["logs", "../../secret.txt"]).expect(2);
    place.run(&["kill", "../../secret.txt"]).expect(2);
}

#[test]
fn what_is_broken_while_it_runs_costs_nobody_else_anything() {
    let place = Place::sqlite();
    place.agent("good", "echo good", "");
    let daemon = place.up();
    broken_project(&place);
    place.write("config.toml", "scale = \"many\"\n");
    for _ in 0..3 {
        assert_eq!(place.run_agent("good")["fate"]["end"]["end"], "completed");
    }
    daemon.stop();
}

/// Has an agent run that can't end well, and then one that can.
fn bounded(place: &Place, agent: &str) -> Value {
    let ended = place.run(&["--json", "run", agent, "--wait"]).json()["fate"]["end"].clone();
    assert_eq!(place.run_agent("good")["fate"]["end"]["end"], "completed", "the daemon goes on");
    ended
}

#[test]
fn agents_that_can_not_be_started_say_why_and_only_they_are_lost() {
    let place = Place::sqlite();
    place.agent("good", "true", "");
    place.agent("missing", "true", "run = [\"no-such-program-here\"]");
    place.agent("no-user", "true", "user = \"nobody-has-this-name\"");
    place.agent("no-preset", "true", "run = \"claud\"");
    place.agent("no-interpreter", "true", "");
    place.write("agents/no-interpreter/run", "#!/no/such/interpreter\n");
    fs::set_permissions(
        place.path("agents/no-interpreter/run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let daemon = place.up();
    let reasons = [
        ("missing", "no-such-program-here"),
        ("no-user", "nobody-has-this-name"),
        ("no-preset", "claud"),
        ("no-interpreter", "interpreter"),
    ];
    for (agent, reason) in reasons {
        let end = bounded(&place, agent);
        assert_eq!(end["end"], "unstartable", "{agent}");
        assert!(end["reason"].as_str().unwrap().contains(reason), "{agent}: {end}");
    }
    daemon.stop();
}

#[test]
fn an_agent_that_prints_without_end_costs_no_more_than_its_cap() {
    let place = Place::sqlite();
    place.agent("good", "true", "");
    place.agent("loud", "head -c 300000000 /dev/zero | tr '\\0' 'x'", "limits = { output = \"1M\" }");
    let daemon = place.up();
    let end = bounded(&place, "loud");
    assert_eq!(end["end"], "completed");
    let run = place.runs_of("loud")[0]["run"].as_str().unwrap().to_owned();
    let kept = fs::metadata(place.path(&format!(".bell/runs/{run}/output.log"))).unwrap().len();
    assert!(kept < 2 << 20, "{kept} bytes are kept");
    daemon.stop();
}

#[test]
fn an_agent_that_forks_without_end_is_ended_with_all_it_started() {
    let place = Place::sqlite();
    place.agent("good", "true", "");
    let script = "echo $$ > first\nfork() { sleep 1000 & echo $! >> pids; }\nwhile :; do fork; done";
    place.agent("forks", script, "limits = { processes = 40 }\ntimeout = \"20s\"\ngrace = \"1s\"");
    let daemon = place.up();
    let end = bounded(&place, "forks");
    assert!(end["end"] == "killed" && end["reason"].as_str().unwrap().contains("Processes"), "{end}");
    let pids = place.lines("pids");
    assert!(pids.len() > 5, "{pids:?}");
    eventually("nothing of it is left", || !pids.iter().any(|pid| lives(pid)));
    daemon.stop();
}

#[test]
fn an_agent_that_never_ends_is_ended_by_its_time_out() {
    let place = Place::sqlite();
    place.agent("good", "true", "");
    place.agent("endless", "trap '' TERM; while :; do :; done", "timeout = \"1s\"\ngrace = \"1s\"");
    let daemon = place.up();
    assert_eq!(bounded(&place, "endless")["end"], "timeout");
    daemon.stop();
}
