//! The one store of a project, whoever asks; and when there is none.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use bell_e2e::Redis;

use crate::fixture::{Fixture, INSIDE, KEY};
use crate::support::{bare_command, eventually, finish, start};

#[test]
fn a_lock_that_the_fleet_holds_elsewhere_is_refused() {
    let server = Redis::start_with(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    for settings in [format!("store = \"{url}/0\""), format!("locks = \"{url}/1\"")] {
        let fixture = Fixture::new();
        fixture.project("fleet", &settings);
        let info = fixture.json("fleet", &["store", "info"]);
        assert!(info["chosen_by"] == "settings" || info["locks"].is_string(), "{info}");
        fixture.run("fleet", &["lock", "acquire", KEY, "--session-file", "mine"]).expect(0);
        assert_eq!(fixture.json("fleet", &["stat"])["locks"][0]["key"], KEY, "{settings}");
        for from in INSIDE {
            fixture.run(from, &["lock", "acquire", KEY, "--session-file", "/dev/shm/none"]).expect(1);
        }
        assert!(!fixture.path("fleet/.bell/bell.db").exists() || settings.starts_with("locks"));
        fixture.run("fleet", &["lock", "release", KEY, "--session-file", "mine"]).expect(0);
    }
}

#[test]
fn settings_that_can_not_be_used_choose_no_store() {
    let fixture = Fixture::new();
    fixture.project("fleet", "stor = \"redis://127.0.0.1:1\"\n");
    let before = fixture.everything();
    for arguments in
        [&["lock", "acquire", KEY][..], &["lock", "list"], &["stat"], &["run", "worker"], &["store", "info"]]
    {
        let ran = fixture.run("fleet", arguments).expect(4);
        assert!(ran.err.contains("config.toml:1:1"), "{arguments:?}: {ran:?}");
    }
    assert_eq!(fixture.everything(), before);
}

#[test]
fn a_relative_path_means_the_same_store_in_every_folder_and_process() {
    for (setting, file) in [
        ("sqlite:.bell/own.db", ".bell/own.db"),
        ("sqlite:data/own.db", "data/own.db"),
        ("file:store", "store"),
    ] {
        let fixture = Fixture::new();
        fixture.project("fleet", &format!("store = \"{setting}\"\n"));
        let daemon = fixture.up("fleet/src/deep", &[]);
        let ran = fixture.json("fleet/agents", &["run", "worker", "--wait"]);
        assert_eq!(ran["fate"]["end"]["end"], "completed", "{setting}: {ran}");
        fixture.run("fleet/agents", &["lock", "acquire", KEY, "--session-file", "mine"]).expect(0);
        fixture.run("fleet", &["lock", "acquire", KEY, "--session-file", "other"]).expect(1);
        fixture.run("fleet", &["stop"]).expect(0);
        daemon.end().expect(0);
        let scheme = setting.split(':').next().unwrap();
        assert_eq!(
            fixture.json("fleet/src", &["store", "info"])["store"],
            format!("{scheme}:{}", fixture.path(&format!("fleet/{file}")).display())
        );
        assert!(fixture.path(&format!("fleet/{file}")).exists());
        for strange in ["/.bell", "/data", "/store"] {
            assert!(!Path::new(strange).join("own.db").exists(), "{strange}");
        }
    }
}

#[test]
fn a_relative_path_in_the_environment_is_below_the_project() {
    let fixture = Fixture::new();
    for from in INSIDE {
        let mut command = fixture.command(from, &["--json", "store", "info"]);
        command.env("BELL_STORE", "sqlite:x.db");
        let info = finish(command).expect(0).json();
        assert_eq!(info["store"], format!("sqlite:{}", fixture.path("fleet/x.db").display()), "{from}");
        assert_eq!(info["chosen_by"], "environment");
    }
    let with_store = |from: &str, arguments: &[&str]| {
        let mut command = fixture.command(from, &[&["--json"], arguments].concat());
        command.env("BELL_STORE", "sqlite:x.db");
        start(command)
    };
    let mut daemon = with_store("fleet/src/deep", &["up"]);
    daemon.line();
    let ran = with_store("fleet/agents", &["run", "worker", "--wait"]).end().json();
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{ran}");
    with_store("fleet", &["stop"]).end().expect(0);
    daemon.end().expect(0);
    assert!(fixture.path("fleet/x.db").exists() && !fixture.path("fleet/src/deep/x.db").exists());
    let given = fixture.json("fleet/agents", &["store", "info", "--store", "sqlite:x.db"]);
    assert_eq!(given["store"], format!("sqlite:{}", fixture.path("fleet/agents/x.db").display()));
    assert_eq!(given["chosen_by"], "flag");
}

#[test]
fn a_named_store_that_is_missing_is_an_error_for_those_who_look() {
    let fixture = Fixture::new();
    let before = fixture.everything();
    for arguments in [&["lock", "list"][..], &["lock", "show", KEY], &["stat"], &["runs"]] {
        for url in ["sqlite:none.db", "file:none"] {
            let ran = fixture.run("fleet", &[arguments, &["--store", url]].concat()).expect(2);
            assert!(ran.err.contains("could not find a store at"), "{arguments:?}: {ran:?}");
        }
    }
    assert_eq!(fixture.everything(), before);
}

#[test]
fn a_store_that_is_created_by_default_is_said_once_on_stderr() {
    let fixture = Fixture::new();
    let ran = fixture.run("fleet/agents", &["--json", "lock", "acquire", "job:a"]).expect(0);
    assert!(
        ran.err.contains("created the store sqlite:") && ran.err.contains("for the project in"),
        "{ran:?}"
    );
    assert_eq!(fixture.run("fleet", &["--json", "lock", "acquire", "job:b"]).expect(0).err, "");
    let ran = fixture.run("parent", &["lock", "acquire", "job:a"]).expect(0);
    assert!(ran.err.contains("the default of this user: there is no project here"), "{ran:?}");
    assert!(fixture.path("state/bell/bell.db").exists());
    assert_eq!(fixture.json("parent", &["store", "info"])["chosen_by"], "user");
}

#[test]
fn a_state_folder_that_can_not_be_used_is_an_error_and_not_a_way_to_another_store() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("outer/.bell")).unwrap();
    fixture.project("outer/inner", "");
    let state = fixture.path("outer/inner/.bell");
    fs::write(&state, "").unwrap();
    fixture.run("outer/inner", &["lock", "acquire", KEY]).expect(3);
    fs::remove_file(&state).unwrap();
    symlink("/dev/null", &state).unwrap();
    fixture.run("outer/inner", &["lock", "acquire", KEY]).expect(3);
    fs::remove_file(&state).unwrap();
    symlink("nowhere", &state).unwrap();
    fixture.run("outer/inner", &["stat"]).expect(3);
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::write(state.join("bell.db"), "no database, but a file of another program").unwrap();
    let ran = fixture.run("outer/inner", &["lock", "acquire", KEY]);
    assert!(ran.code != 0, "{ran:?}");
    assert!(!fixture.path("outer/.bell/bell.db").exists() && !fixture.path("state").exists());
}

