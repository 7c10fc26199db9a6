//! `cargo run --bin bell` needs Rust and a C compiler, and nothing else.

use cargo_metadata::MetadataCommand;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");

/// Packages of a plain build share their features: one that has bell-locks with etcd would give it to bell.
#[test]
fn a_plain_build_is_the_command_alone_and_without_etcd() {
    let metadata =
        MetadataCommand::new().manifest_path(ROOT).no_deps().exec().expect("the packages of the workspace");
    let plain = metadata.workspace_default_packages();
    let names: Vec<&str> = plain.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["bell-cli"], "default-members in Cargo.toml");
    let etcd: Vec<_> = ["bell-cli", "bell-locks"]
        .iter()
        .filter_map(|name| metadata.packages.iter().find(|package| package.name.as_str() == *name))
        .filter_map(|package| package.features.get("default"))
        .flatten()
        .filter(|feature| feature.contains("etcd"))
        .collect();
    assert!(etcd.is_empty(), "etcd needs protoc: {etcd:?}");
}
