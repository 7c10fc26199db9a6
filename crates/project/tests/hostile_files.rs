//! Whatever a file holds, the answer is a problem or an agent: never a panic, never a long wait.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use std::fmt::Write;

use proptest::prelude::*;
use support::{Project, said};

/// What is said about a `SKILL.md` of these bytes.
fn about(bytes: impl AsRef<[u8]>) -> Vec<String> {
    let project = Project::new();
    project.write("agents/a/SKILL.md", bytes);
    said(&project.load())
}

#[test]
fn an_alias_bomb_is_refused_while_it_is_read() {
    let mut text = String::from(
        "---\nname: a\ndescription: d\nrun: claude\nparams:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n",
    );
    for level in 1..30 {
        let alias = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(text, "  a{level}: &a{level} [{alias}]").unwrap();
    }
    text.push_str("---\n");
    let said = about(text);
    assert_eq!(said.iter().filter(|line| line.contains("not readable as YAML")).count(), 1, "{said:?}");
}

#[test]
fn towers_of_brackets_are_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let text = format!(
            "---\nname: a\ndescription: d\nparams: {}{}\n---\n",
            open.repeat(50_000),
            close.repeat(50_000)
        );
        assert!(about(text).iter().any(|line| line.contains("not readable as YAML")));
    }
    let mut nested = String::from("---\nname: a\ndescription: d\nparams:\n");
    for depth in 1..500 {
        writeln!(nested, "{}a:", " ".repeat(depth)).unwrap();
    }
    nested.push_str("---\n");
    assert!(about(nested).iter().any(|line| line.contains("not readable as YAML")));
    let project = Project::with_agent("");
    project.write("config.toml", format!("x = {}{}", "[".repeat(50_000), "]".repeat(50_000)));
    assert!(!said(&project.load()).is_empty());
    project.write("config.toml", format!("x{} = 1", ".a".repeat(10_000)));
    assert!(!said(&project.load()).is_empty());
}

#[test]
fn json_in_metadata_is_bounded_too() {
    let text = format!(
        "---\nname: a\ndescription: d\nmetadata:\n  run: claude\n  params: '{{\"a\": {}{}}}'\n---\n",
        "[".repeat(9_000),
        "]".repeat(9_000)
    );
    assert!(!about(text).is_empty());
}

#[test]
fn many_keys_are_refused_and_many_mistakes_are_cut_off() {
    let mut many = String::from("---\nname: a\ndescription: d\n");
    for at in 0..40_000 {
        writeln!(many, "key{at}: 1").unwrap();
    }
    many.push_str("---\n");
    assert!(about(many).iter().any(|line| line.contains("not readable as YAML")));
    let mut wrong = String::from("---\nname: a\ndescription: d\n");
    for at in 0..500 {
        writeln!(wrong, "key{at}: 1").unwrap();
    }
    wrong.push_str("---\n");
    let said = about(wrong);
    assert!((40..60).contains(&said.len()), "{}", said.len());
}

