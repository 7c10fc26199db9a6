//! The commands on the page about guarded writes do what the page says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{Place, Ran, finish};

const PAGE: &str = include_str!("../../../docs/how-to/guarded-writes.md");

/// The commands of the console block in a section.
fn commands(section: &str) -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
    let (_, block) = section.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Runs a command as a shell would, with `bell` being the one under test.
fn shell(place: &Place, folder: &Path, command: &str) -> Ran {
    let bell = Path::new(env!("CARGO_BIN_EXE_bell")).parent().unwrap().display().to_string();
    #[expect(clippy::disallowed_methods, reason = "the page shows commands for a shell")]
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).current_dir(folder).env("BELL_STORE", &place.url);
    sh.env("PATH", format!("{bell}:{}", std::env::var("PATH").unwrap()));
    sh.env("HOME", place.path("home")).env("XDG_STATE_HOME", place.path("state"));
    sh.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["BELL_SESSION", "BELL_LOCK_FENCE", "BELL_LOG"] {
        sh.env_remove(name);
    }
    finish(sh)
}

#[test]
fn the_commands_about_http_do_what_the_page_says() {
    let place = Place::sqlite();
    let commands = commands("HTTP");
    let [serve, newer, stale, read] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(*serve, "bell fence serve --listen 127.0.0.1:7777 &");
    let mut server = place.start(&["fence", "serve", "--listen", "127.0.0.1:0"]);
    let address = server.line().rsplit_once('/').unwrap().1.to_owned();
    let run =
        |command: &str| shell(&place, place.folder.path(), &command.replace("127.0.0.1:7777", &address));
    assert!(run(newer).expect(0).out.contains(r#""outcome":"written""#));
    assert!(run(stale).expect(0).out.contains(r#""outcome":"stale""#));
    assert_eq!(run(read).expect(0).out, "new");
}

#[test]
fn the_commands_about_git_do_what_the_page_says() {
    let place = Place::sqlite();
    let here = place.folder.path();
    let set_up = "git init -q --bare -b main remote.git && git clone -q remote.git clone && cd clone && \
                  git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m one";
    shell(&place, here, set_up).expect(0);
    let commands = commands("Git");
    let [push, show] = commands.as_slice() else { panic!("{commands:?}") };
    let pushed = shell(&place, &place.path("clone"), push).expect(0);
    assert!(pushed.out.starts_with("pushed main with fence "), "{pushed:?}");
    let shown = shell(&place, &place.path("clone"), show).expect(0);
    assert!(shown.out.starts_with("git://acme/site has seen fence "), "{shown:?}");
}
