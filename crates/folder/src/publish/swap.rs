//! The one step that makes it visible.

use std::io;

use rustix::fs::FileType;

use super::source::Shape;
use super::workshop::{Draft, DraftKind, WORKSHOP, led_to};
use super::{Layout, Way};
use crate::dir::Dir;
use crate::error::{Error, Kind, Result, is_in_doubt, is_unsupported};
use crate::files::Onto;

/// How the destination is to be replaced, judged by what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A file over a file, a link, or nothing.
    File,
    /// A folder where nothing is.
    NewFolder,
    /// A folder over a folder.
    OldFolder,
    /// A link over a link, or where nothing is.
    Link,
    /// A link over a folder.
    LinkForFolder,
}

impl Target {
    /// Looks what is at the destination, and refuses what can't be replaced.
    pub(super) fn find(folder: &Dir, name: &str, shape: Shape, layout: Layout) -> Result<Self> {
        let seen = folder.look(name).map_err(folder.fault("look at", name))?.map(|seen| seen.kind);
        let is_version = led_to(folder, name).is_some();
        let refused = |reason: &str, hint: &str| {
            let path = folder.path().join(name);
            Err(Error::new(Kind::Invalid, format!("publish to {}: {reason}", path.display())).hint(hint))
        };
        match (shape, seen) {
            (Shape::File, None | Some(FileType::RegularFile | FileType::Symlink)) if !is_version => {
                Ok(Self::File)
            }
            (Shape::File, Some(FileType::Directory | FileType::Symlink)) => {
                refused("it is a folder, and a file is to be published", "Name a file in it.")
            }
            (Shape::Folder, _) if is_version => Ok(Self::Link),
            (Shape::Folder, None) => Ok(if layout == Layout::Linked { Self::Link } else { Self::NewFolder }),
            (Shape::Folder, Some(FileType::Directory)) => {
                Ok(if layout == Layout::Linked { Self::LinkForFolder } else { Self::OldFolder })
            }
            (Shape::Folder, Some(FileType::Symlink)) => refused(
                "it is a link that leads elsewhere",
                "Name the folder that the link leads to, or remove the link.",
            ),
            _ => refused("what is there can't be replaced by it", "Choose another destination."),
        }
    }

    pub(super) fn kind(self) -> DraftKind {
        match self {
            Self::File => DraftKind::File,
            Self::NewFolder | Self::OldFolder => DraftKind::Folder,
            Self::Link | Self::LinkForFolder => DraftKind::Version,
        }
    }

    /// Puts the draft in place, durably.
    pub(super) fn put(self, folder: &Dir, name: &str, draft: &Draft) -> Result<Way> {
        let done = match self {
            Self::File => swap(folder, name, draft, &draft.name, Onto::Anything).map(|()| Way::Renamed),
            Self::NewFolder => appear(folder, name, draft).map(|()| Way::Renamed),
            Self::OldFolder => {
                swap(folder, name, draft, &draft.name, Onto::Exchange).map(|()| Way::Exchanged)
            }
            Self::Link => link(folder, name, draft, Onto::Anything).map(|()| Way::Linked),
            Self::LinkForFolder => link(folder, name, draft, Onto::Exchange).map(|()| Way::Linked),
        };
        match done {
            Ok(way) => {
                folder.sync().map_err(|error| not_synced(folder, name, error))?;
                Ok(way)
            }
            Err(error) if is_unsupported(&error) => {
                let path = folder.path().join(name);
                let what =
                    format!("replace the folder {}: two folders can't change places here", path.display());
                Err(Error::new(Kind::Unsupported, what).hint(
                    "Move the folder away once and publish with --linked: then a link is replaced instead.",
                ))
            }
            Err(error) => Err(folder.fault("publish", name)(error)),
        }
    }
}

/// It is in place, and readers see it: nothing of it may be removed.
fn not_synced(folder: &Dir, name: &str, error: io::Error) -> Error {
    let what = format!("sync {}, which is in place", folder.path().join(name).display());
    Error::new(Kind::Unknown, what)
        .because(error)
        .hint("Look at the disk, then publish it again: until then a power cut may take it back.")
}

/// A folder where nothing is; without the flag, a rename of a folder replaces no more than an empty one.
fn appear(folder: &Dir, name: &str, draft: &Draft) -> io::Result<()> {
    match swap(folder, name, draft, &draft.name, Onto::Nothing) {
        Err(error) if is_unsupported(&error) => swap(folder, name, draft, &draft.name, Onto::Anything),
        other => other,
    }
}

fn link(folder: &Dir, name: &str, draft: &Draft, onto: Onto) -> io::Result<()> {
    let link = format!("{}.link", draft.nonce);
    let target = format!("{WORKSHOP}/{}", draft.name);
    let files = folder.files();
    files.symlink(target.as_ref(), draft.folder().at(link.as_ref()))?;
    let moved = draft.folder().rename(&link, folder, name, onto);
    let Err(error) = moved else { return Ok(()) };
    let is_there = led_to(folder, name).is_some_and(|version| version == draft.name);
    if may_have_happened(&error) && is_there { Ok(()) } else { Err(error) }
}

fn swap(folder: &Dir, name: &str, draft: &Draft, from: &str, onto: Onto) -> io::Result<()> {
    let ours = draft.id()?;
    let Err(error) = draft.folder().rename(from, folder, name, onto) else { return Ok(()) };
    let is_there = || folder.look(name).ok().flatten().is_some_and(|seen| seen.id == ours);
    if may_have_happened(&error) && is_there() { Ok(()) } else { Err(error) }
}

/// Only this process knows the draft's name: if it is gone, the rename happened and its reply got lost.
fn may_have_happened(error: &io::Error) -> bool {
    is_in_doubt(error) || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}
