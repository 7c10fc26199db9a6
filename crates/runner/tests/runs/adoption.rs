//! Runs that outlive whoever started them, and supervisors that don't outlive their runs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use bell_runner::adopt::{Adopted, adopt};
use bell_runner::exit::Reason;
use bell_runner::handle::How;
use bell_runner::launch::Cgroup;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::{Run, is_alive, kill, program, until, within};

/// A process that starts a run and stays, in a group of its own.
fn daemon(run: &Run) -> Child {
    let file = run.path("launch.json");
    fs::write(&file, serde_json::to_vec(&run.launch).unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test starts a daemon to kill")]
    let mut command = Command::new(program());
    command.arg("spawn").arg(file).process_group(0).stdout(Stdio::null()).spawn().unwrap()
}

fn kill_with_group(mut daemon: Child) {
    kill_process_group(Pid::from_child(&daemon), Signal::KILL).unwrap();
    daemon.wait().unwrap();
}

#[tokio::test]
async fn a_run_outlives_its_daemon_and_is_adopted() {
    let run = Run::of("echo $$ > $HERE/pid; while [ ! -e $HERE/go ]; do sleep 0.02; done; echo done");
    let daemon = daemon(&run);
    let agent = run.pid("pid").await;
    kill_with_group(daemon);
    assert!(is_alive(agent));
    let Adopted::Running(handle) = within(adopt(&run.launch.run_dir)).await.unwrap() else {
        panic!("not running")
    };
    assert_eq!(handle.agent().unwrap().0, agent);
    assert_eq!(handle.run(), "run-1");
    fs::write(run.path("go"), "").unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason, Reason::Completed);
    assert_eq!(run.out(), "done\n");
}

#[tokio::test]
async fn an_adopted_run_is_killed_like_any_other() {
    let run = Run::of("echo $$ > $HERE/pid; sleep 1000");
    let daemon = daemon(&run);
    let agent = run.pid("pid").await;
    kill_with_group(daemon);
    let Adopted::Running(handle) = within(adopt(&run.launch.run_dir)).await.unwrap() else {
        panic!("not running")
    };
    handle.kill("operator", How::Gently).unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason, Reason::Killed { why: "operator".into() });
    assert!(!is_alive(agent));
}

#[tokio::test]
async fn an_end_that_nobody_saw_is_found_later() {
    let run = Run::of("while [ ! -e $HERE/go ]; do sleep 0.02; done; exit 5");
    let daemon = daemon(&run);
    until(|| run.launch.run_dir.join("state.json").exists().then_some(())).await;
    kill_with_group(daemon);
    fs::write(run.path("go"), "").unwrap();
    until(|| run.launch.run_dir.join("exit.json").exists().then_some(())).await;
    let Adopted::Ended(exit) = within(adopt(&run.launch.run_dir)).await.unwrap() else { panic!("not ended") };
    assert_eq!(exit.reason, Reason::Failed { code: 5 });
}

#[tokio::test]
async fn nothing_survives_a_supervisor_that_was_killed_and_the_run_is_lost() {
    for cgroup in [Cgroup::Never, Cgroup::Auto] {
        let script = "echo $$ > $HERE/pid; setsid sh -c 'trap \"\" TERM; echo $$ > $HERE/child; while :; do sleep 1; done' \
                      >/dev/null 2>&1 & wait";
        let run = Run::of(script).with(|launch| launch.cgroup = cgroup);
        let handle = run.start().await;
        let (agent, child) = (run.pid("pid").await, run.pid("child").await);
        kill(handle.pid(), Signal::KILL);
        let Adopted::Lost(why) = found_dead(&run).await else { panic!("not lost") };
        assert!(why.contains("died"), "{why}");
        assert!(!is_alive(agent) && !is_alive(child));
        assert_eq!(run.survivors(), [0; 0]);
        let Adopted::Ended(exit) = within(adopt(&run.launch.run_dir)).await.unwrap() else {
            panic!("not ended")
        };
        assert_eq!(exit.reason.word(), "lost");
    }
}

