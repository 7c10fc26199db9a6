//! Which projects are refused, and what may list them as safe; and what git sees of a project.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::fixture::{Fixture, KEY, STRANGER};
use crate::support::{bare_command, finish};

#[test]
fn a_planted_state_folder_above_captures_nothing() {
    let fixture = Fixture::new();
    for (owner, mode) in [(STRANGER, 0o755), (0, 0o777)] {
        let shared = fixture.path(&format!("shared-{mode:o}"));
        fs::create_dir_all(shared.join("job")).unwrap();
        fs::create_dir(shared.join(".bell")).unwrap();
        fs::set_permissions(shared.join(".bell"), Permissions::from_mode(mode)).unwrap();
        chown(shared.join(".bell"), Some(owner), Some(owner)).unwrap();
        let before = fixture.everything();
        let from = format!("shared-{mode:o}/job");
        for arguments in [&["lock", "acquire", KEY][..], &["lock", "list"], &["stat"], &["doctor"]] {
            fixture.run(&from, arguments).expect(3);
        }
        assert_eq!(fixture.everything(), before);
        // A store that is named needs no project.
        fixture.run(&from, &["lock", "acquire", KEY, "--store", &fixture.place.url]).expect(0);
        fixture.run(&from, &["lock", "release", KEY, "--store", &fixture.place.url]).expect(0);
    }
}

#[test]
fn a_project_that_others_can_write_is_refused_with_what_to_do() {
    let fixture = Fixture::new();
    for (mode, words) in [(0o1777, "chmod o-w"), (0o757, "chmod o-w")] {
        fs::set_permissions(fixture.path("fleet"), Permissions::from_mode(mode)).unwrap();
        let ran = fixture.run("fleet/agents", &["stat"]).expect(3);
        assert!(ran.err.contains("is writable by every user") && ran.err.contains(words), "{ran:?}");
    }
    fs::set_permissions(fixture.path("fleet"), Permissions::from_mode(0o775)).unwrap();
    fixture.run("fleet", &["stat"]).expect(0);
    chown(fixture.path("fleet"), None, Some(STRANGER)).unwrap();
    let ran = fixture.run("fleet", &["stat"]).expect(3);
    assert!(ran.err.contains("gid 65534") && ran.err.contains("chmod g-w"), "{ran:?}");
}

