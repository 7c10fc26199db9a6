//! What the check-up says about the gateway of a project.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::served::Served;
use crate::support::{Place, finish};

/// What is found about something, as `level` and what to do next.
fn found(place: &Place, about: &str) -> Vec<(String, Value)> {
    let checkup = finish(place.command(&["--json", "doctor"])).json();
    let findings = checkup["findings"].as_array().unwrap().iter();
    let found = findings.filter(|finding| finding["about"] == about);
    found.map(|finding| (finding["level"].as_str().unwrap().to_owned(), finding["next"].clone())).collect()
}

fn levels(place: &Place, about: &str) -> Vec<String> {
    found(place, about).into_iter().map(|(level, _)| level).collect()
}

#[test]
fn a_daemon_in_order_is_and_one_of_another_version_is_told() {
    let served = Served::new();
    for about in ["exposure", "key", "daemon"] {
        assert_eq!(levels(&served.place, about), ["ok"], "{about}");
    }
    assert!(levels(&served.place, "port").is_empty());
    let announced = served.place.path(".bell/gateway.json");
    let text = fs::read_to_string(&announced).unwrap();
    fs::write(&announced, text.replace(env!("CARGO_PKG_VERSION"), "0.0.7")).unwrap();
    let told = found(&served.place, "daemon");
    assert_eq!(told[0].0, "warning");
    assert!(told[0].1.as_str().unwrap().contains("Restart it"), "{told:?}");
    fs::set_permissions(served.place.path(".bell/api-key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(levels(&served.place, "key"), ["unsafe"]);
}

#[test]
fn a_port_that_others_have_or_reach_is_told_before_the_daemon_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", taken.local_addr().unwrap().port()));
    assert_eq!(levels(&place, "port"), ["broken"]);
    place.write("config.toml", "[gateway]\nport = 0\nbind = \"0.0.0.0\"\n");
    assert_eq!(levels(&place, "exposure"), ["broken"]);
    place
        .write("config.toml", "[gateway]\nport = 0\nbind = \"0.0.0.0\"\nexpose = true\nmetrics = \"open\"\n");
    assert_eq!(levels(&place, "exposure"), ["warning", "warning"]);
}
