//! The clients of a cell, as the program that starts them sees them: processes of their own, killed with it at the latest.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bell_e2e::Server;
use bell_store::clock::boottime;
use rustix::process::Signal;

use crate::client::{Orders, Role};
use crate::flaw::Flaw;
use crate::history::{self, Entry, Recorder, What};
use crate::sink::{Guarding, Sink};
use crate::stage::{Side, Stage};

/// The first argument of this program when it is to be a client. The second are its [`Orders`].
pub const CLIENT: &str = "client";

/// Who comes once the fault is over.
pub const PROBE: u32 = 1_000;

/// Enough to compete on every key from both sides, and few enough for two processors.
const NEAR: u32 = 3;
const FAR: u32 = 2;

/// Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// How the clocks of near clients run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clocks {
    /// As the machine's.
    Right,
    /// As [`Crew::set_clocks`] says.
    Settable,
}

/// All clients of a cell.
pub struct Crew {
    program: PathBuf,
    folder: tempfile::TempDir,
    clocks: Clocks,
    flaw: Option<Flaw>,
    members: Vec<Member>,
    started: u32,
    /// Who came from the near side.
    near: Vec<u32>,
    /// Made before anybody comes: to change a database's journal, as its first user does, takes it alone.
    sink: Sink,
}

struct Member {
    client: u32,
    side: Side,
    process: Server,
}

impl Crew {
    /// Nobody yet. `program` becomes a client when its first argument is [`CLIENT`].
    ///
    /// # Errors
    /// If there is no place for what they write down.
    pub fn new(program: &Path, clocks: Clocks, flaw: Option<Flaw>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let sink = Sink::open(&sink_below(folder.path()), Guarding::Fences)?;
        let (program, members) = (program.to_owned(), Vec::new());
        let crew = Self { program, folder, clocks, flaw, members, started: 0, near: Vec::new(), sink };
        crew.set_clocks(0)?;
        Ok(crew)
    }

    /// Starts clients on both sides.
    ///
    /// # Errors
    /// If one can't be started.
    pub fn start(&mut self, stage: &dyn Stage) -> Result<()> {
        for (side, count) in [(Side::Near, NEAR), (Side::Far, FAR)] {
            for _ in 0..count {
                self.add(stage, side)?;
            }
        }
        Ok(())
    }

