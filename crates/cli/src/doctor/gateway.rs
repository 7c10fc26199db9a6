//! How far the gateway of a project is open, and whether it can be: looked at by `seen`, judged by `judge`.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;

use bell_control::place::Place;
use bell_project::settings::{Gateway, MetricsAccess};
use bell_verify::doctor::{Finding, Level};
use serde::Deserialize;

use super::judge::{finding, with_next};

/// What was seen.
pub(super) struct Seen {
    /// The mode of the file with the owner's key, if it is there.
    key_mode: Option<u32>,
    /// Which version the daemon is that answers here; `None`: no daemon.
    daemon: Option<String>,
    /// Somebody else has the port.
    is_taken: bool,
}

/// As a daemon writes down where it answers.
#[derive(Deserialize)]
struct Announced {
    #[serde(default)]
    version: String,
}

/// Looks, without asking anybody over a network.
pub(super) fn look(settings: &Gateway, place: &Place) -> Seen {
    let announced = || serde_json::from_slice::<Announced>(&fs::read(place.gateway()).ok()?).ok();
    let daemon = place.occupant().and_then(|_| announced()).map(|announced| announced.version);
    let key_mode = fs::symlink_metadata(place.api_key()).ok().map(|about| about.mode() & 0o777);
    let is_taken = daemon.is_none() && settings.port != 0 && is_taken(settings);
    Seen { key_mode, daemon, is_taken }
}

fn is_taken(settings: &Gateway) -> bool {
    let bound = TcpListener::bind(SocketAddr::new(settings.bind, settings.port));
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// Everything that is to be said about the gateway.
pub(super) fn judge(settings: &Gateway, seen: &Seen) -> Vec<Finding> {
    [exposure(settings), numbers(settings), key(seen), port(settings, seen), version(seen)]
        .into_iter()
        .flatten()
        .collect()
}

fn exposure(settings: &Gateway) -> Option<Finding> {
    let bind = settings.bind;
    Some(if bind.is_loopback() {
        finding(Level::Ok, "exposure", format!("only this machine reaches the gateway ({bind})"))
    } else if settings.expose {
        with_next(
            finding(
                Level::Warning,
                "exposure",
                format!("other machines reach the gateway at {bind}, in clear text"),
            ),
            "Put a proxy with TLS before it, or set gateway.bind to 127.0.0.1; bell keys list shows who may act.",
        )
    } else {
        with_next(
            finding(Level::Broken, "exposure", format!("bell up refuses {bind}: gateway.expose is not true")),
            "Set gateway.expose = true if other machines are to reach it; else leave gateway.bind out.",
        )
    })
}

fn numbers(settings: &Gateway) -> Option<Finding> {
    let is_open = settings.metrics == MetricsAccess::Open && !settings.bind.is_loopback();
    is_open.then(|| {
        with_next(
            finding(
                Level::Warning,
                "exposure",
                "other machines can read /metrics, and the names of agents, without a key",
            ),
            "Leave gateway.metrics out, and give Prometheus a key: bell keys add prometheus --role read.",
        )
    })
}

fn key(seen: &Seen) -> Option<Finding> {
    let mode = seen.key_mode?;
    Some(if mode & 0o077 == 0 {
        finding(Level::Ok, "key", "nobody but its owner can read .bell/api-key")
    } else {
        with_next(
            finding(
                Level::Unsafe,
                "key",
                format!("others can read .bell/api-key (mode {mode:03o}), and act with it"),
            ),
            "chmod 600 .bell/api-key, then bell keys revoke local: the next bell up makes another.",
        )
    })
}

fn port(settings: &Gateway, seen: &Seen) -> Option<Finding> {
    let port = settings.port;
    if !seen.is_taken {
        return None;
    }
    let what = format!("another program has port {port}");
    let next = "Set gateway.port to a free one, or end the other program.";
    Some(if port == Gateway::PORT {
        with_next(
            finding(Level::Warning, "port", format!("{what}: bell up takes another, and says which")),
            next,
        )
    } else {
        with_next(finding(Level::Broken, "port", format!("{what}: bell up does not start")), next)
    })
}

fn version(seen: &Seen) -> Option<Finding> {
    let (daemon, this) = (seen.daemon.as_deref()?, env!("CARGO_PKG_VERSION"));
    Some(if daemon == this {
        finding(Level::Ok, "daemon", format!("the daemon is bell {daemon}, as this is"))
    } else {
        let other = if daemon.is_empty() { "of an older version" } else { daemon };
        with_next(
            finding(Level::Warning, "daemon", format!("the daemon is {other}, and this is bell {this}")),
            "Restart it (bell stop, bell up, or systemctl restart bell): runs go on, and are adopted.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen { key_mode: Some(0o600), daemon: Some(env!("CARGO_PKG_VERSION").to_owned()), is_taken: false }
    }

    fn worst(settings: &Gateway, seen: &Seen) -> Level {
        let findings = judge(settings, seen);
        for finding in findings.iter().filter(|finding| finding.level > Level::Note) {
            assert!(finding.next.is_some(), "{finding:?}");
        }
        findings.iter().map(|finding| finding.level).max().unwrap()
    }

    #[test]
    fn what_only_this_machine_reaches_is_in_order() {
        assert_eq!(worst(&Gateway::default(), &seen()), Level::Ok);
    }

    #[test]
    fn what_other_machines_reach_is_told() {
        let wide = Gateway { bind: "0.0.0.0".parse().unwrap(), ..Gateway::default() };
        assert_eq!(worst(&wide, &seen()), Level::Broken);
        let meant = Gateway { expose: true, ..wide };
        assert_eq!(worst(&meant, &seen()), Level::Warning);
        let open = Gateway { metrics: MetricsAccess::Open, ..meant };
        assert_eq!(judge(&open, &seen()).iter().filter(|finding| finding.about == "exposure").count(), 2);
    }

    #[test]
    fn a_key_that_others_can_read_is_unsafe() {
        assert_eq!(worst(&Gateway::default(), &Seen { key_mode: Some(0o640), ..seen() }), Level::Unsafe);
    }

    #[test]
    fn a_port_that_is_taken_matters_more_if_somebody_chose_it() {
        let taken = Seen { is_taken: true, daemon: None, ..seen() };
        assert_eq!(worst(&Gateway::default(), &taken), Level::Warning);
        assert_eq!(worst(&Gateway { port: 9_000, ..Gateway::default() }, &taken), Level::Broken);
    }

    #[test]
    fn a_daemon_of_another_version_is_told() {
        for version in ["0.0.1", ""] {
            let other = Seen { daemon: Some(version.to_owned()), ..seen() };
            assert_eq!(worst(&Gateway::default(), &other), Level::Warning);
        }
    }
}
