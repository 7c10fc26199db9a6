//! C4: secrets are named in settings, kept elsewhere, and shown nowhere.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use bell_project::capacity::Capacity;
use bell_project::effective;
use bell_project::secret::SecretRef;
use support::Project;

const CANARY: &str = "hunter2-canary";

fn resolve(project: &Project, reference: &str) -> Result<String, String> {
    let variable = |name: &str| (name == "SET").then(|| CANARY.to_owned());
    let secret = SecretRef::parse(reference).unwrap().resolve(&project.open(), &variable);
    secret
        .map(|secret| secret.expose().to_owned())
        .map_err(|error| format!("could not {error}. {}", error.hint()))
}

#[test]
fn a_secret_comes_from_a_variable_a_file_or_the_projects_folder() {
    let project = Project::new();
    project.write(".bell/secrets/API_KEY", format!("{CANARY}\n"));
    project.mode(".bell/secrets/API_KEY", 0o600);
    project.write("elsewhere", format!("{CANARY}\r\n"));
    project.mode("elsewhere", 0o400);
    let absolute = format!("file:{}", project.path("elsewhere").display());
    for reference in ["env:SET", "file:elsewhere", &absolute, "API_KEY"] {
        assert_eq!(resolve(&project, reference).as_deref(), Ok(CANARY), "{reference}");
    }
}

#[test]
fn what_others_could_read_is_refused_with_the_command_that_mends_it() {
    let project = Project::new();
    project.write(".bell/secrets/API_KEY", CANARY);
    for mode in [0o644, 0o640, 0o604, 0o660] {
        project.mode(".bell/secrets/API_KEY", mode);
        let said = resolve(&project, "API_KEY").unwrap_err();
        assert!(said.ends_with("Run: chmod 600 .bell/secrets/API_KEY"), "{said}");
        assert!(!said.contains(CANARY));
    }
}

#[test]
fn what_is_not_there_says_what_to_do() {
    let project = Project::new();
    assert!(resolve(&project, "env:NONE").unwrap_err().contains("Set NONE where the daemon is started."));
    assert!(resolve(&project, "NONE").unwrap_err().contains("Write the value into .bell/secrets/NONE"));
}

#[test]
fn a_secret_in_the_projects_folder_can_not_be_a_link_out_of_it() {
    let project = Project::new();
    project.write(".bell/secrets/other", "");
    std::os::unix::fs::symlink("/etc/shadow", project.path(".bell/secrets/KEY")).unwrap();
    assert!(resolve(&project, "KEY").unwrap_err().contains("leads out of the project"));
}

#[test]
fn a_secret_that_is_no_text_or_too_large_is_refused() {
    let project = Project::new();
    for content in [vec![0xff, 0xfe], b"a\0b".to_vec(), vec![b'x'; 100_000]] {
        project.write("secret", content);
        project.mode("secret", 0o600);
        assert!(resolve(&project, "file:secret").is_err());
    }
}

#[test]
fn a_shown_setting_says_only_whether_its_secret_is_set() {
    let project = Project::with_agent("secrets: {KEY: 'env:SET', OTHER: NONE}");
    project.write(
        "config.toml",
        "store = \"redis://:hunter2-canary@h/0\"\n[webhooks.g]\ntype = \"hmac\"\nsecret = \"env:SET\"\n",
    );
    let (folder, loaded) = (project.open(), project.load());
    let variable = |name: &str| (name == "SET").then(|| CANARY.to_owned());
    let agent = loaded.agents.values().next().unwrap();
    let rows = [
        effective::project(&folder, &loaded, &variable),
        effective::agent(&folder, agent, Capacity::of_this_machine(), &variable),
    ]
    .concat();
    let text = serde_json::to_string(&rows).unwrap();
    assert!(!text.contains(CANARY), "{text}");
    let value = |key: &str| rows.iter().find(|row| row.key == key).unwrap().value.clone();
    assert_eq!(value("secrets.KEY"), "env:SET (set)");
    assert_eq!(value("secrets.OTHER"), "NONE (unset)");
    assert_eq!(value("webhooks.g.secret"), serde_json::json!(["env:SET (set)"]));
    assert_eq!(value("store"), "redis://…@h/0");
    assert!(
        !format!("{loaded:?}").contains("redis://:hunter2-canary"),
        "settings are shown without the password"
    );
}