/// Adopts a run whose supervisor is being killed.
async fn found_dead(run: &Run) -> Adopted {
    loop {
        match within(adopt(&run.launch.run_dir)).await.unwrap() {
            Adopted::Running(_) => tokio::task::yield_now().await,
            other => return other,
        }
    }
}

#[tokio::test]
async fn who_waits_for_a_supervisor_that_is_killed_hears_that_the_run_is_lost() {
    let run = Run::of("(setsid sh -c 'echo $$ > $HERE/child; exec sleep 1000' &); sleep 1000");
    let handle = run.start().await;
    let child = run.pid("child").await;
    kill(handle.pid(), Signal::KILL);
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.reason.is_success()), ("lost", false));
    assert!(!is_alive(child));
    assert!(handle.kill("late", How::AtOnce).is_err());
}

/// Has the supervisor killed once the agent's child is there, with no control group to find that by.
async fn its_child_is_found(run: Run) {
    let run = run.with(|launch| launch.cgroup = Cgroup::Never);
    let handle = run.start().await;
    run.left("ready").await;
    let child = run.pid("child").await;
    kill(handle.pid(), Signal::KILL);
    within(handle.wait()).await.unwrap();
    assert!(!is_alive(child));
}

#[tokio::test]
async fn what_shed_its_mark_is_still_found_by_its_session_or_by_descent() {
    let script = "env -i sh -c 'echo $$ > '$HERE'/child; while :; do /bin/sleep 1; done' & \
                  while [ ! -s $HERE/child ]; do sleep 0.01; done; echo > $HERE/ready; wait";
    its_child_is_found(Run::of(script)).await;
}

#[tokio::test]
async fn what_shed_its_mark_and_its_session_is_found_below_what_did_not() {
    let child = "env -i setsid sh -c \"echo \\$\\$ > $HERE/child; exec /bin/sleep 1000\"";
    let script = format!(
        "setsid sh -c '{child} & sleep 1000' & while [ ! -s $HERE/child ]; do sleep 0.01; done; echo > $HERE/ready; wait"
    );
    its_child_is_found(Run::of(&script)).await;
}

#[tokio::test]
async fn a_process_with_the_same_number_is_not_taken_for_the_supervisor() {
    let run = Run::of("sleep 1000");
    let handle = run.start().await;
    let path = run.launch.run_dir.join("state.json");
    kill(handle.pid(), Signal::KILL);
    until(|| (!is_alive(handle.pid())).then_some(())).await;
    let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // The first process of the machine is alive, but started at another time.
    state["supervisor"]["pid"] = 1.into();
    fs::write(&path, state.to_string()).unwrap();
    let adopted = within(adopt(&run.launch.run_dir)).await.unwrap();
    assert!(matches!(adopted, Adopted::Lost(_)), "{adopted:?}");
}

#[tokio::test]
async fn a_run_that_never_came_to_have_a_supervisor_is_lost_and_can_not_start_late() {
    let run = Run::of("echo > $HERE/ran");
    fs::create_dir_all(&run.launch.run_dir).unwrap();
    fs::write(run.launch.run_dir.join("launch.json"), serde_json::to_vec(&run.launch).unwrap()).unwrap();
    let Adopted::Lost(why) = within(adopt(&run.launch.run_dir)).await.unwrap() else { panic!("not lost") };
    assert!(why.contains("never started"), "{why}");
    #[expect(clippy::disallowed_methods, reason = "a test starts a supervisor that is too late")]
    let mut late = Command::new(program());
    late.arg("__supervise").arg(&run.launch.run_dir);
    let said = late.output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("over"), "{said:?}");
    assert!(!run.path("ran").exists());
}

#[tokio::test]
async fn a_folder_that_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = adopt(folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("find a run"), "{error}");
}
