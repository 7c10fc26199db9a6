//! What can't be run: a clear word, and nothing half started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bell_runner::launch::{AfterRun, Landlock, Launch, Stdin, Worktree};
use bell_runner::spawn::spawn;
use bell_runner::user::User;
use bell_runner::{Error, Kind};

use crate::support::{Run, program, within};

async fn refused(run: &Run) -> Error {
    let error = within(spawn(program(), &run.launch)).await.unwrap_err();
    assert!(!error.advice().is_empty(), "no advice: {error}");
    assert!(run.survivors().is_empty());
    error
}

/// Refused after its supervisor began: the end says so too.
async fn not_started(run: &Run, kind: Kind, about: &str) {
    let error = refused(run).await;
    assert!(error.kind() == kind && error.to_string().contains(about), "{error:?}");
    let exit = fs::read_to_string(run.launch.run_dir.join("exit.json")).unwrap();
    assert!(exit.contains("not_started"), "{exit}");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    for program in ["bell-no-such-agent", "/no/such/agent"] {
        let run = Run::of("").with(|launch| launch.argv = vec![program.into()]);
        not_started(&run, Kind::NotFound, program).await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_executable_is_named() {
    let run = Run::of("");
    let path = run.path("agent");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    let run = run.with(|launch| launch.argv = vec![path.display().to_string()]);
    not_started(&run, Kind::Denied, "agent").await;
}

#[tokio::test]
async fn a_script_without_its_interpreter_is_told_apart_from_a_missing_one() {
    let run = Run::of("");
    let path = run.path("agent");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let run = run.with(|launch| launch.argv = vec![path.display().to_string()]);
    let error = refused(&run).await;
    assert!(error.advice().contains("interpreter"), "{}", error.advice());
}

#[tokio::test]
async fn a_working_folder_that_is_gone_is_named() {
    let run = Run::of("true").with(|launch| launch.cwd = "/no/such/folder".into());
    not_started(&run, Kind::NotFound, "/no/such/folder").await;
}

#[tokio::test]
async fn an_input_file_that_is_gone_is_named() {
    let run = Run::of("true").with(|launch| launch.stdin = Stdin::File("/no/such/input".into()));
    not_started(&run, Kind::NotFound, "/no/such/input").await;
}

#[tokio::test]
async fn a_landlock_rule_for_nothing_is_named() {
    let rules = Landlock { read: vec!["/no/such/rule".into()], ..Landlock::default() };
    let run = Run::of("true").with(|launch| launch.landlock = Some(rules));
    not_started(&run, Kind::NotFound, "/no/such/rule").await;
}

#[tokio::test]
async fn a_repository_that_is_none_is_named() {
    let run = Run::of("true");
    let repo = run.folder.path().to_owned();
    let worktree = Worktree { repo, at: "main".into(), after: AfterRun::RemoveIfClean };
    let run = run.with(|launch| launch.worktree = Some(worktree));
    not_started(&run, Kind::Invalid, "make a worktree").await;
}

#[tokio::test]
async fn an_argument_list_that_is_too_long_is_explained() {
    let run = Run::of("").with(|launch| launch.argv = vec!["echo".into(), "x".repeat(200_000)]);
    let error = refused(&run).await;
    assert!(error.advice().contains("by file"), "{error:?}");
}

#[tokio::test]
async fn a_user_that_may_not_be_switched_to_is_refused() {
    if rustix::process::geteuid().is_root() {
        assert_eq!(User::find("bell-no-such-user").unwrap_err().kind(), Kind::NotFound);
        return;
    }
    let run = Run::of("true").with(|launch| launch.user = Some(User::find("0:0").unwrap()));
    assert_eq!(refused(&run).await.kind(), Kind::Denied);
}

#[tokio::test]
async fn a_program_that_is_not_bellwether_starts_no_run() {
    let run = Run::of("true");
    let error = within(spawn(Path::new("/bin/echo"), &run.launch)).await.unwrap_err();
    assert!(error.to_string().contains("supervisor"), "{error}");
}

#[tokio::test]
async fn a_file_in_the_way_of_the_run_directory_is_trouble_of_the_machine_and_not_of_the_agent() {
    let run = Run::of("echo > $HERE/ran");
    fs::write(run.path("file"), "").unwrap();
    for place in ["file/run-1", "file"] {
        let run_dir = run.path(place);
        let launch = Launch { run_dir, ..run.launch.clone() };
        let error = within(spawn(program(), &launch)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{place}: {error}");
    }
    assert!(!run.path("ran").exists());
}

#[tokio::test]
async fn on_a_full_disk_no_run_starts() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill();
    let run = Run::of("echo > $HERE/ran").with(|launch| launch.run_dir = disk.path("run-1"));
    let error = refused(&run).await;
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert!(!run.path("ran").exists());
}

#[tokio::test]
async fn on_a_disk_that_fills_up_a_run_still_has_an_end() {
    let Some(disk) = SmallDisk::mount() else { return };
    let script = "while [ ! -e $HERE/go ]; do sleep 0.02; done; echo kept nowhere; exit 7";
    let run = Run::of(script).with(|launch| {
        launch.run_dir = disk.path("run-1");
        launch.cwd = launch.agent_dir();
    });
    let handle = run.start().await;
    disk.fill();
    fs::write(run.path("go"), "").unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.code, exit.truncated), ("failed", Some(7), true));
}

/// A file system of its own, as small as can be.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if tool("mount", &["-t", "tmpfs", "-o", "size=256k", "bell-test"], folder.path()) {
            return Some(Self { folder });
        }
        eprintln!("this user can't mount a small disk: not tried");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn fill(&self) {
        let mut size = 64 * 1024;
        for number in 0.. {
            if fs::write(self.path(&format!("full-{number}")), vec![1; size]).is_err() {
                if size == 1 {
                    return;
                }
                size = (size / 2).max(1);
            }
            if size == 1 && number > 1000 {
                return;
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        tool("umount", &["--lazy"], self.folder.path());
    }
}

fn tool(name: &str, arguments: &[&str], path: &Path) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a test mounts a small disk")]
    let mut command = std::process::Command::new(name);
    command.args(arguments).arg(path).status().is_ok_and(|status| status.success())
}
