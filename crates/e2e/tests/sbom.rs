//! `tools/sbom` says what `bell` is made of: everything that is in it, held to its checksum and with its licence.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "it runs the program that people run")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bill() -> Value {
    let told = Command::new("python3").arg(root().join("tools/sbom")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).unwrap()
}

fn names(of: &Value) -> BTreeSet<&str> {
    of.as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect()
}

#[test]
fn every_part_has_a_licence_and_what_is_not_ours_the_checksum_that_it_is_held_to() {
    let bill = bill();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let parts = bill["components"].as_array().unwrap();
    assert!(parts.len() > 100, "{} parts", parts.len());
    for part in parts {
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
        let is_ours = part["name"].as_str().unwrap().starts_with("bell-");
        match part["hashes"][0]["content"].as_str() {
            Some(checksum) => assert!(lock.contains(&format!("checksum = \"{checksum}\"")), "{part}"),
            None => assert!(is_ours, "{part}"),
        }
    }
}

#[test]
fn it_names_what_is_linked_in_and_not_what_only_tests_need() {
    let bill = bill();
    let parts = names(&bill["components"]);
    for part in ["bell-coord", "tokio", "rusqlite", "libsqlite3-sys", "cc"] {
        assert!(parts.contains(part), "{part} is missing");
    }
    for part in ["proptest", "bell-proofs", "bell-sim"] {
        assert!(!parts.contains(part), "{part} is no part of bell");
    }
    let of_others = bill["dependencies"].as_array().unwrap();
    let known: BTreeSet<&str> = of_others.iter().map(|part| part["ref"].as_str().unwrap()).collect();
    let needed = of_others.iter().flat_map(|part| part["dependsOn"].as_array().unwrap());
    for part in needed {
        assert!(known.contains(part.as_str().unwrap()), "{part} is needed and not told of");
    }
}
