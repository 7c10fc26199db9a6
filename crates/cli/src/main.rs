//! The `bell` command.
fn main() {}
