//! Trouble of the machine that passes (S15): what has not begun keeps its place and is tried again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, Running, eventually};

/// A fleet of one agent that notes its job, and its daemon.
fn fleet() -> (Place, Running) {
    let place = Place::sqlite();
    place.agent("good", "echo \"$BELL_JOB\" >> done", "scale = 1");
    let daemon = place.up();
    (place, daemon)
}

/// Jobs that come while nothing can start are started when it can, in the order in which they came.
fn are_started_once_it_is_over(place: &Place, is_over: impl FnOnce()) {
    let before = place.lines("done").len();
    let jobs = [place.ask("good"), place.ask("good")];
    eventually("it is tried more than once", || {
        place.ends().iter().filter(|end| *end == "unstartable").count() > 1
    });
    let why = place.run(&["why", &jobs[0]]).expect(0).out;
    assert!(why.contains("not started") && why.contains("in a row"), "{why}");
    assert_eq!((place.undone(), place.lines("done").len()), (vec![], before));
    is_over();
    eventually("both are done", || place.lines("done").len() == before + 2 && place.is_idle());
    assert_eq!(place.lines("done")[before..], jobs);
}

fn run(program: &str, arguments: &[&str]) {
    #[expect(clippy::disallowed_methods, reason = "a test makes trouble by the system's own programs")]
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

#[test]
fn a_folder_of_runs_that_is_gone_or_in_the_way_loses_no_job() {
    let (place, daemon) = fleet();
    let runs = place.path(".bell/runs");
    remove_all(&runs);
    assert_eq!(place.run_agent("good")["fate"]["end"]["end"], "completed", "the folder is made again");
    remove_all(&runs);
    fs::write(&runs, "in the way").unwrap();
    are_started_once_it_is_over(&place, || fs::remove_file(&runs).unwrap());
    daemon.stop();
}

/// A supervisor may still write into the folder of its run when that is over.
fn remove_all(folder: &Path) {
    eventually("the folder is removed", || fs::remove_dir_all(folder).is_ok() || !folder.exists());
}

/// A disk of its own for a folder, with no room left.
struct FullDisk(PathBuf);

impl FullDisk {
    fn over(folder: &Path) -> Self {
        let path = folder.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", "size=128k,mode=700", "bell-test", &path]);
        // A write that finds no room leaves what had some.
        let _ = fs::write(folder.join("filler"), vec![0; 1 << 20]);
        Self(folder.to_owned())
    }

    fn clear(&self) {
        run("mount", &["-o", "remount,size=8m", &self.0.display().to_string()]);
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy", &self.0.display().to_string()]);
    }
}

#[test]
fn a_disk_that_is_full_when_runs_start_loses_no_job() {
    let (place, daemon) = fleet();
    let disk = FullDisk::over(&place.path(".bell/runs"));
    are_started_once_it_is_over(&place, || disk.clear());
    daemon.stop();
}

#[test]
fn a_daemon_without_descriptors_loses_no_job() {
    let (place, daemon) = fleet();
    let limit = |of: &str| run("prlimit", &["--pid", &daemon.pid().to_string(), &format!("--nofile={of}")]);
    // What is open stays open; nothing new can be.
    limit("3:");
    are_started_once_it_is_over(&place, || limit("1024:"));
    daemon.stop();
}

#[test]
fn a_store_of_locks_that_is_not_there_when_runs_start_loses_no_job() {
    let place = Place::sqlite();
    place.write("config.toml", "locks = \"sqlite:disk/locks.db\"\n");
    place.agent("good", "echo \"$BELL_JOB\" >> done", "scale = 1");
    fs::create_dir(place.path("disk")).unwrap();
    let daemon = place.up();
    assert_eq!(place.run_agent("good")["fate"]["end"]["end"], "completed");
    fs::rename(place.path("disk"), place.path("elsewhere")).unwrap();
    let jobs = [place.ask("good"), place.ask("good")];
    eventually("it is tried more than once", || {
        place.ends().iter().filter(|end| *end == "unstartable").count() > 1
    });
    assert_eq!((place.undone(), place.lines("done").len()), (vec![], 1));
    fs::rename(place.path("elsewhere"), place.path("disk")).unwrap();
    eventually("both are done", || place.lines("done").len() == 3 && place.is_idle());
    assert_eq!(place.lines("done")[1..], jobs);
    daemon.stop();
}

/// The processes that are to become the agents of a project: children of its supervisors, under the shim's name.
fn shims(place: &Place) -> Vec<i32> {
    let folder = place.folder.path().display().to_string();
    let words = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split(' ').nth(2)?.parse::<i32>().ok()
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| words(*pid).contains("\0__exec\0"))
        .filter(|pid| parent(*pid).is_some_and(|parent| words(parent).contains(&folder)))
        .collect()
}

#[test]
fn an_agent_that_is_killed_before_it_begins_loses_no_job() {
    let (place, daemon) = fleet();
    let (mut jobs, mut killed) = (Vec::new(), 0);
    // The moment between the shim's start and the agent's is short: jobs are asked for until one is hit.
    eventually("the shim of a job is killed", || {
        jobs.push(place.ask("good"));
        while killed == 0 && place.lines("done").len() < jobs.len() {
            let pids = shims(&place).into_iter().filter_map(Pid::from_raw);
            killed += pids.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count();
        }
        killed > 0
    });
    eventually("all are done", || place.lines("done").len() == jobs.len() && place.is_idle());
    assert_eq!((place.lines("done"), place.undone()), (jobs, vec![]));
    let ends = place.ends();
    assert_eq!(ends.iter().filter(|end| *end == "unstartable").count(), killed, "{ends:?}");
    daemon.stop();
}

/// A pipe that is full and never read.
fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b' '; 4_096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn a_daemon_whose_log_nothing_reads_goes_on() {
    let place = Place::sqlite();
    place.agent("good", "echo \"$BELL_JOB\" >> done", "scale = 1");
    let (_unread, writer) = full_pipe();
    let mut command = place.command(&["--json", "up"]);
    command.env("BELL_LOG", "debug").stdout(Stdio::null()).stderr(writer);
    let mut daemon = command.spawn().unwrap();
    drop(command);
    let jobs = [place.ask("good"), place.ask("good"), place.ask("good")];
    eventually("all are done", || place.lines("done") == jobs && place.is_idle());
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    eventually("it stops", || daemon.try_wait().unwrap().is_some_and(|status| status.success()));
}
