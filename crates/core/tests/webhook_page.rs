//! The reference page of filters is the filters themselves.

use std::path::Path;

use bell_core::webhook::field;

#[test]
fn the_page_of_filters_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/webhook-filters.md");
    let page = format!("{INTRODUCTION}\n{}", field::markdown());
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/webhook-filters.md is out of date: run BELL_WRITE_DOCS=1 cargo test -p bell-core"
    );
}

const INTRODUCTION: &str = "# Filters of webhooks

Made from the code. An agent lists under `webhooks` which deliveries start it, each entry with a `source` (a `[webhooks.<source>]` of the project) and any of the filters below:

```yaml
webhooks:
  - {source: my-github, events: issues, actions: [opened, labeled], repos: 'acme/*', senders: '!*[bot]'}
```

- One entry that matches is enough. Within an entry all filters must match; of the values of one filter, one is enough.
- `*` stands for any text. A value with `!` in front excludes, before anything else is looked at; a filter of such values only lets everything else through.
- Upper and lower case are the same, but where the table says otherwise.
- A filter on something that the delivery does not have does not match. `bell webhook test` says so, filter by filter.
";
