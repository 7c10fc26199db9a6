//! Each way in which a run can end, and what is told about it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bell_runner::error::Kind;
use bell_runner::exit::Reason;
use bell_runner::handle::How;
use bell_store::clock::boottime;
use rustix::process::Signal;

use crate::support::{Run, kill, until, within};

const FOREVER: &str = "echo up; while :; do sleep 1; done";

#[tokio::test]
async fn an_agent_that_ends_with_zero_is_completed() {
    let run = Run::of("echo hello; echo oops >&2");
    let exit = run.end().await;
    assert_eq!((exit.reason, exit.code, exit.signal), (Reason::Completed, Some(0), None));
    assert!(exit.started_ms.unwrap() <= exit.ended_ms);
    assert!(!exit.left_behind && !exit.truncated);
    assert_eq!(run.out(), "hello\n");
    assert_eq!(exit.output_bytes, 11);
    assert!(exit.usage.peak_memory_bytes > 0);
}

#[tokio::test]
async fn an_agent_that_ends_with_another_code_has_failed() {
    let exit = Run::of("exit 3").end().await;
    assert_eq!((exit.reason, exit.code), (Reason::Failed { code: 3 }, Some(3)));
}

#[tokio::test]
async fn an_agent_that_crashes_is_signalled() {
    let exit = Run::of("kill -SEGV $$").end().await;
    assert_eq!((exit.reason, exit.code, exit.signal), (Reason::Signalled { signal: 11 }, None, Some(11)));
}

#[tokio::test]
async fn a_time_out_is_never_success_even_if_the_agent_says_so() {
    let run = Run::of("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    let run = run.with(|launch| launch.timeout_ms = Some(300));
    let exit = run.end().await;
    assert_eq!(exit.reason, Reason::Timeout);
    assert!(run.survivors().is_empty());
}

#[tokio::test]
async fn an_agent_that_ignores_term_is_killed_after_the_grace() {
    let run = Run::of("trap '' TERM; echo up; while :; do sleep 1; done");
    let run = run.with(|launch| (launch.timeout_ms, launch.grace_ms) = (Some(200), 200));
    let exit = run.end().await;
    assert_eq!((exit.reason, exit.signal), (Reason::Timeout, Some(Signal::KILL.as_raw())));
    assert!(run.survivors().is_empty());
}

#[tokio::test]
async fn who_asks_for_the_end_is_in_the_reason_and_the_agent_may_say_goodbye() {
    let run = Run::of("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    let handle = run.start().await;
    until(|| (run.out() == "up\n").then_some(())).await;
    handle.kill("ann, by command", How::Gently).unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!(exit.reason, Reason::Killed { why: "ann, by command".into() });
    assert_eq!(run.out(), "up\nbye\n");
}

#[tokio::test]
async fn a_kill_at_once_does_not_wait_for_the_grace() {
    let run = Run::of("trap 'echo bye' TERM; while :; do sleep 0.05; done");
    let run = run.with(|launch| launch.grace_ms = 3_600_000);
    let handle = run.start().await;
    handle.kill("now", How::AtOnce).unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.signal), ("killed", Some(Signal::KILL.as_raw())));
}

#[tokio::test]
async fn a_supervisor_that_is_told_to_stop_ends_the_run_as_interrupted() {
    let run = Run::of(FOREVER);
    let handle = run.start().await;
    kill(handle.pid(), Signal::TERM);
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!(exit.reason, Reason::Interrupted);
    assert!(run.survivors().is_empty());
}

#[tokio::test]
async fn whoever_asks_a_second_time_means_now() {
    let script = "trap 'echo > $HERE/told' TERM; echo > $HERE/ready; while :; do sleep 0.05; done";
    let run = Run::of(script).with(|launch| launch.grace_ms = 3_600_000);
    let handle = run.start().await;
    run.left("ready").await;
    handle.interrupt().unwrap();
    run.left("told").await;
    handle.interrupt().unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason, Reason::Interrupted);
}

