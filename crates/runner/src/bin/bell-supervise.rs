//! The runner's hidden commands as a program of their own, for its tests.
//!
//! `bell` has the same under the same names. `spawn` starts the run that a file describes and then does
//! nothing, so that a test has a daemon to kill. The hooks write down what they are told, and with how many processes
//! of the run alive; they obey files in the run directory.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use async_trait::async_trait;
use bell_runner::env::Environment;
use bell_runner::error::{Error, Kind, Result};
use bell_runner::exit::{Exit, Reason};
use bell_runner::hooks::Hooks;
use bell_runner::launch::Launch;
use bell_runner::watchdog::Watchdog;
use bell_runner::{delegate, spawn, stage, supervise};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["__exec"] => stage::main(),
        ["__delegate"] => delegate::main(),
        ["__supervise", run_dir] => supervise::main(Path::new(run_dir), || Notebook {
            run_dir: PathBuf::from(run_dir),
            watchdog: RefCell::default(),
        }),
        ["spawn", launch] => start_and_stay(Path::new(launch)),
        _ => {
            eprintln!("usage: bell-supervise spawn <launch file>");
            ExitCode::FAILURE
        }
    }
}

fn start_and_stay(path: &Path) -> ExitCode {
    let launch: Option<Launch> = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Some(launch), Ok(runtime)) = (launch, runtime) else { return ExitCode::FAILURE };
    runtime.block_on(async {
        match spawn::spawn(Path::new("/proc/self/exe"), &launch).await {
            Ok(handle) => println!("{}", handle.pid()),
            Err(error) => println!("could not {error}"),
        }
        std::future::pending().await
    })
}

/// Writes what it hears into `hooks.txt`. Hangs before the end while a file `hang` is there, after it while `linger` is, at the
/// start while `wait` is; revokes the run when `revoke` is.
struct Notebook {
    run_dir: PathBuf,
    watchdog: RefCell<Option<Watchdog>>,
}

impl Notebook {
    fn note(&self, what: &str) {
        let path = self.run_dir.join("hooks.txt");
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            let _ = writeln!(
                file,
                "{what}, {} alive",
                if self.is_anybody_alive() { "somebody" } else { "nobody" }
            );
        }
    }

    fn is_anybody_alive(&self) -> bool {
        let Ok(launch) = Launch::read(&self.run_dir) else { return false };
        let mark = format!("BELL_RUN_MARK={}", launch.nonce);
        let has_mark = |path: PathBuf| {
            let environ = fs::read(path.join("environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        fs::read_dir("/proc").is_ok_and(|mut entries| entries.any(|e| e.is_ok_and(|e| has_mark(e.path()))))
    }

    async fn while_there(&self, name: &str) {
        while self.run_dir.join(name).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait(?Send)]
impl Hooks for Notebook {
    async fn starting(&self) -> Result<Environment> {
        if let Ok(why) = fs::read_to_string(self.run_dir.join("refuse")) {
            return Err(Error::new(Kind::Invalid, why));
        }
        self.while_there("wait").await;
        let file = self.run_dir.join("watchdog");
        let watchdog = Watchdog::start(move || boot_ms(&file));
        self.watchdog.replace(Some(watchdog.map_err(|error| Error::io("start the watchdog", error))?));
        Ok(Environment::empty().with("FROM_HOOK", "yes"))
    }

    async fn started(&self, pid: i32) {
        self.note(&format!("started {pid}"));
    }

    async fn revoked(&self) -> String {
        loop {
            if let Ok(why) = fs::read_to_string(self.run_dir.join("revoke")) {
                return why;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `deadline` has when nothing may live any more, `watchdog` when the watchdog kills this process.
    fn deadline(&self) -> Option<Duration> {
        boot_ms(&self.run_dir.join("deadline"))
    }

    async fn ending(&self, reason: &Reason) {
        self.note(&format!("ending {}", reason.word()));
        self.while_there("hang").await;
    }

    fn killing(&self) {
        self.watchdog.take();
    }

    async fn ended(&self, exit: &Exit) {
        self.note(&format!("ended {}", exit.reason.word()));
        self.while_there("linger").await;
    }
}

/// A moment that a test left, in milliseconds after the machine's start.
fn boot_ms(file: &Path) -> Option<Duration> {
    fs::read_to_string(file).ok()?.trim().parse().ok().map(Duration::from_millis)
}