#[test]
fn what_can_not_be_read_is_an_error_and_not_a_way_to_another_store() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("fleet/.bell")).unwrap();
    fixture.project("fleet/part", "");
    fs::set_permissions(fixture.path("fleet/part/agents"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(fixture.path("parent"), Permissions::from_mode(0o700)).unwrap();
    for (from, what) in [("fleet/part", "fleet/part/agents"), ("parent", "parent")] {
        for arguments in [&["lock", "acquire", KEY][..], &["lock", "list"], &["stat"]] {
            let ran = finish(fixture.command_of_other(from, arguments)).expect(3);
            let what = fixture.path(what).display().to_string();
            assert!(ran.err.contains(&what) && ran.err.contains("can't be read"), "{arguments:?}: {ran:?}");
        }
    }
    assert!(!fixture.path("state-of-other/bell").exists());
}

#[test]
fn looking_at_a_store_elsewhere_makes_no_state_folder() {
    for setting in ["sqlite:data/own.db", "file:store"] {
        let fixture = Fixture::new();
        fixture.project("fleet", &format!("store = \"{setting}\"\n"));
        fs::create_dir(fixture.path("fleet/data")).unwrap();
        fixture.run("fleet", &["lock", "acquire", KEY]).expect(0);
        fs::remove_dir_all(fixture.path("fleet/.bell")).unwrap();
        for arguments in
            [&["lock", "list"][..], &["lock", "show", KEY], &["stat"], &["runs"], &["store", "info"]]
        {
            fixture.run("fleet", arguments).expect(0);
            assert!(!fixture.path("fleet/.bell").exists(), "{arguments:?}");
        }
        assert_eq!(fixture.json("fleet", &["lock", "list"])["locks"][0]["key"], KEY);
    }
}

#[test]
fn a_state_folder_that_is_masked_by_a_mount_gets_no_store_of_its_own() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("fleet/.bell")).unwrap();
    fs::create_dir(fixture.path("empty")).unwrap();
    for (mount, settings) in [
        ("mount -t tmpfs -o mode=700 none fleet/.bell", ""),
        ("mount --bind empty fleet/.bell", ""),
        ("mount --bind empty fleet/.bell", "store = \"sqlite:.bell/own.db\"\n"),
    ] {
        fs::write(fixture.path("fleet/config.toml"), settings).unwrap();
        masked(&fixture, mount);
    }
}

