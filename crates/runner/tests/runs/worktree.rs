//! A git worktree of its own for each run.

use std::path::Path;

use bell_runner::isolation::{Isolation, Means, View};
use bell_runner::launch::{AfterRun, Worktree};

use crate::support::Run;

fn git(folder: &Path, arguments: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "a test makes a repository")]
    let mut command = std::process::Command::new("git");
    let who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"];
    let output = command.args(who).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A run in a worktree of a repository with one commit, and a hook that nobody should run.
fn run_in_worktree(script: &str, after: AfterRun) -> Run {
    let run = Run::of(script);
    let repo = run.path("repo");
    std::fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "--quiet"]);
    std::fs::write(repo.join("file"), "content\n").unwrap();
    git(&repo, &["add", "file"]);
    git(&repo, &["commit", "--quiet", "-m", "first"]);
    let hook = repo.join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", run.path("hooked").display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    run.with(|launch| {
        launch.worktree = Some(Worktree { repo, at: "main".into(), after });
        launch.cwd = "".into();
    })
}

fn worktree(run: &Run) -> std::path::PathBuf {
    run.launch.run_dir.join("worktree")
}

#[tokio::test]
async fn the_agent_works_in_a_worktree_that_goes_if_nothing_was_changed() {
    let run = run_in_worktree("cat file; pwd", AfterRun::RemoveIfClean);
    assert!(run.end().await.reason.is_success());
    assert_eq!(run.out(), format!("content\n{}\n", worktree(&run).display()));
    assert!(!worktree(&run).exists());
    assert_eq!(git(&run.path("repo"), &["worktree", "list"]).lines().count(), 1);
    assert!(!run.path("hooked").exists(), "a hook of the repository ran");
}

#[tokio::test]
async fn changes_that_were_not_committed_are_kept() {
    let run = run_in_worktree("echo new > new", AfterRun::RemoveIfClean);
    run.end().await;
    assert_eq!(std::fs::read_to_string(worktree(&run).join("new")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_commit_that_no_branch_has_is_kept() {
    let commit =
        "echo new > new; git add new; git -c user.name=t -c user.email=t@localhost commit -qm second";
    let run = run_in_worktree(commit, AfterRun::RemoveIfClean);
    assert!(run.end().await.reason.is_success());
    assert!(worktree(&run).join("new").exists());
}

#[tokio::test]
async fn a_commit_on_a_branch_is_not_lost_with_the_worktree() {
    let commit = "git checkout -q -b work; echo new > new; git add new; \
                  git -c user.name=t -c user.email=t@localhost commit -qm second";
    let run = run_in_worktree(commit, AfterRun::RemoveIfClean);
    assert!(run.end().await.reason.is_success());
    assert!(!worktree(&run).exists());
    assert_eq!(git(&run.path("repo"), &["log", "-1", "--format=%s", "work"]).trim(), "second");
}

#[tokio::test]
async fn a_worktree_that_is_to_be_kept_is_kept() {
    let run = run_in_worktree("true", AfterRun::Keep);
    run.end().await;
    assert!(worktree(&run).join("file").exists());
}

#[tokio::test]
async fn a_worktree_that_is_never_kept_goes_with_its_changes() {
    let run = run_in_worktree("echo new > new", AfterRun::Remove);
    run.end().await;
    assert!(!worktree(&run).exists());
}

#[tokio::test]
async fn a_worktree_of_an_isolated_run_is_made_and_removed_by_a_git_that_sees_no_more_than_the_run() {
    let run = run_in_worktree("cat file; pwd", AfterRun::RemoveIfClean);
    let (repo, secret) = (run.path("repo"), run.path("secret"));
    std::fs::write(&secret, "canary\n").unwrap();
    // A filter is a program that an agent may have written into the repository's settings.
    git(&repo, &["config", "filter.evil.smudge", &format!("cat {} - || echo denied", secret.display())]);
    std::fs::write(repo.join(".git/info/attributes"), "file filter=evil\n").unwrap();
    let folders = [run.launch.agent_dir(), worktree(&run)].map(|folder| (folder, View::Open));
    let hidden = [run.path("runs"), secret].map(|path| (path, View::Hidden));
    let views = hidden.into_iter().chain(folders).collect();
    let run = run.with(|launch| launch.isolation = Some(Isolation { means: Means::Mounts, views }));
    assert!(run.end().await.reason.is_success());
    assert_eq!(run.out(), format!("content\n{}\n", worktree(&run).display()));
    assert_eq!(git(&run.path("repo"), &["worktree", "list"]).lines().count(), 1);
    assert!(!worktree(&run).exists());
}
