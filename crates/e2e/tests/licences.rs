//! Everything we ship may be shipped: each dependency has a licence that `deny.toml` allows too.

use cargo_metadata::{MetadataCommand, Package};

const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether one of the choices that a licence expression offers is made of allowed licences only.
fn is_allowed(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
    flat.split(" OR ").any(|choice| choice.split(" AND ").all(|term| ALLOWED.contains(&term.trim())))
}

fn licence(package: &Package) -> String {
    format!("{} {}: {}", package.name, package.version, package.license.as_deref().unwrap_or("none"))
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let metadata = MetadataCommand::new().exec().expect("the packages of the workspace");
    assert!(metadata.packages.len() > 50, "looked in the wrong place");
    let foreign =
        metadata.packages.iter().filter(|package| !package.license.as_deref().is_some_and(is_allowed));
    let foreign: Vec<String> = foreign.map(licence).collect();
    assert!(foreign.is_empty(), "not allowed: {foreign:#?}");
}

#[test]
fn deny_toml_allows_the_same() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deny.toml");
    let text = std::fs::read_to_string(path).expect("deny.toml");
    for licence in ALLOWED {
        assert!(text.contains(&format!("\"{licence}\"")), "deny.toml does not allow {licence}");
    }
}

#[test]
fn a_choice_is_allowed_if_all_of_its_terms_are() {
    assert!(is_allowed("MIT OR GPL-3.0"));
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("GPL-3.0"));
}
