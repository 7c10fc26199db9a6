//! A run of a shell script, and ways to look at it from outside.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bell_runner::Result;
use bell_runner::env::Environment;
use bell_runner::exit::Exit;
use bell_runner::handle::SupervisorHandle;
use bell_runner::launch::Launch;
use bell_runner::logs::{self, Stream};
use bell_runner::spawn::spawn;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than the machine's worst stall; no test waits this long unless it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_bell-supervise"))
}

pub(crate) struct Run {
    /// Where a script finds and leaves things: `$HERE`.
    pub(crate) folder: TempDir,
    pub(crate) launch: Launch,
}

impl Run {
    pub(crate) fn of(script: &str) -> Self {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("runs")).unwrap();
        let mut launch = Launch::new("run-1", folder.path().join("runs/run-1"), argv).unwrap();
        let path = std::env::var("PATH").unwrap();
        let here = folder.path().display().to_string();
        launch.env = Environment::empty().with("PATH", path).with("HERE", here);
        Self { folder, launch }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Launch)) -> Self {
        change(&mut self.launch);
        self
    }

    pub(crate) async fn start(&self) -> SupervisorHandle {
        self.try_start().await.unwrap()
    }

    pub(crate) async fn try_start(&self) -> Result<SupervisorHandle> {
        within(spawn(program(), &self.launch)).await
    }

    /// Starts it and waits for its end.
    pub(crate) async fn end(&self) -> Exit {
        within(self.start().await.wait()).await.unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the script left, once it has.
    pub(crate) async fn left(&self, name: &str) -> String {
        let path = self.path(name);
        until(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await
    }

    /// A process number that the script left.
    pub(crate) async fn pid(&self, name: &str) -> i32 {
        self.left(name).await.trim().parse().unwrap()
    }

    pub(crate) fn out(&self) -> String {
        self.text(Stream::Out)
    }

    pub(crate) fn text(&self, stream: Stream) -> String {
        let lines = logs::read(&self.launch.run_dir, 0, usize::MAX).unwrap().lines;
        let pieces = lines.iter().filter(|line| line.stream == stream);
        let bytes: Vec<u8> =
            pieces.flat_map(|line| line.text.iter().copied().chain(line.ends.then_some(b'\n'))).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What the hooks were told, line by line.
    pub(crate) fn hooks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.launch.run_dir.join("hooks.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The control group of the run, if it has one.
    pub(crate) fn group(&self) -> Option<PathBuf> {
        let state = fs::read(self.launch.run_dir.join("state.json")).ok()?;
        let state: serde_json::Value = serde_json::from_slice(&state).ok()?;
        state["cgroup"].as_str().map(PathBuf::from)
    }

    /// Living processes with the run's mark.
    pub(crate) fn survivors(&self) -> Vec<i32> {
        let mark = format!("BELL_RUN_MARK={}", self.launch.nonce);
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let has_mark = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        pids.filter(has_mark).filter(|pid| is_alive(*pid)).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for pid in self.survivors() {
            kill(pid, Signal::KILL);
        }
        // A supervisor that was killed leaves it to the next daemon.
        self.group().into_iter().for_each(|group| drop(fs::remove_dir(group)));
    }
}

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.expect("took longer than a minute")
}

/// Looks again and again until there is something to see.
pub(crate) async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}
