//! The folder of one run: its files, who may read them, and how they are written whole.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::exit::Exit;
use crate::launch::Launch;
use crate::state::State;

/// The folder inside that belongs to the agent.
pub(crate) const FOR_AGENT: &str = "agent";
/// The agent's output, framed.
pub(crate) const OUTPUT: &str = "output.log";
/// How the run ended; there when it is over.
pub(crate) const EXIT: &str = "exit.json";
/// The environment of a container, as its engine reads it.
pub(crate) const ENGINE_ENV: &str = "container.env";
/// What covers folders that are hidden from a container.
pub(crate) const COVERS: &str = "covers";
/// The git worktree of the run.
pub(crate) const WORKTREE: &str = "worktree";

const LAUNCH: &str = "launch.json";
const STATE: &str = "state.json";
const KILL: &str = "kill.json";
const LOCK: &str = "lock";
const RESERVE: &str = "exit.reserve";

/// Space that is kept for `exit.json`, so that a full disk can't hide how a run ended.
const RESERVE_BYTES: usize = 16 * 1024;

/// A launch holds prompts and configuration; nothing else here comes near.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A run directory that exists and is ours.
#[derive(Clone, Debug)]
pub(crate) struct RunDir(PathBuf);

/// Held by whoever may say how the run goes on: its supervisor, or who finds that there is none.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: File,
}

