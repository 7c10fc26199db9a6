//! Where a project keeps what is Bellwether's: the folder `.bell`, for its owner only.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::run::RunId;
use bell_project::locate::STATE_FOLDER;
use bell_runner::launch::agent_dir;
use bell_runner::process::{self, Identity};
use bell_store::clock;
use serde::{Deserialize, Serialize};

/// The socket of a run, in its agent's own folder.
pub const COUNTER: &str = "bell.sock";

/// Keeps what is here out of git. Whatever makes the folder writes it, so a folder without it may be an empty mount.
pub const IGNORE_FILE: &str = ".gitignore";

/// Who runs the project: the file beside the lock that keeps others out.
const OCCUPANT: &str = "daemon.json";

/// The daemon of a project, as it wrote itself down.
#[derive(Serialize, Deserialize)]
struct Occupant {
    #[serde(flatten)]
    process: Identity,
    /// Numbers of processes mean nothing after another boot.
    boot_id: String,
}

/// The folder `.bell` of a project.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// The place of the project in this folder. Nothing is made yet.
    pub fn of(project: &Path) -> Self {
        Self { root: project.join(STATE_FOLDER) }
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// If they can't be made.
    pub fn make(&self) -> io::Result<()> {
        self.make_root()?;
        for folder in [self.runs(), self.bin(), self.lock_waits()] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(())
    }

    /// Makes the folder itself, which git is to ignore: it has secrets in it.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn make_root(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        match File::options().write(true).create_new(true).mode(0o644).open(self.root.join(IGNORE_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made?.write_all(b"*\n"),
        }
    }

    /// Lets agents of other users pass to their own folders, and use the commands. They can't list what else is here, and
    /// every file of ours is closed to them by its own mode.
    ///
    /// # Errors
    /// If that can't be set.
    pub fn let_pass(&self) -> io::Result<()> {
        for (folder, mode) in [(self.root.clone(), 0o711), (self.runs(), 0o711), (self.bin(), 0o755)] {
            fs::set_permissions(folder, Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home of an agent that has one of its own.
    pub fn home(&self, agent: &AgentName) -> PathBuf {
        self.root.join("homes").join(agent.as_str())
    }

    /// Where runs have their folders.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The folder of a run.
    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.as_str())
    }

    /// The socket on which the supervisor of a run serves its agent. It is in the agent's own folder.
    pub fn counter(&self, run: &RunId) -> PathBuf {
        agent_dir(&self.run_dir(run)).join(COUNTER)
    }

    /// Removes what is left of runs that ended before `cutoff`: their logs above all. A git worktree stays, since
    /// it is there only because there is work in it. Answers how many were removed; what can't be is left.
    pub fn forget_runs(&self, cutoff: Wall) -> usize {
        let runs = fs::read_dir(self.runs()).into_iter().flatten().flatten();
        runs.filter(|run| ended(&run.path()).is_some_and(|at| at < cutoff) && forget(&run.path())).count()
    }

    /// What the next daemon needs to go on with jobs that wait for their locks: a file for each, named after the job.
    pub fn lock_waits(&self) -> PathBuf {
        self.root.join("lock-waits")
    }

    /// The socket of the daemon.
    pub fn socket(&self) -> PathBuf {
        self.root.join("bell.sock")
    }

    /// The API key of whoever owns the project, in clear, for this user only.
    pub fn api_key(&self) -> PathBuf {
        self.root.join("api-key")
    }

    /// Where the daemon answers: `{"url": …, "socket": …}`, there while it runs.
    pub fn gateway(&self) -> PathBuf {
        self.root.join("gateway.json")
    }

    /// The socket on which processes of this project tell the daemon what they have counted.
    pub fn tallies(&self) -> PathBuf {
        self.root.join("tally.sock")
    }

    /// What the daemon has seen of its stores (see [`crate::store_history`]).
    pub fn store_histories(&self) -> PathBuf {
        self.root.join("stores.json")
    }

    /// Writes a file for this user only. Whoever reads it at this moment finds the old one or the new one.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_private(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        self.write_fresh(path, text)?.sync_all()?;
        self.rename_fresh(path)
    }

    /// The same for a file that may be lost with the power: no disk is waited for.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_unsynced(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        self.write_fresh(path, text)?;
        self.rename_fresh(path)
    }

    fn write_fresh(&self, path: &Path, text: &[u8]) -> io::Result<File> {
        let fresh = self.fresh(path)?;
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text)?;
        Ok(file)
    }

    fn rename_fresh(&self, path: &Path) -> io::Result<()> {
        fs::rename(self.fresh(path)?, path)
    }

    fn fresh(&self, path: &Path) -> io::Result<PathBuf> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.root.join(format!(".{}", name.to_string_lossy())))
    }

    /// The folder of commands that agents find first in their `PATH`.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Keeps other daemons of this machine out of the project until the file is dropped; `None`: one is there.
    ///
    /// # Errors
    /// If the file can't be made or locked.
    pub fn occupy(&self) -> io::Result<Option<File>> {
        let file = File::options().create(true).append(true).open(self.root.join("daemon.lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes down that this process runs the project, for whoever wants it to stop.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn sign(&self) -> io::Result<()> {
        let occupant = Occupant { process: process::this()?, boot_id: clock::boot_id()? };
        self.write_private(&self.root.join(OCCUPANT), &serde_json::to_vec(&occupant)?)
    }

    /// The process of this machine that runs the project, if one does. One that died is not mistaken for another that got
    /// its number.
    pub fn occupant(&self) -> Option<Identity> {
        let occupant: Occupant = serde_json::from_slice(&fs::read(self.root.join(OCCUPANT)).ok()?).ok()?;
        let is_of_this_boot = clock::boot_id().is_ok_and(|boot| boot == occupant.boot_id);
        (is_of_this_boot && occupant.process.is_alive()).then_some(occupant.process)
    }
}

/// When a run ended: its supervisor writes this file last.
fn ended(run: &Path) -> Option<Wall> {
    let at = fs::metadata(run.join("exit.json")).and_then(|about| about.modified()).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Wall(u64::try_from(at.as_millis()).ok()?))
}

