//! Supervisors that are stopped, and the timer that ends them and their runs all the same.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

use bell_runner::exit::Reason;
use bell_runner::launch::Cgroup;
use bell_store::clock::boottime;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::support::{Run, kill, until, within};

/// An agent with a child that leads a session of its own and ignores TERM.
const STUBBORN: &str =
    "setsid sh -c 'trap \"\" TERM; echo > $HERE/ready; while :; do sleep 0.05; done' >/dev/null 2>&1 & wait";

/// Has the watchdog kill the supervisor then. To be called before the run starts, or to move the moment.
fn set_watchdog(run: &Run, at: Duration) {
    let dir = &run.launch.run_dir;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).unwrap();
    fs::write(dir.join("watchdog.new"), at.as_millis().to_string()).unwrap();
    fs::rename(dir.join("watchdog.new"), dir.join("watchdog")).unwrap();
}

#[tokio::test]
async fn a_supervisor_that_is_stopped_is_killed_at_its_deadline_and_nothing_of_its_run_is_left() {
    for cgroup in [Cgroup::Never, Cgroup::Auto] {
        let run = Run::of(STUBBORN).with(|launch| launch.cgroup = cgroup);
        let deadline = boottime() + Duration::from_secs(2);
        set_watchdog(&run, deadline);
        let handle = run.start().await;
        run.left("ready").await;
        kill(handle.pid(), Signal::STOP);
        let exit = within(handle.wait()).await.unwrap();
        assert!(boottime() >= deadline);
        assert_eq!((exit.reason.word(), exit.unconfirmed), ("lost", None));
        assert_eq!(run.survivors(), Vec::<i32>::new());
    }
}

#[tokio::test]
async fn a_deadline_that_moves_ends_nothing() {
    let run = Run::of("while [ ! -e $HERE/go ]; do sleep 0.05; done");
    // It is read again when half of this is over, which leaves a busy machine as long again.
    let first = boottime() + Duration::from_secs(10);
    set_watchdog(&run, first);
    let handle = run.start().await;
    set_watchdog(&run, first + Duration::from_secs(3_600));
    sleep((first + Duration::from_millis(500)).saturating_sub(boottime())).await;
    fs::write(run.path("go"), "").unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason, Reason::Completed);
}

#[tokio::test]
async fn a_run_that_is_over_has_no_deadline_any_more() {
    let run = Run::of("exit 3");
    let deadline = boottime() + Duration::from_secs(6);
    set_watchdog(&run, deadline);
    fs::write(run.launch.run_dir.join("linger"), "").unwrap();
    let handle = run.start().await;
    until(|| run.hooks().iter().any(|line| line.starts_with("ended failed")).then_some(())).await;
    sleep((deadline + Duration::from_millis(500)).saturating_sub(boottime())).await;
    assert!(crate::support::is_alive(handle.pid()), "its supervisor still works");
    fs::remove_file(run.launch.run_dir.join("linger")).unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason, Reason::Failed { code: 3 });
}