    /// Starts one more.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn add(&mut self, stage: &dyn Stage, side: Side) -> Result<()> {
        self.started += 1;
        if side == Side::Near {
            self.near.push(self.started);
        }
        let process = self.spawn(stage, side, self.started, Role::Work)?;
        self.members.push(Member { client: self.started, side, process });
        Ok(())
    }

    /// Waits until this many leases were granted.
    ///
    /// # Errors
    /// If a client ends, or it takes too long.
    pub fn warm_up(&mut self, grants: usize) -> Result<()> {
        let give_up = boottime() + PATIENCE;
        while self.grants()? < grants {
            ensure!(boottime() < give_up, "the clients got next to no lease");
            for Member { client, process, .. } in &mut self.members {
                ensure!(!process.has_ended(), "client {client} ended: {}", last_words(process));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Kills the client that has been there for longest, as `kill -9` does.
    ///
    /// # Errors
    /// If that can't be written down.
    pub fn kill_oldest(&mut self) -> Result<Side> {
        ensure!(!self.members.is_empty(), "nobody is left to be killed");
        let member = self.members.remove(0);
        // Before the signal: it may be noticed at once.
        let recorder =
            Recorder::open(&self.folder.path().join(format!("killed-{}", member.client)), member.client)?;
        recorder.write(What::Gone { session: None })?;
        drop(member.process);
        Ok(member.side)
    }

    /// Sends near clients a signal.
    ///
    /// # Errors
    /// If one has ended.
    pub fn signal_near(&self, signal: Signal) -> Result<()> {
        let mut near = self.members.iter().filter(|member| member.side == Side::Near);
        near.try_for_each(|member| Ok(member.process.signal(signal)?))
    }

    /// Sets the wall clocks of near clients this many hours ahead.
    ///
    /// # Errors
    /// If that can't be written down.
    pub fn set_clocks(&self, hours: i64) -> Result<()> {
        let draft = self.folder.path().join("clock.draft");
        std::fs::write(&draft, format!("{:+}\n", hours * 3_600))?;
        Ok(std::fs::rename(draft, self.clock())?)
    }

    /// Lets all clients stop by themselves.
    ///
    /// # Errors
    /// If one does not, or has failed.
    pub fn stop(&mut self) -> Result<()> {
        std::fs::write(self.stop_file(), "")?;
        let give_up = boottime() + PATIENCE;
        while let Some(running) = self.members.iter_mut().position(|member| !member.process.has_ended()) {
            ensure!(boottime() < give_up, "client {} does not stop", self.members[running].client);
            sleep(PAUSE);
        }
        for member in &self.members {
            let words = last_words(&member.process);
            ensure!(!words.contains("Error:"), "client {} failed: {words}", member.client);
        }
        self.members.clear();
        Ok(())
    }

    /// Lets a newcomer take every short key once.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn probe(&mut self, stage: &dyn Stage) -> Result<()> {
        let mut process = self.spawn(stage, Side::Near, PROBE, Role::Probe)?;
        let give_up = boottime() + PATIENCE * 2;
        while !process.has_ended() {
            ensure!(boottime() < give_up, "the probe does not end: {}", last_words(&process));
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Everything that was written down so far.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for file in std::fs::read_dir(self.folder.path())? {
            let path = file?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("client-") || name.starts_with("killed-") {
                entries.extend(history::read(&path)?);
            }
        }
        entries.sort_by_key(|entry| entry.at_us);
        Ok(entries)
    }

    /// Who came from the near side, also those who are gone.
    pub fn near(&self) -> &[u32] {
        &self.near
    }

    /// The guarded table.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    fn grants(&self) -> Result<usize> {
        let is_grant = |entry: &Entry| {
            matches!(entry.what, What::Answered { answer: history::Answer::Granted { .. }, .. })
        };
        Ok(self.entries()?.iter().filter(|entry| is_grant(entry)).count())
    }

    fn spawn(&self, stage: &dyn Stage, side: Side, client: u32, role: Role) -> Result<Server> {
        let orders = Orders {
            client,
            role,
            url: stage.url(side),
            record: self.folder.path().join(format!("client-{client}")),
            sink: sink_below(self.folder.path()),
            stop: self.stop_file(),
            flaw: self.flaw,
        };
        let arguments = [CLIENT.to_owned(), serde_json::to_string(&orders)?];
        if self.clocks == Clocks::Right || side == Side::Far {
            return Ok(Server::start(&self.program, "cargo", |_| arguments.to_vec()));
        }
        let library = faketime()?;
        let tampered = [
            format!("LD_PRELOAD={}", library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.clock().display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
            "NO_FAKE_STAT=1".to_owned(),
            self.program.display().to_string(),
        ];
        Ok(Server::start(Path::new("env"), "coreutils", |_| [&tampered[..], &arguments].concat()))
    }

    fn stop_file(&self) -> PathBuf {
        self.folder.path().join("stop")
    }

    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}

fn sink_below(folder: &Path) -> PathBuf {
    folder.join("sink.db")
}

/// Why a client ended, in a line.
fn last_words(process: &Server) -> String {
    process.log().lines().take(4).collect::<Vec<_>>().join(" ")
}

/// The library that shows a process another wall clock. The program of that name would stand between us and the
/// client, and be killed in its place.
fn faketime() -> Result<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")?.filter_map(|folder| Some(folder.ok()?.path()));
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    libraries
        .find(|library| library.exists())
        .context("libfaketime is not installed: apt-get install faketime")
}