fn masked(fixture: &Fixture, mount: &str) {
    let script = format!("{mount} && \"$0\" --project fleet lock acquire job:x");
    #[expect(clippy::disallowed_methods, reason = "a mount namespace of its own")]
    let mut masked = Command::new("unshare");
    masked.args(["--mount", "sh", "-c", &script]).arg(bare_command().get_program());
    masked.current_dir(fixture.path(".")).env("HOME", fixture.path("home")).env_remove("BELL_STORE");
    let ran = finish(masked);
    assert!(ran.code == 3 && ran.err.contains("is masked here"), "{ran:?}");
}

#[test]
fn while_a_daemon_runs_on_another_store_the_default_one_is_not_created() {
    let fixture = Fixture::new();
    let daemon = fixture.up("fleet", &["--store", &fixture.place.url]);
    let ran = fixture.run("fleet", &["lock", "acquire", KEY]).expect(5);
    assert!(ran.err.contains("a daemon runs the project") && ran.err.contains("--store"), "{ran:?}");
    assert!(!fixture.path("fleet/.bell/bell.db").exists());
    fixture.run("fleet", &["lock", "acquire", KEY, "--store", &fixture.place.url]).expect(0);
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

/// Moves a store away with all that is beside it, as a disk that is not mounted does.
fn unmount(fixture: &Fixture) {
    fs::rename(fixture.path("fleet/disk"), fixture.path("elsewhere")).unwrap();
    fs::create_dir(fixture.path("fleet/disk")).unwrap();
}

fn mount(fixture: &Fixture) {
    fs::remove_dir(fixture.path("fleet/disk")).unwrap();
    fs::rename(fixture.path("elsewhere"), fixture.path("fleet/disk")).unwrap();
}

#[test]
fn a_store_that_was_used_and_is_gone_is_refused_and_not_created_again() {
    for url in ["sqlite:disk/bell.db", "file:disk/store"] {
        for is_locks_alone in [false, true] {
            let fixture = Fixture::new();
            let setting = if is_locks_alone { "locks" } else { "store" };
            fixture.project("fleet", &format!("user = \"root\"\n{setting} = \"{url}\"\n"));
            fs::create_dir(fixture.path("fleet/disk")).unwrap();
            fixture.run("fleet", &["lock", "acquire", KEY]).expect(0);
            unmount(&fixture);
            for arguments in [
                &["lock", "acquire", KEY][..],
                &["lock", "run", KEY, "--", "true"],
                &["lock", "show", KEY],
                &["lock", "list"],
                &["up"],
            ] {
                let ran = fixture.run("fleet/agents", arguments).expect(5);
                assert!(ran.err.contains("it is not there any more"), "{arguments:?}: {ran:?}");
                assert!(ran.err.contains("disk is mounted") && ran.err.contains("raise-epoch"), "{ran:?}");
            }
            if !is_locks_alone {
                let doctor = fixture.run("fleet", &["doctor"]).expect(1);
                assert!(doctor.out.contains("it is not there any more"), "{doctor:?}");
            }
            let created = fs::read_dir(fixture.path("fleet/disk")).unwrap().count();
            assert_eq!(created, 0);
            mount(&fixture);
            fixture.run("fleet", &["lock", "acquire", KEY]).expect(1);
        }
    }
}

#[test]
fn a_store_of_locks_that_only_a_daemon_has_used_is_not_created_again() {
    let fixture = Fixture::new();
    fixture.project("fleet", "user = \"root\"\nlocks = \"sqlite:disk/locks.db\"\n");
    fs::create_dir(fixture.path("fleet/disk")).unwrap();
    let daemon = fixture.up("fleet", &[]);
    assert!(fixture.path("fleet/disk/locks.db").exists());
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
    unmount(&fixture);
    for arguments in [&["lock", "acquire", KEY][..], &["up"]] {
        let ran = fixture.run("fleet", arguments).expect(5);
        assert!(ran.err.contains("it is not there any more"), "{arguments:?}: {ran:?}");
    }
    assert_eq!(fs::read_dir(fixture.path("fleet/disk")).unwrap().count(), 0);
    let url = format!("sqlite:{}", fixture.path("fleet/disk/locks.db").display());
    fixture.run("fleet", &["store", "raise-epoch", "--yes", "--store", &url]).expect(0);
    fixture.run("fleet", &["lock", "acquire", KEY]).expect(0);
}

#[test]
fn an_older_copy_of_a_store_of_locks_is_refused_and_one_that_is_replaced_is_seen() {
    let fixture = Fixture::new();
    fixture.project("fleet", "user = \"root\"\nlocks = \"sqlite:locks.db\"\n");
    let (store, copy) = (fixture.path("fleet/locks.db"), fixture.path("fleet/copy.db"));
    let daemon = fixture.up("fleet", &[]);
    let fence = || {
        let granted = fixture.json("fleet", &["lock", "acquire", KEY]);
        fixture.run("fleet", &["lock", "release", KEY]).expect(0);
        granted["fence"].as_u64().unwrap()
    };
    let first = fence();
    vacuum_into(&store, &copy);
    assert!(fence() > first);
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
    let bring_back = || {
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{ending}", store.display()));
        }
        fs::copy(&copy, &store).unwrap();
    };
    bring_back();
    for arguments in [&["lock", "acquire", KEY][..], &["up"]] {
        let ran = fixture.run("fleet", arguments).expect(5);
        assert!(ran.err.contains("went back in time"), "{arguments:?}: {ran:?}");
        let remedy = format!("bell store raise-epoch --yes --store sqlite:{}", store.display());
        assert!(ran.err.contains(&remedy), "{arguments:?}: {ran:?}");
    }
    let url = format!("sqlite:{}", store.display());
    fixture.run("fleet", &["store", "raise-epoch", "--yes", "--store", &url]).expect(0);
    let daemon = fixture.up("fleet", &[]);
    assert!(fence() > first);
    bring_back();
    eventually("the daemon is not ready", || {
        let ready = ready(&fixture.path("fleet/.bell/bell.sock"));
        let locks =
            ready["checks"].as_array().unwrap().iter().find(|check| check["check"] == "locks").cloned();
        locks.is_some_and(|locks| {
            locks["ok"] == false && locks["reason"].as_str().unwrap().contains("replaced")
        })
    });
    // Looked for every 2 s; until then nothing can be said of locks.
    eventually("attention says so", || {
        let attention = fixture.json("fleet", &["stat"])["attention"][0].clone();
        attention["kind"] == "store_replaced" && attention["subject"] == url
    });
    let checkup = fixture.run("fleet", &["doctor"]).expect(1);
    assert!(checkup.out.contains(&format!("the daemon does not use the store {url}")), "{checkup:?}");
    fixture.run("fleet", &["stop"]);
    daemon.end();
}

