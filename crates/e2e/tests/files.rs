//! What every file of the project must keep to, where no other tool looks.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with(".git") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_source_file_is_longer_than_five_hundred_lines() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    assert!(files.len() > 50, "looked in the wrong place");
    let lines = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count();
    let long: Vec<_> =
        files.iter().map(|path| (lines(path), path)).filter(|(lines, _)| *lines > 500).collect();
    assert!(long.is_empty(), "split these: {long:?}");
}

#[test]
fn every_source_file_opens_with_what_it_is_for() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let silent: Vec<_> =
        files.iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "say what these are for: {silent:?}");
}
