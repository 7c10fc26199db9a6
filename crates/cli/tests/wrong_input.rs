//! Wrong input, each with its outcome, its exit code and a line that says what to do; and nothing changed.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use support::{Place, bare_command, finish};

/// Runs `arguments` in both formats and checks what a refusal must have.
fn refused(place: &Place, arguments: &[&str], outcome: &str, code: i32) -> String {
    let plain = place.run(arguments).expect(code);
    assert!(plain.err.starts_with(&format!("bell: {outcome}: ")), "{arguments:?}: {plain:?}");
    let hint = plain.err.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
    assert!(hint.len() > "hint: ".len() && plain.out.is_empty(), "{arguments:?}: {plain:?}");
    let json = place.run(&[&["--json"], arguments].concat()).expect(code).json();
    assert_eq!(json["outcome"], outcome, "{json}");
    for field in ["message", "hint", "store"] {
        assert!(json[field].as_str().is_some_and(|text| !text.is_empty()), "no {field} in {json}");
    }
    for field in ["key", "fence", "holder", "ttl_ms"] {
        assert!(json.get(field).is_some(), "no {field} in {json}");
    }
    plain.err
}

#[test]
fn a_wrong_key_is_refused_before_anything_is_opened() {
    let too_long = format!("deploy://{}", "x".repeat(600));
    let keys =
        ["api-prod", "/srv/index", "deploy:", "a b://c", "deploy://a b", "deploy://a\u{1b}[0m", &too_long];
    for place in Place::each() {
        for key in keys {
            for command in ["acquire", "release", "renew", "show", "wait"] {
                refused(&place, &["lock", command, key], "invalid", 4);
            }
            refused(&place, &["lock", "break", key, "--reason", "x"], "invalid", 4);
            refused(&place, &["lock", "run", key, "--", "true"], "invalid", 4);
        }
        assert!(!place.path("bell.db").exists() && !place.path("store").exists());
    }
}

#[test]
fn a_wrong_time_is_refused_before_anything_is_opened() {
    let place = Place::sqlite();
    for ttl in ["0", "-1", "-1s", "nan", "inf", "8d", "999ms", "soon", "", "1e99"] {
        let told = refused(&place, &["lock", "acquire", "deploy://x", "--ttl", ttl], "invalid", 4);
        assert!(told.contains("between 1 s and 7 days"), "{told}");
        refused(&place, &["lock", "renew", "deploy://x", "--ttl", ttl], "invalid", 4);
        refused(&place, &["lock", "run", "deploy://x", "--ttl", ttl, "--", "true"], "invalid", 4);
    }
    for wait in ["-1", "nan", "inf", "8d", "soon"] {
        refused(&place, &["lock", "acquire", "deploy://x", "--wait", wait], "invalid", 4);
        refused(&place, &["lock", "run", "deploy://x", "-w", wait, "--", "true"], "invalid", 4);
        refused(&place, &["lock", "run", "deploy://x", "--kill-after", wait, "--", "true"], "invalid", 4);
        refused(&place, &["lock", "wait", "deploy://x", "--timeout", wait], "invalid", 4);
    }
    assert!(!place.path("bell.db").exists());
}

