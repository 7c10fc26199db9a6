//! The output of a run: complete, streamed, bounded.

use std::fs;

use bell_runner::logs::{self, Stream};

use crate::support::{Run, is_alive, until, within};

#[tokio::test]
async fn both_streams_are_complete_after_the_end() {
    let run =
        Run::of("i=0; while [ $i -lt 2000 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done; printf end");
    run.end().await;
    let expected = |word: &str| (0..2000).map(|i| format!("{word} {i}\n")).collect::<String>();
    assert_eq!(run.out(), expected("line") + "end");
    assert_eq!(run.text(Stream::Err), expected("err"));
}

#[tokio::test]
async fn output_is_followed_while_the_run_goes_on_and_ends_with_it() {
    let run = Run::of("echo one; printf 'two?'; while [ ! -e $HERE/go ]; do sleep 0.02; done; echo three");
    let handle = run.start().await;
    let mut follow = logs::follow(&run.launch.run_dir, 0).unwrap();
    let mut seen = String::new();
    while seen != "onetwo?" {
        let page = within(follow.next(1)).await.unwrap().unwrap();
        seen.extend(page.lines.iter().map(|line| String::from_utf8_lossy(&line.text)));
    }
    let middle = follow.offset();
    fs::write(run.path("go"), "").unwrap();
    while let Some(page) = within(follow.next(1000)).await.unwrap() {
        seen.extend(page.lines.iter().map(|line| String::from_utf8_lossy(&line.text)));
    }
    assert_eq!(seen, "onetwo?three");
    within(handle.wait()).await.unwrap();
    let again = logs::read(&run.launch.run_dir, middle, 1000).unwrap();
    assert_eq!(again.lines[0].text, b"three");
    assert!(again.is_last);
}

#[tokio::test]
async fn an_agent_that_prints_without_end_costs_neither_disk_nor_memory() {
    let script = "head -c 200000000 /dev/zero | tr '\\0' x | fold -w 100; echo last words; \
                  echo > $HERE/done; while [ ! -e $HERE/go ]; do sleep 0.02; done";
    let run = Run::of(script).with(|launch| launch.limits.output_bytes = 1_000_000);
    let handle = run.start().await;
    run.left("done").await;
    let status = fs::read_to_string(format!("/proc/{}/status", handle.pid())).unwrap();
    let peak_kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak_kib < 20 * 1024, "{peak_kib} KiB");
    fs::write(run.path("go"), "").unwrap();
    let exit = within(handle.wait()).await.unwrap();
    assert!(exit.truncated && exit.output_bytes > 200_000_000);
    let size = fs::metadata(run.launch.run_dir.join("output.log")).unwrap().len();
    assert!((1_000_000..1_200_000).contains(&size), "{size}");
    assert!(run.out().ends_with("last words\n"));
    assert!(run.text(Stream::Log).contains("left out"));
}

#[tokio::test]
async fn an_agent_that_closes_its_output_goes_on() {
    let run = Run::of(
        "echo before; exec >&- 2>&-; echo $$ > $HERE/pid; while [ ! -e $HERE/go ]; do sleep 0.02; done",
    );
    let handle = run.start().await;
    assert!(is_alive(run.pid("pid").await));
    fs::write(run.path("go"), "").unwrap();
    assert!(within(handle.wait()).await.unwrap().reason.is_success());
    assert_eq!(run.out(), "before\n");
}

#[tokio::test]
async fn an_unfinished_line_is_shown_while_the_agent_waits() {
    let run = Run::of("printf 'continue? '; while [ ! -e $HERE/go ]; do sleep 0.02; done");
    let handle = run.start().await;
    until(|| (run.out() == "continue? ").then_some(())).await;
    fs::write(run.path("go"), "").unwrap();
    within(handle.wait()).await.unwrap();
}