#[tokio::test]
async fn a_run_that_lost_its_right_is_ended_as_revoked() {
    let run = Run::of(FOREVER);
    let handle = run.start().await;
    fs::write(run.launch.run_dir.join("revoke"), "fence 7 was raised").unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!(exit.reason, Reason::Revoked { why: "fence 7 was raised".into() });
}

/// Ignores TERM. Says that it is there, and when TERM came.
const STUBBORN: &str = "trap 'echo > $HERE/told' TERM; echo > $HERE/ready; while :; do sleep 0.05; done";

fn set_deadline(run: &Run, at: Duration) {
    fs::write(run.launch.run_dir.join("deadline"), at.as_millis().to_string()).unwrap();
}

#[tokio::test]
async fn a_run_that_lost_its_right_gets_term_and_is_gone_at_its_deadline_whatever_its_grace() {
    let run = Run::of(STUBBORN).with(|launch| launch.grace_ms = 3_600_000);
    let handle = run.start().await;
    run.left("ready").await;
    let deadline = boottime() + Duration::from_millis(1_500);
    set_deadline(&run, deadline);
    fs::write(run.launch.run_dir.join("revoke"), "its session is gone").unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.signal), ("revoked", Some(Signal::KILL.as_raw())));
    assert!(run.path("told").exists());
    assert!(boottime() >= deadline);
}

#[tokio::test]
async fn a_lease_that_ends_during_the_grace_of_a_kill_ends_the_grace() {
    let run = Run::of(STUBBORN).with(|launch| launch.grace_ms = 3_600_000);
    let handle = run.start().await;
    run.left("ready").await;
    set_deadline(&run, boottime() + Duration::from_secs(3_600));
    handle.kill("ann", How::Gently).unwrap();
    run.left("told").await;
    set_deadline(&run, Duration::ZERO);
    let exit = within(handle.wait()).await.unwrap();
    assert_eq!((exit.reason.word(), exit.signal), ("killed", Some(Signal::KILL.as_raw())));
}

#[tokio::test]
async fn others_are_told_before_the_first_signal_and_after_the_last_process() {
    let run = Run::of(FOREVER);
    let handle = run.start().await;
    let (pid, _) = handle.agent().unwrap();
    until(|| (run.hooks().len() == 1).then_some(())).await;
    handle.kill("why", How::Gently).unwrap();
    within(handle.wait()).await.unwrap();
    let expected = [
        format!("started {pid}, somebody alive"),
        "ending killed, somebody alive".into(),
        "ended killed, nobody alive".into(),
    ];
    assert_eq!(run.hooks(), expected);
}

#[tokio::test]
async fn what_is_taken_before_the_start_is_in_the_agents_environment() {
    let run = Run::of("echo $FROM_HOOK");
    run.end().await;
    assert_eq!(run.out(), "yes\n");
}

#[tokio::test]
async fn a_run_that_may_not_start_runs_nothing_and_its_end_is_told() {
    let run = Run::of("echo never");
    fs::create_dir_all(&run.launch.run_dir).unwrap();
    fs::write(run.launch.run_dir.join("refuse"), "start it: somebody else has its lock").unwrap();
    let error = run.try_start().await.unwrap_err();
    assert!(error.to_string().contains("somebody else has its lock"), "{error}");
    assert_eq!(run.hooks(), ["ended not_started, nobody alive"]);
    assert_eq!(run.out(), "");
}

/// What a supervisor says about itself before its agent runs, once the process is there that will be the agent.
async fn getting_ready(run: &Run) -> serde_json::Value {
    let state = run.launch.run_dir.join("state.json");
    until(|| run.survivors().first().copied()).await;
    serde_json::from_slice(&fs::read(state).unwrap()).unwrap()
}

