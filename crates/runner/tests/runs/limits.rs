//! What a run may use, and what becomes of one that uses more.

use bell_runner::exit::{Reason, Resource};

use crate::support::Run;

#[tokio::test]
async fn a_run_with_too_many_processes_is_ended() {
    let script = "i=0; while [ $i -lt 500 ]; do sleep 1000 & i=$((i+1)); sleep 0.01; done; wait";
    let run = Run::of(script).with(|launch| launch.limits.processes = Some(20));
    let exit = run.end().await;
    assert_eq!(exit.reason, Reason::Limit { what: Resource::Processes });
    assert_eq!(run.survivors(), [0; 0]);
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ended() {
    // It doubles every 20 ms, but never beyond 1,024 processes, so that a failure here stays small.
    let script = "bomb() { [ $1 -gt 9 ] && { sleep 1000; return; }; sleep 0.02; bomb $(($1+1)) & bomb $(($1+1)) & wait; }; bomb 0";
    let run = Run::of(script).with(|launch| launch.limits.processes = Some(30));
    let exit = run.end().await;
    assert_eq!(exit.reason, Reason::Limit { what: Resource::Processes });
    assert_eq!(run.survivors(), [0; 0]);
}

#[tokio::test]
async fn a_run_that_takes_too_much_memory_over_all_its_processes_is_ended() {
    // Each of the four holds 20 MB, which is below the limit, as a line that has no end.
    let hoard = "{ head -c 20000000 /dev/zero; sleep 1000; } | tail -n 1 & ";
    let run = Run::of(&format!("{}wait", hoard.repeat(4)));
    let run = run.with(|launch| launch.limits.memory_bytes = Some(60 * 1024 * 1024));
    assert_eq!(run.end().await.reason, Reason::Limit { what: Resource::Memory });
}

#[tokio::test]
async fn one_process_alone_can_not_take_more_memory_than_the_run() {
    let run = Run::of("head -c 300000000 /dev/zero | tail -n 1 > /dev/null && echo got it");
    let run = run.with(|launch| launch.limits.memory_bytes = Some(64 * 1024 * 1024));
    assert!(!run.end().await.reason.is_success());
    assert_eq!(run.out(), "");
}

#[tokio::test]
async fn a_run_that_uses_up_its_processor_time_is_ended() {
    let run = Run::of("while :; do :; done").with(|launch| launch.limits.cpu_seconds = Some(1));
    assert_eq!(run.end().await.reason, Reason::Limit { what: Resource::Cpu });
}

#[tokio::test]
async fn processor_time_is_counted_over_processes_that_come_and_go() {
    let run = Run::of("while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done");
    let run = run.with(|launch| launch.limits.cpu_seconds = Some(1));
    assert_eq!(run.end().await.reason, Reason::Limit { what: Resource::Cpu });
}

#[tokio::test]
async fn open_files_core_files_and_niceness_are_set() {
    let run = Run::of("ulimit -n; ulimit -c; nice").with(|launch| {
        launch.limits.open_files = Some(77);
        launch.limits.cpu_weight = Some(80);
    });
    run.end().await;
    let niceness: i32 = String::from_utf8(std::process::Command::output(&mut nice()).unwrap().stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(run.out(), format!("77\n0\n{}\n", (niceness + 1).min(19)));
}

fn nice() -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "a test asks how nice it is itself")]
    std::process::Command::new("nice")
}

#[tokio::test]
async fn who_needs_more_open_files_than_is_usual_can_have_them() {
    let run = Run::of("ulimit -Sn; ulimit -Sn 90; ulimit -Sn");
    let run = run.with(|launch| launch.limits.usual_open_files = Some(80));
    run.end().await;
    assert_eq!(run.out(), "80\n90\n");
}
