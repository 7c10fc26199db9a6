//! Real signers, run by node.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/signers");

/// What the signers answer to these requests, each a line.
pub(crate) fn ask(requests: &[Value]) -> Vec<Value> {
    let help = "run crates/intake/tests/signers/install, which needs node and npm (Debian: apt-get install nodejs npm)";
    assert!(Path::new(FOLDER).join("node_modules").is_dir(), "the signers are not installed: {help}");
    #[expect(clippy::disallowed_methods, reason = "tests run the real signers")]
    let mut node = Command::new("node")
        .args(["--input-type=module", "-e", include_str!("../signers/sign.mjs")])
        .current_dir(FOLDER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("could not start node: {error}; {help}"));
    let mut input = node.stdin.take().unwrap();
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    // From a thread, since node answers while it still reads.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "node failed; {help}");
    let answers = String::from_utf8(output.stdout).unwrap();
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
