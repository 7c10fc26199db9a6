//! Processes that try to get away: a run is over only when none of them lives.

use bell_runner::exit::Reason;
use bell_runner::handle::How;
use bell_runner::launch::Cgroup;

use crate::support::{Run, is_alive, within};

/// Runs `script`, which starts a process that leaves its number in `pid`, and kills the run once it has. With and
/// without a cgroup: the machine may have none.
async fn nothing_is_left_of(script: &str) {
    for cgroup in [Cgroup::Never, Cgroup::Auto] {
        let run = Run::of(script).with(|launch| (launch.grace_ms, launch.cgroup) = (200, cgroup.clone()));
        let handle = run.start().await;
        let pid = run.pid("pid").await;
        assert!(is_alive(pid));
        handle.kill("test", How::Gently).unwrap();
        let exit = within(handle.wait()).await.unwrap();
        assert_eq!(exit.reason.word(), "killed");
        assert!(!is_alive(pid), "{cgroup:?}");
        assert_eq!(run.survivors(), [0; 0], "{cgroup:?}");
    }
}

#[tokio::test]
async fn a_process_that_leads_its_own_session_does_not_get_away() {
    nothing_is_left_of("setsid sh -c 'echo $$ > $HERE/pid; while :; do sleep 1; done' & wait").await;
}

#[tokio::test]
async fn a_process_that_lost_its_parent_does_not_get_away() {
    let script = "(setsid sh -c 'echo $$ > $HERE/pid; while :; do sleep 1; done' &) ; sleep 1000";
    nothing_is_left_of(script).await;
}

#[tokio::test]
async fn a_process_that_ignores_every_request_does_not_get_away() {
    let script = "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > $HERE/pid; while :; do sleep 1; done' & \
                  trap '' TERM; while :; do sleep 1; done";
    nothing_is_left_of(script).await;
}

#[tokio::test]
async fn a_process_without_output_or_environment_does_not_get_away() {
    let script = "export HERE; setsid env -i sh -c 'echo $$ > '$HERE'/pid; while :; do /bin/sleep 1; done' \
                  >/dev/null 2>&1 </dev/null & exec >/dev/null 2>&1; sleep 1000";
    nothing_is_left_of(script).await;
}

#[tokio::test]
async fn a_wrapper_that_dies_does_not_leave_the_real_agent() {
    for cgroup in [Cgroup::Never, Cgroup::Auto] {
        let script = "sh -c 'trap \"\" TERM; echo $$ > $HERE/pid; while :; do sleep 1; done' & \
                      while [ ! -s $HERE/pid ]; do sleep 0.01; done; kill -KILL $$";
        let run = Run::of(script).with(|launch| (launch.grace_ms, launch.cgroup) = (200, cgroup));
        let exit = run.end().await;
        assert_eq!(exit.reason, Reason::Signalled { signal: 9 });
        assert!(exit.left_behind);
        assert!(!is_alive(run.pid("pid").await));
    }
}

#[tokio::test]
async fn a_daemon_that_an_agent_leaves_is_asked_to_end_before_it_is_made_to() {
    let script = "(setsid sh -c 'trap \"echo bye; exit\" TERM; echo $$ > $HERE/pid; while :; do sleep 0.05; done' &); \
                  while [ ! -s $HERE/pid ]; do sleep 0.01; done";
    let run = Run::of(script);
    let exit = run.end().await;
    assert_eq!((exit.reason, exit.left_behind), (Reason::Completed, true));
    assert_eq!(run.out(), "bye\n");
}

/// Sixty-four processes that each start the next as soon as they see it gone, and ignore TERM.
const HYDRA: &str = "trap '' TERM; i=0; while [ $i -lt 64 ]; do \
                     (while :; do (setsid sh -c 'trap \"\" TERM; sleep 0.05' &); sleep 0.02; done) & \
                     i=$((i+1)); done; echo $$ > $HERE/pid; wait";

#[tokio::test]
async fn processes_that_keep_starting_others_are_all_ended() {
    nothing_is_left_of(HYDRA).await;
}
