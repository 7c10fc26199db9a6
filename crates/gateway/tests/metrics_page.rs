//! The reference page of metrics is the table itself.

use std::path::Path;

#[test]
fn the_page_of_metrics_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = format!(
        "# Metrics\n\n`GET /metrics` on the port of `bell up`, as OpenMetrics text, for any API key; `gateway.metrics = \"open\"` lets \
         whoever reaches the port read it. Counters begin at 0 with the daemon. Numbers of the fleet are the same on every node: take \
         their `max`. Numbers of a node are its own: take their `sum`. [Where they come from, and what asking costs](../design/0009-metrics.md).\n\n{}\n\
         Agents and sources that the project does not have are called `other`. Alert rules that use these are in \
         [deploy/prometheus](../../deploy/prometheus/rules.yml), a dashboard in [deploy/grafana](../../deploy/grafana/bellwether.json), and \
         what to do about each alert in the [runbook](../runbook/README.md).\n\n\
         `GET /healthz` says that the process answers. `GET /readyz` answers 200 if the store, and that of `locks` if it is another one, takes commits, this node's leases are \
         renewed on time and the disk has room, else 503, with each check and its reason. Neither needs a key.\n",
        bell_gateway::metrics::names::markdown()
    );
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/metrics.md is out of date: run BELL_WRITE_DOCS=1 cargo test -p bell-gateway --test metrics_page"
    );
}
