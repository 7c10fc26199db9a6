//! The commands on the page about locks over HTTP do what the page says, and `bell lock` does the same through a gateway.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::outsider::Outsider;
use crate::served::Served;
use crate::support::finish;

const PAGE: &str = include_str!("../../../../docs/how-to/locks-over-http.md");

/// The commands of the console block in a section, and what they print.
fn block(section: &str) -> (String, String) {
    let (_, rest) = PAGE.split_once(&format!("\n## {section}\n")).unwrap();
    let (_, block) = rest.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let (commands, printed): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("$ "));
    let commands: Vec<&str> = commands.iter().map(|line| &line[2..]).collect();
    (commands.join("\n"), printed.join("\n"))
}

#[test]
fn the_commands_on_the_page_print_what_the_page_says() {
    let served = Served::new();
    for section in ["A session, a lock, a fence", "Look, follow, take away"] {
        let (commands, printed) = block(section);
        #[expect(clippy::disallowed_methods, reason = "the page shows commands for a shell")]
        let mut shell = Command::new("sh");
        shell.args(["-c", &commands.replace("127.0.0.1:8080", &served.address)]);
        let ran = finish({
            shell.current_dir(served.place.path(""));
            shell
        });
        assert_eq!(ran.out.trim_end(), printed, "{}", ran.err);
    }
}

/// `bell --json` through the gateway.
fn remote(served: &Served, arguments: &[&str]) -> Value {
    run(served, arguments).json()
}

fn run(served: &Served, arguments: &[&str]) -> crate::support::Ran {
    let url = format!("http://{}", served.address);
    let key = served.place.path(".bell/api-key").display().to_string();
    served.place.run(&[&["--json", "--url", &url, "--key-file", &key][..], arguments].concat())
}

#[test]
fn lock_commands_do_the_same_through_a_gateway() {
    let served = Served::new();
    let granted = remote(&served, &["lock", "acquire", "job:a", "--label", "ann"]);
    assert_eq!((&granted["outcome"], &granted["holder"]["label"]), (&json!("granted"), &json!("ann")));
    assert!(granted["token"].is_string(), "{granted}");
    assert_eq!(remote(&served, &["lock", "show", "job:a"])["fence"], granted["fence"]);
    assert_eq!(served.place.show("job:a")["fence"], granted["fence"], "it is the same lock");
    assert_eq!(run(&served, &["lock", "acquire", "job:a"]).expect(1).json()["outcome"], "busy");
    assert_eq!(remote(&served, &["lock", "renew", "job:a", "--ttl", "5m"])["ttl_ms"], 300_000);
    assert_eq!(remote(&served, &["lock", "release", "job:a"])["outcome"], "released");
    run(&served, &["lock", "release", "job:a"]).expect(2);

    let file = served.place.path("session").display().to_string();
    remote(&served, &["lock", "acquire", "job:b", "--session-file", &file]);
    remote(&served, &["lock", "acquire", "job:c", "--session-file", &file]);
    let shown = |key: &str| remote(&served, &["lock", "show", key])["holder"]["session"].clone();
    assert_eq!(shown("job:b"), shown("job:c"));
    let listed = remote(&served, &["lock", "list", "job:"]);
    assert_eq!(listed["locks"].as_array().map(Vec::len), Some(2), "{listed}");
    let broken = remote(&served, &["lock", "break", "job:b", "--reason", "it hangs", "--yes"]);
    assert_eq!(broken["outcome"], "broken");
    run(&served, &["lock", "renew", "job:b", "--session-file", &file]).expect(7);
    remote(&served, &["lock", "acquire", "job:e"]);
    remote(&served, &["lock", "break", "job:e", "--reason", "it hangs", "--yes"]);
    run(&served, &["lock", "renew", "job:e"]).expect(7);

    let bell = Path::new(env!("CARGO_BIN_EXE_bell")).display().to_string();
    let under = run(&served, &["lock", "run", "job:d", "--", "sh", "-c", &format!("{bell} lock show job:d")]);
    assert!(under.out.contains("held by sh"), "{under:?}");
    assert!(served.place.is_free("job:d"));
}

#[test]
fn a_command_that_waits_through_a_gateway_goes_on_when_its_daemon_starts_again() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = crate::support::Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", &format!("[gateway]\nport = {}\n", free.port()));
    let mut served = Served::of(place);
    let holder = Outsider::with(&served, &json!({ "label": "holder", "detached": true }));
    holder.try_lock("job:a", "1").expect(200);
    let token = holder.token.clone();
    let url = format!("http://{}", served.address);
    let key = served.place.path(".bell/api-key").display().to_string();
    let arguments = ["--json", "--url", &url, "--key-file", &key, "lock", "acquire", "job:a", "--wait", "5m"];
    let waits = served.place.start(&arguments);
    served.place.until_waiting("job:a", 1);
    served.kill();
    served.start();
    served.post_as(&token, "/v1/locks/release", &json!({ "key": "job:a" })).expect(200);
    assert_eq!(waits.end().expect(0).json()["outcome"], "granted");
}
