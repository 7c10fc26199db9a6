//! A crate uses only crates of a smaller level, so no stage can call an earlier one.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

const LEVELS: &[(u8, &[&str])] = &[
    (0, &["bell-core"]),
    (1, &["bell-api", "bell-store"]),
    (
        2,
        &[
            "bell-store-sqlite",
            "bell-store-fs",
            "bell-store-redis",
            "bell-store-postgres",
            "bell-store-etcd",
            "bell-coord",
            "bell-intake",
            "bell-client",
            "bell-runner",
            "bell-project",
            "bell-folder",
        ],
    ),
    (3, &["bell-locks", "bell-why"]),
    (4, &["bell-control", "bell-fence-http", "bell-verify"]),
    (5, &["bell-mcp"]),
    (6, &["bell-gateway"]),
    (7, &["bell-daemon"]),
    (8, &["bell-cli"]),
    (9, &["bell-e2e", "bell-sim"]),
    (10, &["bell-bench", "bell-proofs"]),
];

fn levels() -> BTreeMap<&'static str, u8> {
    LEVELS.iter().flat_map(|(level, names)| names.iter().map(move |name| (*name, *level))).collect()
}

#[test]
fn every_crate_has_a_level_and_uses_only_smaller_ones() {
    let levels = levels();
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let Some(level) = levels.get(package.name.as_str()) else {
            wrong.push(format!("{} has no level: add it to LEVELS and to ARCHITECTURE.md", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            if levels.get(dependency.name.as_str()).is_some_and(|used| used >= level) {
                wrong.push(format!("{} (level {level}) uses {}", package.name, dependency.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_core_knows_no_clock_no_io_and_no_runtime() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let core = metadata.packages.iter().find(|package| package.name.as_str() == "bell-core").unwrap();
    let normal = core.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
    let used: Vec<&str> = normal.map(|dependency| dependency.name.as_str()).collect();
    assert_eq!(used, ["serde", "sha2", "subtle"]);
}

#[test]
fn the_architecture_page_shows_every_crate() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md")).unwrap();
    for (_, names) in LEVELS {
        for name in *names {
            let folder = name.trim_start_matches("bell-");
            assert!(page.contains(&format!("`{folder}`")), "ARCHITECTURE.md does not mention {folder}");
        }
    }
}
