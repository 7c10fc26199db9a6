//! A small disk that can be filled: a tmpfs of its own. Dropped, it is unmounted.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mounted disk.
pub struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// Mounts a disk of this size.
    ///
    /// # Errors
    /// If the system does not let us: it takes root.
    pub fn of(mebibytes: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = format!("size={mebibytes}M,mode=1777");
        let options = std::ffi::CString::new(options)?;
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), options.as_c_str())
            .context("could not mount a small disk, which takes root")?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no space.
    ///
    /// # Errors
    /// If that fails otherwise than for lack of space.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        let mut piece = 1 << 20;
        while piece > 0 {
            match ballast.write_all(&vec![0; piece]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => piece /= 4,
                Err(error) => return Err(error).context("could not fill the small disk"),
            }
        }
        Ok(())
    }

    /// Gives the space back.
    ///
    /// # Errors
    /// If that fails.
    pub fn free(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still has a file open there keeps only that.
        let _ = unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}