#[test]
fn a_label_that_is_too_long_is_refused() {
    let place = Place::sqlite();
    refused(&place, &["lock", "acquire", "deploy://x", "--label", &"x".repeat(201)], "invalid", 4);
    let many: Vec<String> = (0..17).map(|n| format!("k:{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refused(&place, &[&["lock", "acquire"], many.as_slice()].concat(), "invalid", 4);
}

#[test]
fn a_store_that_nobody_knows_is_refused_with_a_list_of_those_that_are_known() {
    let mut place = Place::sqlite();
    for url in ["consul://localhost", "zookeeper:x", "bell.db", "sqlite:", "sqlite://host/x"] {
        place.url = url.to_owned();
        let told = refused(&place, &["lock", "list"], "invalid", 4);
        assert!(told.contains("sqlite:") && told.contains(&format!("store: {url}")), "{told}");
    }
    place.url = "memory:".to_owned();
    refused(&place, &["lock", "acquire", "deploy://x"], "invalid", 4);
    assert_eq!(place.json(&["store", "info"])["info"]["scope"], "process");
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", "deploy://x"]).expect(0);
    let database = rusqlite::Connection::open(place.path("bell.db")).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    drop(database);
    let told = refused(&place, &["lock", "acquire", "deploy://y"], "unavailable", 5);
    assert!(told.contains("a newer Bellwether wrote it"), "{told}");
    let database = rusqlite::Connection::open(place.path("bell.db")).unwrap();
    let version: i32 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 999);
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let place = Place::sqlite();
    let precious = "precious ".repeat(2_000);
    std::fs::write(place.path("bell.db"), &precious).unwrap();
    refused(&place, &["lock", "acquire", "deploy://x"], "unavailable", 5);
    assert_eq!(std::fs::read_to_string(place.path("bell.db")).unwrap(), precious);
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let place = Place::sqlite();
    let database = rusqlite::Connection::open(place.path("bell.db")).unwrap();
    database.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let told = refused(&place, &["lock", "acquire", "deploy://x"], "invalid", 4);
    assert!(told.contains("belongs to another program"), "{told}");
    let tables: u32 = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_store_that_does_not_answer_grants_nothing() {
    let place = Place::sqlite();
    place.run(&["lock", "run", "job:first", "--", "true"]).expect(0);
    let database = rusqlite::Connection::open(place.path("bell.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let json = place.run(&["--json", "lock", "acquire", "deploy://x"]).expect(5).json();
    assert_eq!(json["outcome"], "unavailable");
    assert!(json.get("token").is_none());
    database.execute_batch("ROLLBACK").unwrap();
    assert!(place.is_free("deploy://x"));
}

#[test]
fn a_folder_that_can_not_be_written_is_refused() {
    for mut place in Place::each() {
        let locked = place.path("locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
        let scheme = place.url.split(':').next().unwrap().to_owned();
        place.url = format!("{scheme}:{}", locked.join("bell").display());
        let json = finish(as_nobody(&place, &["--json", "lock", "acquire", "deploy://x"])).expect(3).json();
        assert_eq!(json["outcome"], "unauthorized");
        assert!(json["hint"].as_str().unwrap().len() > 10, "{json}");
        let plain = finish(as_nobody(&place, &["lock", "acquire", "deploy://x"])).expect(3);
        assert!(plain.err.contains("ermission denied") && plain.err.contains("\nhint: "), "{plain:?}");
        assert!(!locked.join("bell").exists());
    }
}

/// Root may write anywhere, so where the tests run as root this runs as somebody else.
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn as_nobody(place: &Place, arguments: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return place.command(arguments);
    }
    let home = place.path("nobody");
    let binary = place.path("bell");
    if !home.exists() {
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(65_534), Some(65_534)).unwrap();
        copy_program(&binary);
        for path in [place.folder.path(), &binary] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let plain = place.command(arguments);
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut command = Command::new(binary);
    command.args(plain.get_args()).env_clear().current_dir(&home);
    command.env("HOME", &home).env("BELL_STORE", &place.url).uid(65_534).gid(65_534);
    command
}

/// Another process copies: a program that this one has open for writing, if only in a copy of this process
/// that another test is about to start, can't be run.
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn copy_program(to: &Path) {
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let copied = Command::new("cp").arg(bare_command().get_program()).arg(to).status().unwrap();
    assert!(copied.success());
}

#[test]
fn what_is_not_held_or_not_ones_own_has_a_code_of_its_own() {
    for place in Place::each() {
        place.run(&["lock", "run", "job:first", "--", "true"]).expect(0);
        refused(&place, &["lock", "release", "deploy://x"], "not_held", 2);
        refused(&place, &["lock", "renew", "deploy://x"], "not_held", 2);
        refused(&place, &["lock", "break", "deploy://x", "--reason", "x", "--yes"], "not_held", 2);
        place.run(&["lock", "acquire", "deploy://x", "--session-file", "token"]).expect(0);
        refused(&place, &["lock", "release", "deploy://x"], "not_holder", 1);
        refused(&place, &["lock", "renew", "deploy://x"], "not_holder", 1);
        refused(&place, &["lock", "release", "deploy://x", "--session-file", "nowhere"], "invalid", 4);
        assert!(!place.is_free("deploy://x"));
    }
}

#[test]
fn a_command_line_that_can_not_be_understood_has_a_code_of_its_own() {
    let place = Place::sqlite();
    let wrong: [&[&str]; 8] = [
        &[],
        &["lock"],
        &["luck"],
        &["lock", "acquire"],
        &["lock", "acquire", "deploy://x", "--no-such-option"],
        &["lock", "release", "deploy://x", "--fence", "many"],
        &["lock", "break", "deploy://x"],
        &["fence", "write", "file"],
    ];
    for arguments in wrong {
        let ran = place.run(arguments).expect(9);
        assert!(ran.err.contains("--help") && ran.out.is_empty(), "{arguments:?}: {ran:?}");
    }
}
