//! The reference page and the schema are the settings themselves.

use std::path::Path;

use bell_project::schema;

#[test]
fn the_page_of_settings_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let page = schema::markdown();
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/config.md is out of date: run BELL_WRITE_DOCS=1 cargo test -p bell-project"
    );
}

#[test]
fn every_key_has_a_meaning() {
    for line in schema::markdown().lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        assert!(cells.last().unwrap().trim_end_matches(" |").len() > 3, "{line}");
    }
}

#[test]
fn the_schema_has_both_spellings_and_refuses_other_names() {
    let schema = schema::project();
    for name in ["max_reruns", "maxReruns", "resourceLockTimeout", "scale"] {
        assert!(schema["properties"].get(name).is_some(), "{name}");
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["max_reruns"]["default"], 10);
    assert!(schema::agent()["properties"].get("may_call").is_some());
}
