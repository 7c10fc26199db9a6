//! The reference page of the HTTP API is made from the code.

use std::path::Path;

use bell_gateway::server::openapi::page::markdown;

#[test]
fn the_page_of_the_http_api_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http-api.md");
    let page = markdown();
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/http-api.md is out of date: run BELL_WRITE_DOCS=1 cargo test -p bell-gateway --test http_api_page"
    );
}
