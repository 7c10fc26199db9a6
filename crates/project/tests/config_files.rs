//! C3: `config.toml` of a project.

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use bell_project::settings::{Length, ProjectSettings, WebhookKind};
use support::{Project, said};

fn about(config: &str) -> Vec<String> {
    let project = Project::with_agent("");
    project.write("config.toml", config);
    said(&project.load())
}

#[test]
fn without_a_file_everything_has_its_default() {
    let settings = Project::with_agent("").load().settings;
    assert_eq!(settings, ProjectSettings::default());
    assert_eq!(settings.resource_lock_timeout, Length::from_secs(1800));
    assert_eq!((settings.max_reruns, settings.max_call_depth, settings.work_queue_size), (10, 3, 100));
    assert_eq!((settings.scale, settings.default_agent_scale), (None, 1));
    assert_eq!(settings.history_retention_days, 14);
    assert_eq!((settings.gateway.port, settings.gateway.bind.to_string()), (8080, "127.0.0.1".to_owned()));
    assert_eq!(settings.local.timeout, Length::from_secs(900));
}

#[test]
fn every_key_is_read_in_both_spellings() {
    let project = Project::with_agent("");
    project.write(
        "config.toml",
        r#"
resourceLockTimeout = 60
max_reruns = 1
maxCallDepth = 2
workQueueSize = 3
scale = 9
historyRetentionDays = 1
store = "postgres://u:p@db/x"
locks = "redis://r"
[local]
timeout = "1h"
[gateway]
port = 9090
bind = "::1"
[webhooks.my-github]
type = "github"
secret = ["env:NEW", "OLD"]
"#,
    );
    let loaded = project.load();
    assert_eq!(said(&loaded), Vec::<String>::new());
    let settings = loaded.settings;
    assert_eq!(settings.resource_lock_timeout, Length::from_secs(60));
    assert_eq!((settings.max_reruns, settings.max_call_depth, settings.work_queue_size), (1, 2, 3));
    assert_eq!(settings.store.unwrap().expose(), "postgres://u:p@db/x");
    assert_eq!(settings.gateway.bind.to_string(), "::1");
    assert_eq!(settings.webhooks["my-github"].kind, WebhookKind::Github);
    assert_eq!(settings.webhooks["my-github"].secret.as_ref().unwrap().0.len(), 2);
}

#[test]
fn every_wrong_line_is_told() {
    let config = "scal = 1\nmax_reruns = -1\nstore = \"hunter2\"\n[gateway]\nport = 70000\nbind = \"home\"\n[webhooks.a]\ntype = \"githab\"\nsecret = \"env:X\"\n[webhooks.b]\ntype = \"github\"\n[webhooks.c]\ntype = \"github\"\nsecret = \"hunter2 hunter2\"\n";
    let said = about(config);
    let starts = [
        "config.toml:1:1: error: unknown key \"scal\" (did you mean \"scale\"?)",
        "config.toml:2:14: error: max_reruns: expected a whole number that is not negative, found the number -1",
        "config.toml:3:9: error: store: not a store URL",
        "config.toml:5:8: error: gateway.port: expected a whole number that is not negative, found the number 70000",
        "config.toml:6:8: error: gateway.bind: ",
        "config.toml:8:8: error: webhooks.a.type: \"githab\" is none of its words (did you mean \"github\"?)",
        "config.toml:10:1: error: webhooks.b: \"secret\" is missing",
        "config.toml:14:10: error: webhooks.c.secret: not a reference to a secret",
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (line, start) in said.iter().zip(starts) {
        assert!(line.starts_with(start), "{line} should begin with {start}");
    }
    assert!(!said.join("\n").contains("hunter2"), "{said:#?}");
}

#[test]
fn lines_that_are_no_toml_are_told_and_the_rest_is_read() {
    let said = about("scale = \nmax_reruns = 1\nmax_reruns = 2\n[gateway\nport = 1\n");
    assert!(said.len() >= 3, "{said:#?}");
    assert!(said[0].starts_with("config.toml:1:"), "{said:#?}");
    assert!(said.iter().any(|line| line.starts_with("config.toml:3:1: error: duplicate key")), "{said:#?}");
}

#[test]
fn a_source_that_can_be_no_part_of_a_path_is_refused() {
    let said = about("[webhooks.\"../x\"]\ntype = \"github\"\nsecret = \"env:X\"\n");
    assert!(said[0].contains("the webhook source \"../x\" can't be a part of a path"), "{said:?}");
}

#[test]
fn a_source_without_signatures_takes_many_words_and_gets_a_warning() {
    let table = |line: &str| format!("[webhooks.x]\ntype = \"github\"\n{line}\n");
    assert_eq!(
        about(&table("unsigned = \"anyone-may-start-my-agents\"")),
        ["config.toml:3:12: warning: webhooks.x: whoever can reach /webhooks/x can start agents"]
    );
    for short in ["unsigned = true", "unsigned = \"yes\""] {
        let said = about(&table(short));
        assert!(matches!(&said[..], [one] if one.contains("error: webhooks.x.unsigned")), "{said:?}");
    }
    assert_eq!(
        about(&table("unsigned = \"anyone-may-start-my-agents\"\nsecret = \"env:X\"")),
        ["config.toml:3:12: error: webhooks.x: with a secret, deliveries must be signed"]
    );
}

#[test]
fn what_only_the_generic_type_has_is_refused_elsewhere_and_names_are_checked() {
    let config = "[webhooks.a]\ntype = \"github\"\nsecret = \"env:X\"\nheader = \"X-Sig\"\n\
        [webhooks.b]\ntype = \"hmac\"\nsecret = \"env:X\"\nheader = \"X Sig\"\nencoding = \"base46\"\n\
        [webhooks.b.fields]\nnumbr = \"ticket.id\"\ntitle = \"ticket.subject\"\n";
    assert_eq!(
        about(config),
        [
            "config.toml:4:10: error: webhooks.a.header: only the type hmac has it",
            "config.toml:8:10: error: webhooks.b.header: not the name of a header",
            "config.toml:9:12: error: webhooks.b.encoding: \"base46\" is none of its words (did you mean \"base64\"?)",
            "config.toml:11:1: error: webhooks.b.fields: nothing is called \"numbr\" (did you mean \"number\"?)",
        ]
    );
}
