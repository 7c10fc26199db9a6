//! The project of the story: its files, its daemon, and the commands that are given to it. All of them are real: the
//! same program, started again.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bell_project::samples::SETTINGS_OF_ROOT;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::run::start::this_program;

/// The files of the project, and whether they are run.
const FILES: [(&str, &str); 6] = [
    ("agents/clock/SKILL.md", include_str!("agents/clock/SKILL.md")),
    ("agents/clock/run", include_str!("agents/clock/run")),
    ("agents/desk/SKILL.md", include_str!("agents/desk/SKILL.md")),
    ("agents/desk/run", include_str!("agents/desk/run")),
    ("agents/chief/SKILL.md", include_str!("agents/chief/SKILL.md")),
    ("agents/chief/run", include_str!("agents/chief/run")),
];

/// What a surrounding run has set: the story is not a part of it.
const OF_OTHERS: [&str; 7] =
    ["BELL_STORE", "BELL_PROJECT", "BELL_SESSION", "BELL_URL", "BELL_TOKEN", "BELL_RUN", "BELL_LOG"];

/// How long the daemon may take to let its runs finish, and to end them.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// How long it may take to hear that it should.
const HEARS_WITHIN: Duration = Duration::from_millis(200);

/// How to stop a daemon.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// What runs may finish.
    LetFinish,
    /// What runs is ended.
    None,
}

/// A project with a daemon that runs it.
pub(super) struct Site {
    folder: PathBuf,
    url: String,
    daemon: Child,
}

impl Site {
    /// Writes the project and starts its daemon. Returns when it is ready.
    pub(super) async fn start(folder: &Path, url: &str) -> Result<Self, String> {
        write(folder).map_err(|error| format!("could not write the project: {error}"))?;
        let daemon = command(url, &["--json", "up", &folder.display().to_string()]);
        let daemon = Command::from(daemon).kill_on_drop(true).stderr(Stdio::null()).spawn();
        let mut daemon = daemon.map_err(|error| format!("could not start a daemon: {error}"))?;
        let mut line = String::new();
        if let Some(out) = &mut daemon.stdout {
            let read = BufReader::new(out).read_line(&mut line).await;
            read.map_err(|error| format!("could not hear the daemon: {error}"))?;
        }
        let site = Self { folder: folder.to_owned(), url: url.to_owned(), daemon };
        if line.is_empty() { Err("the daemon did not start".to_owned()) } else { Ok(site) }
    }

    /// The process of the daemon.
    pub(super) fn daemon(&self) -> u32 {
        self.daemon.id().unwrap_or_default()
    }

    /// A file of the project.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The lines of a file that agents write, each taken apart into its words. A line that is being written is left
    /// for later.
    pub(super) fn lines(&self, name: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }

    /// `bell run AGENT` with these options, as a process of its own. Answers what it says.
    pub(super) async fn run(&self, agent: &str, options: &[&str]) -> Result<Value, String> {
        let project = self.folder.display().to_string();
        let arguments = [&["--json", "run", agent, "--project", &project], options].concat();
        let mut child = Command::from(command(&self.url, &arguments))
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("could not start a process: {error}"))?;
        let mut said = String::new();
        if let Some(out) = &mut child.stdout {
            let read = out.read_to_string(&mut said).await;
            read.map_err(|error| format!("could not hear bell run {agent}: {error}"))?;
        }
        serde_json::from_str(&said).map_err(|error| format!("bell run {agent} said {said:?}: {error}"))
    }

    /// Tells the daemon to stop, and answers whether it did so by itself. Whatever still runs after that is ended.
    pub(super) async fn stop(&mut self, patience: Patience) -> bool {
        let first = match patience {
            Patience::LetFinish => STOPS_WITHIN,
            Patience::None => HEARS_WITHIN,
        };
        for patience in [first, STOPS_WITHIN] {
            self.signal(Signal::TERM);
            if let Ok(Ok(status)) = tokio::time::timeout(patience, self.daemon.wait()).await {
                return status.success();
            }
        }
        self.signal(Signal::KILL);
        false
    }

    fn signal(&self, signal: Signal) {
        let pid = self.daemon.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

fn command(url: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = this_program(&[&["--store", url], arguments].concat());
    for name in OF_OTHERS {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text)?;
        let mode = if name.ends_with("/run") { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    if rustix::process::geteuid().is_root() {
        fs::write(folder.join("config.toml"), SETTINGS_OF_ROOT)?;
    }
    Ok(())
}
