//! The few calls that change a file system, in one place, so that tests can put faults beneath the very
//! code that runs.
//!
//! Every name is looked up below an open folder, and no call follows a link. [`Kernel`] does what the kernel
//! does; a layer of a test may answer that a rename failed although it happened, or end the process between
//! two calls.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

/// A name in an open folder.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The folder.
    pub folder: BorrowedFd<'a>,
    /// The name, without a slash.
    pub name: &'a OsStr,
}

/// What a rename does with what is at its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onto {
    /// Replaces it.
    Anything,
    /// Fails if there is something. Not every file system can.
    Nothing,
    /// Swaps the two. Not every file system can.
    Exchange,
}

/// What is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A file or a link.
    File,
    /// An empty folder.
    Folder,
}

/// The calls that change a file system.
pub trait Files: Send + Sync + fmt::Debug {
    /// Moves a name.
    ///
    /// # Errors
    /// Those of the kernel.
    fn rename(&self, from: At<'_>, to: At<'_>, onto: Onto) -> io::Result<()> {
        let flags = match onto {
            Onto::Anything => {
                return Ok(rustix::fs::renameat(from.folder, from.name, to.folder, to.name)?);
            }
            Onto::Nothing => RenameFlags::NOREPLACE,
            Onto::Exchange => RenameFlags::EXCHANGE,
        };
        Ok(rustix::fs::renameat_with(from.folder, from.name, to.folder, to.name, flags)?)
    }

    /// Gives a file a second name. Fails if there is something of that name.
    ///
    /// # Errors
    /// Those of the kernel.
    fn link(&self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        Ok(rustix::fs::linkat(from.folder, from.name, to.folder, to.name, AtFlags::empty())?)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of the kernel.
    fn symlink(&self, target: &OsStr, at: At<'_>) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, at.folder, at.name)?)
    }

    /// Makes a file that was not there, for writing.
    ///
    /// # Errors
    /// Those of the kernel.
    fn create(&self, at: At<'_>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Ok(File::from(rustix::fs::openat(at.folder, at.name, flags, mode)?))
    }

    /// Makes a folder that was not there.
    ///
    /// # Errors
    /// Those of the kernel.
    fn make_folder(&self, at: At<'_>) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(at.folder, at.name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// Those of the kernel.
    fn remove(&self, at: At<'_>, what: What) -> io::Result<()> {
        let flags = if what == What::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(at.folder, at.name, flags)?)
    }

    /// Makes a file or a folder durable.
    ///
    /// # Errors
    /// Those of the kernel. After one, what was written is in doubt for good.
    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }
}

/// The kernel's own calls.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Files for Kernel {}