#[tokio::test]
async fn a_run_that_is_ended_while_it_starts_leaves_no_process_and_no_group() {
    let run = Run::of("echo never");
    fs::create_dir_all(&run.launch.run_dir).unwrap();
    fs::write(run.launch.run_dir.join("wait"), "").unwrap();
    let (started, state) = tokio::join!(run.try_start(), async {
        let state = getting_ready(&run).await;
        kill(i32::try_from(state["supervisor"]["pid"].as_i64().unwrap()).unwrap(), Signal::TERM);
        state
    });
    assert!(started.unwrap_err().to_string().contains("told to end first"));
    assert_eq!(run.survivors(), [0; 0]);
    assert_eq!(run.hooks(), ["ended not_started, nobody alive"]);
    if let Some(group) = state["cgroup"].as_str() {
        until(|| (!Path::new(group).exists()).then_some(())).await;
    }
}

#[tokio::test]
async fn a_supervisor_that_is_killed_while_its_run_starts_leaves_no_process() {
    let run = Run::of("echo never");
    fs::create_dir_all(&run.launch.run_dir).unwrap();
    fs::write(run.launch.run_dir.join("wait"), "").unwrap();
    let (started, ()) = tokio::join!(run.try_start(), async {
        let state = getting_ready(&run).await;
        kill(i32::try_from(state["supervisor"]["pid"].as_i64().unwrap()).unwrap(), Signal::KILL);
    });
    assert_eq!(started.unwrap_err().kind(), Kind::Gone, "it is not known whether the agent ran");
    until(|| run.survivors().is_empty().then_some(())).await;
    assert_eq!(run.out(), "");
}

#[tokio::test]
async fn the_agent_runs_in_the_group_of_its_run_which_goes_with_it() {
    let run = Run::of("cat /proc/self/cgroup");
    let handle = run.start().await;
    let state = fs::read(run.launch.run_dir.join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    within(handle.wait()).await.unwrap();
    let Some(group) = state["cgroup"].as_str() else {
        eprintln!("there are no control groups to be had: not tried");
        return;
    };
    let seen = run.out();
    let seen = seen.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert_eq!(Path::new(seen).file_name(), Path::new(group).file_name());
    assert!(!Path::new(group).exists());
}

#[tokio::test]
async fn a_run_whose_folder_was_removed_leaves_no_group() {
    let run = Run::of("while [ ! -e $HERE/go ]; do sleep 0.05; done");
    let _handle = run.start().await;
    let Some(group) = run.group() else {
        eprintln!("there are no control groups to be had: not tried");
        return;
    };
    fs::remove_dir_all(&run.launch.run_dir).unwrap();
    fs::write(run.path("go"), "").unwrap();
    until(|| (!group.exists()).then_some(())).await;
}

#[tokio::test]
async fn an_end_by_itself_is_told_without_a_warning() {
    let run = Run::of("true");
    run.end().await;
    assert_eq!(run.hooks().last().unwrap(), "ended completed, nobody alive");
    assert!(!run.hooks().iter().any(|line| line.starts_with("ending")));
}

#[tokio::test]
async fn a_store_that_does_not_answer_keeps_no_agent_alive() {
    let run = Run::of(FOREVER).with(|launch| launch.grace_ms = 100);
    let handle = run.start().await;
    fs::write(run.launch.run_dir.join("hang"), "").unwrap();
    handle.kill("why", How::Gently).unwrap();
    assert_eq!(within(handle.wait()).await.unwrap().reason.word(), "killed");
}

#[tokio::test]
async fn an_agent_that_was_stopped_still_hears_that_it_has_to_end() {
    let run = Run::of("trap 'echo bye; exit 0' TERM; echo $$ > $HERE/pid; while :; do sleep 0.05; done");
    let handle = run.start().await;
    let pid = run.pid("pid").await;
    kill(pid, Signal::STOP);
    handle.kill("why", How::Gently).unwrap();
    within(handle.wait()).await.unwrap();
    assert_eq!(run.out(), "bye\n");
}