/// What `/readyz` answers on a daemon's socket.
fn ready(socket: &Path) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A copy of a SQLite file while others use it.
fn vacuum_into(store: &Path, copy: &Path) {
    let store = rusqlite::Connection::open(store).unwrap();
    store.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
}

#[test]
fn a_daemon_that_finds_its_store_gone_creates_none_and_its_log_is_used_when_it_is_back() {
    let fixture = Fixture::new();
    fixture.project("fleet", "user = \"root\"\n");
    // Killed at once, and its file is moved without the log beside it.
    fixture.up("fleet", &[]).kill();
    fixture.run("fleet", &["lock", "acquire", KEY]).expect(0);
    let (file, away) = (fixture.path("fleet/.bell/bell.db"), fixture.path("away.db"));
    fs::rename(&file, &away).unwrap();
    let refused = fixture.run("fleet", &["up"]).expect(5);
    assert!(refused.err.contains("it is not there any more"), "{refused:?}");
    assert!(!file.exists());
    fs::rename(&away, &file).unwrap();
    fixture.run("fleet", &["lock", "acquire", KEY]).expect(1);
}

#[test]
fn a_new_store_is_begun_in_the_place_of_one_that_is_gone_when_its_epoch_is_raised() {
    let fixture = Fixture::new();
    let fence = || fixture.json("fleet", &["lock", "acquire", KEY])["fence"].as_u64().unwrap();
    let before = fence();
    for file in ["bell.db", "bell.db-wal", "bell.db-shm"] {
        let _ = fs::remove_file(fixture.path(&format!("fleet/.bell/{file}")));
    }
    fixture.run("fleet", &["lock", "acquire", KEY]).expect(5);
    fixture.run("fleet", &["store", "raise-epoch", "--yes"]).expect(0);
    assert!(fence() > before);
}
