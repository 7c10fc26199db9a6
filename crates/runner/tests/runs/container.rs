//! Runs in containers: the same supervision, by way of an engine's command.
//!
//! The engine here is a script that asks this test to start and end processes, so that a container is not below the
//! supervisor, as with docker. Runs with a real podman, whose containers are, are among the tests of the command `bell`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bell_runner::container::Container;
use bell_runner::env::Environment;
use bell_runner::exit::Reason;
use bell_runner::handle::How;
use bell_runner::isolation::Views;
use rustix::process::Signal;

use crate::support::{Run, is_alive, kill, within};

/// `run` leaves the arguments behind the image for the engine and waits like a client; `kill`, `rm` and `ps` ask it.
const CLIENT: &str = r#"#!/bin/sh
here=$(dirname "$0")
case $1 in
  run)
    trap '' TERM
    while [ "$1" != image ]; do [ "$1" = --env-file ] && cp "$2" "$here/env"; shift; done; shift
    for word; do printf '%s\n' "$word"; done > "$here/want.new"; mv "$here/want.new" "$here/want"
    while [ ! -e "$here/code" ]; do sleep 0.02; done; exit "$(cat "$here/code")" ;;
  kill) [ -e "$here/deaf" ] && exit 1; touch "$here/end"; while [ ! -e "$here/code" ]; do sleep 0.02; done ;;
  rm) [ -e "$here/deaf" ] && exit 1; touch "$here/removed" ;;
  ps) [ -e "$here/deaf" ] && exit 1; [ -e "$here/removed" ] || [ ! -e "$here/want" ] || echo 0123abcd ;;
esac
"#;

struct Engine {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    fn start(run: &Run) -> Self {
        let folder = run.path("engine");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("docker"), CLIENT).unwrap();
        fs::set_permissions(folder.join("docker"), fs::Permissions::from_mode(0o755)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (folder, stop) = (folder.clone(), Arc::clone(&stop));
            move || serve(&folder, &stop)
        });
        Self { folder, stop, thread: Some(thread) }
    }

    fn container(&self) -> Container {
        let path = format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap());
        Container {
            engine: "docker".into(),
            engine_env: Environment::empty().with("PATH", path),
            image: "image".into(),
            mounts: Vec::new(),
            network: Some("none".into()),
            views: Views::default(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(folder: &Path, stop: &AtomicBool) {
    let mut inside: Option<Child> = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        if inside.is_none()
            && !folder.join("code").exists()
            && let Ok(words) = fs::read_to_string(folder.join("want"))
        {
            let words: Vec<&str> = words.lines().collect();
            #[expect(clippy::disallowed_methods, reason = "a test is a container engine")]
            let mut command = Command::new(words[0]);
            inside = Some(command.args(&words[1..]).env("HERE", folder.parent().unwrap()).spawn().unwrap());
        }
        let Some(child) = &mut inside else { continue };
        if folder.join("end").exists() {
            child.kill().unwrap();
        }
        if let Some(status) = child.try_wait().unwrap() {
            inside = None;
            fs::write(folder.join("code.new"), status.code().unwrap_or(137).to_string()).unwrap();
            fs::rename(folder.join("code.new"), folder.join("code")).unwrap();
        }
    }
    if let Some(mut child) = inside {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn run_in_container(script: &str) -> (Run, Engine) {
    let run = Run::of(script);
    let engine = Engine::start(&run);
    let container = engine.container();
    let run = run.with(|launch| {
        launch.container = Some(container);
        launch.env = Environment::empty().with("KEY", "canary");
        launch.grace_ms = 100;
    });
    (run, engine)
}

#[tokio::test]
async fn the_end_of_a_container_is_the_end_of_its_run() {
    let (run, engine) = run_in_container("exit 4");
    assert_eq!(run.end().await.reason, Reason::Failed { code: 4 });
    let env = fs::read_to_string(engine.folder.join("env")).unwrap();
    assert!(env.contains("KEY=canary\n") && env.contains("BELL_RUN=run-1\n"), "{env}");
}

#[tokio::test]
async fn a_container_that_outlives_its_client_is_ended_by_name_and_seen_to_be_gone() {
    let (run, _engine) = run_in_container("echo $$ > $HERE/pid; exec sleep 1000");
    let handle = run.start().await;
    let inside = run.pid("pid").await;
    handle.kill("test", How::Gently).unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.unconfirmed), ("killed", None));
    assert!(!is_alive(inside));
}

#[tokio::test]
async fn a_client_that_dies_does_not_leave_its_container() {
    let (run, _engine) = run_in_container("echo $$ > $HERE/pid; exec sleep 1000");
    let handle = run.start().await;
    let inside = run.pid("pid").await;
    kill(handle.agent().unwrap().0, Signal::KILL);
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason, exit.unconfirmed), (Reason::Signalled { signal: 9 }, None));
    assert!(!is_alive(inside));
}

#[tokio::test]
async fn a_container_whose_supervisor_was_killed_is_ended_at_adoption() {
    let (run, _engine) = run_in_container("echo $$ > $HERE/pid; exec sleep 1000");
    let handle = run.start().await;
    let inside = run.pid("pid").await;
    kill(handle.pid(), Signal::KILL);
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.unconfirmed), ("lost", None));
    assert!(!is_alive(inside));
}

#[tokio::test]
async fn an_engine_that_does_not_answer_is_told_in_the_end() {
    let (run, engine) = run_in_container("echo $$ > $HERE/pid; exec sleep 1000");
    let handle = run.start().await;
    run.pid("pid").await;
    fs::write(engine.folder.join("deaf"), "").unwrap();
    handle.kill("test", How::AtOnce).unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert!(exit.unconfirmed.unwrap().contains("could not confirm"));
}