#[test]
fn a_config_of_many_keys_is_refused() {
    let project = Project::with_agent("");
    for count in [5_000, 30_000] {
        let text: String = (0..count).map(|at| format!("k{at}=1\n")).collect();
        project.write("config.toml", &text);
        project.write("agents/a/config.toml", &text);
        assert!(said(&project.load()).len() >= 2);
    }
    assert!(said(&project.load()).iter().any(|line| line.contains("more than 20000 values")));
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_are() {
    assert_eq!(about(b"---\nname: a\xff\n---\n"), ["agents/a/SKILL.md:2:8: error: is not UTF-8"]);
    assert_eq!(
        about(b"---\nname: a\ndescription: d\0\n---\n"),
        ["agents/a/SKILL.md:3:15: error: holds a NUL"]
    );
    let project = Project::with_agent("");
    project.write("config.toml", b"scale = 1\n\xc3\x28");
    assert_eq!(said(&project.load()), ["config.toml:2:1: error: is not UTF-8"]);
}

#[test]
fn a_file_without_frontmatter_says_how_to_begin() {
    for text in ["", "\n", "Do it.\n", "--\nname: a\n--\n", " ---\nname: a\n---\n"] {
        assert_eq!(about(text), ["agents/a/SKILL.md:1:1: error: has no frontmatter"], "{text:?}");
    }
    assert_eq!(about("---\nname: a\n"), ["agents/a/SKILL.md:1:1: error: the frontmatter has no end"]);
    assert_eq!(
        about("---\n- a\n---\n"),
        ["agents/a/SKILL.md:2:1: error: the frontmatter is not a table of names and values"]
    );
    assert_eq!(about("---\n---\n").len(), 3, "name, description and run are missing");
}

#[test]
fn marks_and_line_ends_of_other_systems_are_fine() {
    let project = Project::new();
    project.write(
        "agents/a/SKILL.md",
        "\u{FEFF}---\r\nname: a\r\ndescription: d\r\nrun: claude\r\nscale: 2\r\n---\r\nDo it.\r\n",
    );
    project.write("config.toml", "\u{FEFF}scale = 5\r\n");
    let agent = project.only("a");
    assert_eq!(agent.settings.scale, 2);
    assert_eq!(agent.settings.run.clone().unwrap(), bell_project::settings::Run::Preset("claude".into()));
    assert_eq!(&*agent.instructions, "Do it.\r\n");
    assert_eq!(agent.place_of("scale").to_string(), "agents/a/SKILL.md:5:8");
}

#[test]
fn a_huge_file_is_refused_by_its_size() {
    let project = Project::with_agent("");
    project.write("agents/b/SKILL.md", vec![b'x'; (1 << 20) + 1]);
    project.write("config.toml", vec![b'#'; (256 << 10) + 1]);
    assert_eq!(
        said(&project.load()),
        [
            "agents/b/SKILL.md: error: can't be read: it has more than 1048576 bytes",
            "config.toml: error: can't be read: it has more than 262144 bytes",
        ]
    );
}

#[test]
fn a_fifo_in_place_of_a_file_holds_nobody_up() {
    let project = Project::with_agent("");
    project.write("agents/b/note", "");
    for name in ["agents/b/SKILL.md", "config.toml"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, project.path(name), rustix::fs::FileType::Fifo, mode, 0)
            .unwrap();
    }
    assert_eq!(
        said(&project.load()),
        [
            "agents/b/SKILL.md: error: can't be read: it is not a regular file",
            "config.toml: error: can't be read: it is not a regular file",
        ]
    );
}

#[test]
fn yaml_that_is_wrong_says_where() {
    let cases = [
        ("name: [a", 2..=4),
        ("name: a\n\tdescription: d", 2..=3),
        ("name: a\nname: a", 3..=3),
        ("name: *nothing", 2..=2),
        ("name: !!python/object:os.system a\n<<: {a: 1}", 2..=3),
    ];
    for (text, lines) in cases {
        let said = about(format!("---\n{text}\n---\n"));
        assert_eq!(said.len(), 1, "what can't be seen is not missing: {said:?}");
        let line: u32 = said
            .iter()
            .find(|line| line.contains("YAML"))
            .unwrap_or_else(|| panic!("{text:?}: {said:?}"))
            .split(':')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        assert!(lines.contains(&line), "{text:?}: {said:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let project = Project::new();
        project.write("agents/a/SKILL.md", &bytes);
        project.write("agents/a/config.toml", &bytes);
        project.write("config.toml", &bytes);
        project.load();
    }

    #[test]
    fn random_frontmatter_never_panics(text in "[a-z:{}\\[\\]\"'&*#|>! \n@%0-9,.-]{0,300}") {
        about(format!("---\nname: a\n{text}\n---\n{text}"));
    }

    #[test]
    fn random_values_never_panic(
        key in prop_oneof![Just("schedule"), Just("timezone"), Just("locks"), Just("run"), Just("timeout"), Just("limits"), Just("secrets"), Just("webhooks"), Just("retry")],
        value in "\\PC{0,60}",
    ) {
        let quoted = serde_json::to_string(&value).unwrap();
        about(format!("---\nname: a\ndescription: d\nmetadata:\n  {key}: {quoted}\n---\n"));
        let project = Project::with_agent("");
        project.write("agents/a/config.toml", format!("{key} = {quoted}"));
        project.load();
    }

    #[test]
    fn random_schedules_never_panic_and_have_a_next_time_if_read(text in "[-0-9*/,LW#?+@A-Z ]{0,30}") {
        if let Ok(expression) = bell_project::cron::Expression::parse(&text) {
            let zone = bell_project::settings::Zone::utc();
            let schedule = bell_project::cron::Schedule::new(expression, zone);
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            prop_assert!(schedule.next_after(now).is_some_and(|next| next > now), "{text}");
        }
    }
}