fn forget(run: &Path) -> bool {
    if !run.join("worktree").exists() {
        return fs::remove_dir_all(run).is_ok();
    }
    // The end goes last: a folder without it is not looked at again.
    for name in ["agent", "output.log", "stdin", "exit.json"] {
        let path = run.join(name);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        place.make().unwrap();
        (folder, place)
    }

    #[test]
    fn git_is_to_ignore_it_and_an_own_list_stays() {
        let (folder, place) = place();
        let ignore = folder.path().join(".bell/.gitignore");
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "*\n");
        fs::write(&ignore, "runs\n").unwrap();
        place.make().unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "runs\n");
    }

    #[test]
    fn who_signed_is_found_while_it_lives() {
        let (_folder, place) = place();
        assert_eq!(place.occupant(), None);
        place.sign().unwrap();
        assert_eq!(place.occupant().map(|daemon| daemon.pid), Some(std::process::id().cast_signed()));
    }

    #[test]
    fn a_number_that_was_given_to_another_process_or_in_another_boot_is_nobody() {
        let (_folder, place) = place();
        let (this, boot_id) = (process::this().unwrap(), clock::boot_id().unwrap());
        let earlier = Identity { start_ticks: this.start_ticks.wrapping_sub(1), ..this };
        let others = [
            Occupant { process: earlier, boot_id },
            Occupant { process: this, boot_id: "another".to_owned() },
        ];
        for other in others {
            fs::write(place.root.join(OCCUPANT), serde_json::to_vec(&other).unwrap()).unwrap();
            assert_eq!(place.occupant(), None);
        }
        fs::write(place.root.join(OCCUPANT), "{").unwrap();
        assert_eq!(place.occupant(), None);
    }
}
