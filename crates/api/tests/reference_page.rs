//! The reference page is the table itself.

use std::path::Path;

#[test]
fn the_page_of_outcomes_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/outcomes.md");
    let page = format!(
        "# Outcomes\n\nEvery act ends in one of these. Words, exit codes and statuses are stable; programs may match on \
         them.\n\n{}\n## Exit codes\n\n{}\n`bell lock run` passes on the exit code of its command. If it can't have the lock in \
         time (busy or timed out), it exits with 1, or with `--conflict-exit-code`. Its other refusals use the codes \
         above.\n",
        bell_api::outcome::markdown(),
        bell_api::exit::markdown()
    );
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/outcomes.md is out of date: run BELL_WRITE_DOCS=1 cargo test -p bell-api"
    );
}