impl RunDir {
    /// Makes the folder, unless the caller did, and puts the launch into it.
    pub(crate) fn make(launch: &Launch) -> Result<Self> {
        let path = &launch.run_dir;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| Error::io(format!("make the run directory {}", path.display()), error))?;
        let dir = Self::open(path)?;
        if dir.path(LAUNCH).exists() {
            let message = format!("start {} again in {}", launch.run, path.display());
            return Err(Error::new(Kind::Invalid, message).hint("Give every run a folder of its own."));
        }
        // Another user has to pass through to reach the agent's folder; what is beside it stays closed.
        let mode = if launch.user.is_some() { 0o711 } else { 0o700 };
        let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set.map_err(|error| Error::io(format!("protect {}", path.display()), error))?;
        dir.put(LAUNCH, launch)?;
        Ok(dir)
    }

    /// The folder of a run that has been launched.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let what = || format!("use the run directory {}", path.display());
        let about = fs::symlink_metadata(path).map_err(|error| Error::io(what(), error))?;
        // A folder that somebody else prepared could hold anything, links to our own files included.
        if !about.is_dir() || about.uid() != geteuid().as_raw() {
            let error = Error::new(Kind::Denied, format!("{}: it is not a folder of ours", what()));
            return Err(error.hint("Let nobody else write to the folder that runs are kept in."));
        }
        Ok(Self(path.to_owned()))
    }

    /// A path inside.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// What was asked to be run.
    pub(crate) fn launch(&self) -> Result<Launch> {
        self.get(LAUNCH)?.ok_or_else(|| {
            let message = format!("find a run in {}", self.0.display());
            Error::new(Kind::NotFound, message).hint("Look whether its folder was cleaned up.")
        })
    }

    /// Forgets what the agent's environment is: secrets are in it, and nobody needs it again once its supervisor
    /// knows it.
    pub(crate) fn forget_environment(&self, launch: &Launch) -> Result<()> {
        self.put(LAUNCH, &Launch { env: Environment::empty(), ..launch.clone() })?;
        // A container's engine was given it as a file.
        let _ = fs::remove_file(self.path(ENGINE_ENV));
        Ok(())
    }

    /// What the supervisor last said about itself.
    pub(crate) fn state(&self) -> Result<Option<State>> {
        self.get(STATE)
    }

    /// Says who supervises and what runs. A machine that loses power loses the run too, so it need not be
    /// on disk.
    pub(crate) fn set_state(&self, state: &State) -> Result<()> {
        self.put(STATE, state)
    }

    /// How the run ended, if it did.
    pub(crate) fn exit(&self) -> Result<Option<Exit>> {
        self.get(EXIT)
    }

    /// Says how the run ended, durably and whole.
    pub(crate) fn set_exit(&self, exit: &Exit) -> Result<()> {
        let text = to_text(exit)?;
        // On a full disk the space must be free before it can be used.
        let _ = fs::remove_file(self.path(RESERVE));
        let written = self.write(EXIT, &text, Durability::OnDisk);
        written.map_err(|error| Error::io(format!("write {}", self.path(EXIT).display()), error))
    }

    /// Keeps space for the end.
    pub(crate) fn reserve(&self) -> Result<()> {
        let written = self.write(RESERVE, &[0; RESERVE_BYTES], Durability::InMemory);
        written.map_err(|error| Error::io(format!("keep space in {}", self.0.display()), error))
    }

    /// What somebody asked for, if anybody did.
    pub(crate) fn kill_request<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.get(KILL)
    }

    /// Leaves a request for the supervisor.
    pub(crate) fn set_kill_request(&self, request: &impl Serialize) -> Result<()> {
        self.put(KILL, request)
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write_private(&self, name: &str, content: &[u8]) -> Result<()> {
        let written = self.write(name, content, Durability::InMemory);
        written.map_err(|error| Error::io(format!("write {}", self.path(name).display()), error))
    }

    /// Becomes the only one to say how the run goes on, or `None` if somebody is already.
    ///
    /// The kernel lets go of it however the process ends.
    pub(crate) fn claim(&self) -> Result<Option<Claim>> {
        let path = self.path(LOCK);
        let failed = |error: io::Error| Error::io(format!("claim {}", self.0.display()), error);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(no_follow())
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim { _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path(name);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format!("read {}", path.display()), error)),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|error| {
            let message = format!("understand {}: {error}", path.display());
            Error::new(Kind::Invalid, message).hint("It was cut short, or a newer Bellwether wrote it.")
        })
    }

    fn put(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.write_private(name, &to_text(value)?)
    }

    /// Readers see the old content or the new one, never a part.
    fn write(&self, name: &str, content: &[u8], durability: Durability) -> io::Result<()> {
        let temporary = self.path(&format!("{name}.new"));
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(content).and_then(|()| match durability {
            Durability::OnDisk => file.sync_all(),
            Durability::InMemory => Ok(()),
        });
        if let Err(error) = written.and_then(|()| fs::rename(&temporary, self.path(name))) {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        match durability {
            Durability::OnDisk => File::open(&self.0)?.sync_all(),
            Durability::InMemory => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
enum Durability {
    OnDisk,
    InMemory,
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path)?;
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn to_text(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value)
        .map_err(|error| Error::new(Kind::Invalid, format!("write down a run: {error}")))
}

/// Flags for opening a file of ours that a stranger may have replaced: no link is followed, and a FIFO does
/// not hold us up.
pub(crate) fn no_follow() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn launched() -> (tempfile::TempDir, RunDir) {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch::new("run-1", folder.path().join("run-1"), vec!["true".into()]).unwrap();
        let dir = RunDir::make(&launch).unwrap();
        (folder, dir)
    }

    #[test]
    fn nobody_else_can_read_a_launch() {
        let (_folder, dir) = launched();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(dir.path(LAUNCH)), 0o600);
        assert_eq!(mode(dir.root().to_owned()), 0o700);
    }

    #[test]
    fn an_environment_that_is_forgotten_is_on_no_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut launch = Launch::new("run-1", folder.path().join("run-1"), vec!["true".into()]).unwrap();
        launch.env = Environment::empty().with("KEY", "canary");
        let dir = RunDir::make(&launch).unwrap();
        dir.write_private(ENGINE_ENV, b"KEY=canary\n").unwrap();
        dir.forget_environment(&launch).unwrap();
        assert_eq!(dir.launch().unwrap().nonce, launch.nonce);
        for file in fs::read_dir(dir.root()).unwrap().flatten() {
            assert!(!fs::read_to_string(file.path()).unwrap().contains("canary"), "{file:?}");
        }
    }

    #[test]
    fn a_folder_is_used_for_one_run_only() {
        let (_folder, dir) = launched();
        let again = dir.launch().unwrap();
        assert_eq!(RunDir::make(&again).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn links_are_not_followed() {
        let (folder, dir) = launched();
        let link = folder.path().join("link");
        symlink(dir.root(), &link).unwrap();
        assert_eq!(RunDir::open(&link).unwrap_err().kind(), Kind::Denied);
        symlink(dir.path(LAUNCH), dir.path(STATE)).unwrap();
        assert!(dir.state().is_err());
        symlink("/etc/passwd", dir.path(LOCK)).unwrap();
        assert!(dir.claim().is_err());
    }

    #[test]
    fn only_one_at_a_time_has_the_claim() {
        let (_folder, dir) = launched();
        let first = dir.claim().unwrap();
        assert!(first.is_some());
        assert!(dir.claim().unwrap().is_none());
        drop(first);
        assert!(dir.claim().unwrap().is_some());
    }

    #[test]
    fn a_file_that_was_cut_short_is_an_error_and_one_that_is_not_there_is_none() {
        let (_folder, dir) = launched();
        assert!(dir.exit().unwrap().is_none());
        fs::write(dir.path(EXIT), "{\"run\":").unwrap();
        assert_eq!(dir.exit().unwrap_err().kind(), Kind::Invalid);
    }
}
