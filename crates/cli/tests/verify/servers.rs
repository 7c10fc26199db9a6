//! `bell verify` on real servers: sound, unsafe, refused, and gone in the middle.

use crate::report::{finding, is_left_as_it_was, proves_everything, verdicts};
use crate::support::{Place, eventually};
use bell_e2e::{Etcd, Postgres, Redis};

const PASSWORD: &str = "hunter2";
/// With these, Redis keeps what it acknowledged over a power cut.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn at(url: String) -> Place {
    Place { url, ..Place::sqlite() }
}

#[test]
fn redis_passes_everything_and_is_left_as_it_was() {
    let server = Redis::start_with(&[&DURABLE[..], &["--requirepass", PASSWORD]].concat());
    let place = at(format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port()));
    is_left_as_it_was(&place, || {
        let report = proves_everything(&place);
        assert!(!report.to_string().contains(PASSWORD), "{report:#}");
    });
}

#[test]
fn postgres_passes_everything_and_is_left_as_it_was() {
    let server = Postgres::start();
    let place = at(server.url("bell"));
    is_left_as_it_was(&place, || {
        let report = proves_everything(&place);
        assert!(!report.to_string().contains(Postgres::PASSWORD), "{report:#}");
    });
}

#[test]
fn etcd_passes_everything_and_is_left_as_it_was() {
    if !bell_locks::open::is_built_in("etcd") {
        at("etcd://127.0.0.1/bell".to_owned()).run(&["verify"]).expect(4);
        return;
    }
    let server = Etcd::start();
    let place = at(server.url("bell"));
    is_left_as_it_was(&place, || drop(proves_everything(&place)));
}

#[test]
fn a_wrong_password_is_unauthorized_and_not_shown() {
    let server = Redis::start_with(&["--requirepass", PASSWORD]);
    let place = at(format!("redis://:wrong-{PASSWORD}@127.0.0.1:{}", server.port()));
    for arguments in [&["verify"][..], &["--json", "verify"], &["verify", "--peer"]] {
        let ran = place.run(arguments).expect(3);
        assert!(!format!("{ran:?}").contains(PASSWORD), "{ran:?}");
    }
}

#[test]
fn a_server_whose_fail_over_can_lose_commits_is_unsafe() {
    let primary = Redis::start_with(&DURABLE);
    let port = primary.port().to_string();
    let _replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    let place = at(primary.url("bell"));
    eventually("the replica is seen", || place.json(&["store", "info"])["info"]["fail_over"] == "loses");
    let ran = place.run(&["verify", "--only", "durability"]).expect(1);
    assert!(ran.out.starts_with("UNSAFE"), "{ran:?}");
    assert!(ran.out.contains("a fail-over may forget who held what"), "{ran:?}");
}

#[test]
fn a_server_that_dies_in_the_middle_is_unavailable_and_nothing_hangs() {
    let mut server = Redis::start();
    let place = at(server.url("bell"));
    let mut command = place.command(&["--json", "verify"]);
    command.env("TMPDIR", place.folder.path());
    let running = crate::support::start(command);
    eventually("it is at work", || server.run(&["DBSIZE"]) != "0");
    // The race is on, and leases are waited for.
    std::thread::sleep(std::time::Duration::from_secs(2));
    server.kill();
    let ran = running.end().expect(5);
    let report = ran.json();
    assert_eq!(report["verdict"], "unavailable", "{report:#}");
    assert!(!verdicts(&report).contains(&"failed"), "{report:#}");
    assert_eq!(finding(&report, "no-lost-release")["verdict"], "unavailable");
    let left = report["cleaning"]["left"].as_str().unwrap();
    assert!(left.contains("@verify-") && left.contains("next bell verify"), "{left}");
}