#[test]
fn what_its_user_lists_as_safe_is_used_and_what_the_project_says_of_itself_is_not() {
    let fixture = Fixture::new();
    let stranger = fixture.path("stranger");
    let ran = fixture.run("stranger", &["stat"]).expect(3);
    let line = format!("safe_projects = [{:?}]", stranger.to_str().unwrap());
    assert!(ran.err.contains(&line) && ran.err.contains("/etc/bell/config.toml"), "{ran:?}");
    fs::write(stranger.join("config.toml"), format!("{line}\n")).unwrap();
    fixture.run("stranger", &["lock", "list"]).expect(3);
    fs::write(stranger.join("config.toml"), "").unwrap();
    for (entry, code) in [
        (fixture.path("fleet").to_str().unwrap(), 3),
        (stranger.to_str().unwrap(), 0),
        (fixture.path("*").to_str().unwrap(), 0),
        ("*", 0),
    ] {
        fixture.trust(entry);
        fixture.run("stranger", &["stat"]).expect(code);
    }
    // Settings that others can change say nothing.
    let config = fixture.path("home/.config/bell/config.toml");
    fs::set_permissions(&config, Permissions::from_mode(0o666)).unwrap();
    let ran = fixture.run("stranger", &["stat"]).expect(3);
    assert!(ran.err.contains("not used: ") && ran.err.contains("is writable by every user"), "{ran:?}");
    fs::write(&config, "safe_project = [\"*\"]\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    assert!(fixture.run("stranger", &["stat"]).expect(3).err.contains("has a mistake"));
}

#[test]
fn root_uses_the_project_of_the_user_who_called_sudo_and_no_other() {
    let fixture = Fixture::new();
    let binary = bare_command().get_program().to_owned();
    let as_sudo = |uid: &str| {
        let mut command = fixture.command("stranger", &["stat"]);
        command.env("SUDO_UID", uid);
        finish(command)
    };
    as_sudo("65534").expect(0);
    as_sudo("65533").expect(3);
    // The real program.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "-u", "#0"]).arg(&binary).arg("stat").current_dir(fixture.path("stranger"));
    sudo.env("HOME", fixture.path("home"));
    assert_eq!(finish(sudo).code, 3, "root called it: the project is still a stranger's");
    // For others than root the variable means nothing.
    let mut other = fixture.command_of_other("stranger", &["stat"]);
    other.env("SUDO_UID", STRANGER.to_string());
    assert_eq!(finish(other).code, 3);
}

#[test]
fn a_project_of_ones_own_that_others_can_write_does_not_list_itself_as_safe() {
    let fixture = Fixture::new();
    let fleet = fixture.path("fleet");
    fs::write(fleet.join("config.toml"), format!("safe_projects = [{:?}, \"*\"]\n", fleet.to_str().unwrap()))
        .unwrap();
    fs::set_permissions(&fleet, Permissions::from_mode(0o757)).unwrap();
    for arguments in [&["stat"][..], &["lock", "list"], &["up"]] {
        let ran = fixture.run("fleet", arguments).expect(3);
        assert!(ran.err.contains("is writable by every user"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn what_the_system_lists_as_safe_is_used() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("etc/bell")).unwrap();
    let etc = |name: &str| fixture.path("etc").join(name);
    for name in ["passwd", "group"] {
        fs::copy(Path::new("/etc").join(name), etc(name)).unwrap();
    }
    for (listed, code) in [("fleet", 3), ("stranger", 0)] {
        let line = format!("safe_projects = [{:?}]\n", fixture.path(listed).to_str().unwrap());
        fs::write(etc("bell/config.toml"), line).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a mount namespace of its own")]
        let mut own_etc = Command::new("unshare");
        own_etc.args(["--mount", "sh", "-c", "mount --bind ../etc /etc && exec \"$0\" stat"]);
        own_etc.arg(bare_command().get_program()).current_dir(fixture.path("stranger"));
        own_etc.env("HOME", fixture.path("home")).env_remove("BELL_STORE").env_remove("BELL_PROJECT");
        let ran = finish(own_etc);
        assert_eq!(ran.code, code, "{listed}: {ran:?}");
    }
}

#[test]
fn whatever_creates_the_state_folder_has_git_ignore_it_and_check_warns_if_git_tracks_it() {
    for arguments in [&["lock", "acquire", KEY][..], &["run", "worker"], &["pause"], &["mcp"]] {
        let fixture = Fixture::new();
        fixture.run("fleet/agents", arguments).expect(0);
        assert_eq!(
            fs::read_to_string(fixture.path("fleet/.bell/.gitignore")).unwrap(),
            "*\n",
            "{arguments:?}"
        );
    }
    let fixture = Fixture::new();
    git(&fixture.path("fleet"), &["init", "-q"]);
    fs::create_dir_all(fixture.path("fleet/.bell/secrets")).unwrap();
    fs::write(fixture.path("fleet/.bell/secrets/KEY"), "x").unwrap();
    fs::set_permissions(fixture.path("fleet/.bell/secrets/KEY"), Permissions::from_mode(0o600)).unwrap();
    let ran = fixture.run("fleet", &["check"]).expect(0);
    assert!(!ran.out.contains("git"), "{ran:?}");
    git(&fixture.path("fleet"), &["add", "-A"]);
    let ran = fixture.run("fleet/agents", &["check"]).expect(0);
    assert!(
        ran.out.contains(".bell: warning: git tracks") && ran.out.contains("git rm -r --cached"),
        "{ran:?}"
    );
    let daemon = fixture.up("fleet", &[]);
    assert_eq!(fs::read_to_string(fixture.path("fleet/.bell/.gitignore")).unwrap(), "*\n");
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn called_by_sudo_root_creates_no_store_that_the_user_could_not_open() {
    let fixture = Fixture::new();
    let mut command = fixture.command("stranger", &["lock", "acquire", KEY]);
    command.env("SUDO_UID", "65534");
    assert!(finish(command).expect(4).err.contains("Run it without sudo."));
    assert!(!fixture.path("stranger/.bell/bell.db").exists());
}

fn git(folder: &Path, arguments: &[&str]) {
    #[expect(clippy::disallowed_methods, reason = "the repository around a project")]
    let mut git = Command::new("git");
    assert_eq!(
        finish({
            git.args(arguments).current_dir(folder);
            git
        })
        .code,
        0
    );
}
