//! Publishing: a file or a whole folder appears as it should be, or not at all.
//!
//! Everything is written and synced in `.bell-publish/` beside the destination, and one rename puts it in
//! place. Whoever opens the destination gets the old or the new; whoever reads several files of a folder
//! opens the folder once and reads below it.
//!
//! | what is published | how it gets in place |
//! | --- | --- |
//! | a file | rename over the old one |
//! | a folder, where there is none | rename |
//! | a folder over another | the two change places; where the file system can't, it is refused |
//! | a folder as a version, [`Layout::Linked`] | a link to the new version is renamed over the old link |
//!
//! | module | what is in it |
//! | --- | --- |
//! | `source` | what to publish, and lists of files that appear together |
//! | `copy` | copying and removing trees, following nothing |
//! | `workshop` | where drafts lie, whose they are, and clearing up after the dead |
//! | `swap` | the one step that makes it visible |
//! | `fence` | refusing whoever lost its lock |

mod copy;
mod fence;
mod source;
mod swap;
mod workshop;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bell_core::lock::Fence;
use serde::Serialize;

use crate::dir::Dir;
use crate::error::{Error, Kind, Result};
use crate::files::{Files, Kernel};

pub use fence::FENCE_PATIENCE;
pub use source::Source;

use copy::Copied;
use swap::Target;
use workshop::Workshop;

/// How a folder is put in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// As a folder; as a version if the destination is a link to one already.
    #[default]
    Plain,
    /// As a version that the destination is a link to. Works on every file system.
    Linked,
}

/// How to publish.
#[derive(Clone, Debug)]
pub struct Publish {
    fence: Option<Fence>,
    layout: Layout,
    files: Arc<dyn Files>,
}

impl Default for Publish {
    fn default() -> Self {
        Self { fence: None, layout: Layout::Plain, files: Arc::new(Kernel) }
    }
}

impl Publish {
    /// Refuses if a higher fence has been seen at the destination, and remembers this one.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// How a folder is put in place.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Over another layer of files, for tests.
    #[must_use]
    pub fn over(mut self, files: Arc<dyn Files>) -> Self {
        self.files = files;
        self
    }
}

/// What was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Published {
    /// How many files.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How it got in place.
    pub way: Way,
    /// Drafts of publishers that died, removed on the way.
    pub leftovers: u64,
}

/// How something got in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// By a rename.
    Renamed,
    /// By changing places with the old folder.
    Exchanged,
    /// By a link that points to the new version.
    Linked,
}

/// Publishes `source` at `to`.
///
/// Readers see the old or the new, whole; so does whoever looks after a crash or a power cut at any moment.
/// Durable before it returns.
///
/// # Errors
/// [`Kind::Stale`] if a later fence has been seen at `to`. After any error but [`Kind::Unknown`] the
/// destination is as it was.
pub fn publish(source: &Source, to: &Path, how: &Publish) -> Result<Published> {
    let (parent, name) = split(to)?;
    source.check(&parent)?;
    let folder = Dir::open(&parent, Arc::clone(&how.files))?;
    let target = Target::find(&folder, &name, source.shape(), how.layout)?;
    let (workshop, leftovers) = Workshop::open(&folder, &name)?;
    let draft = workshop.draft(target.kind())?;
    let put = draft.fill(source).and_then(|copied| {
        // Held over the swap: whoever has a higher fence waits, and comes after it.
        let _guard = how.fence.map(|fence| fence::raise(&folder, &name, fence)).transpose()?;
        Ok((copied, target.put(&folder, &name, &draft)?))
    });
    match put {
        Ok((Copied { files, bytes }, way)) => {
            workshop.tidy(draft, way);
            Ok(Published { files, bytes, way, leftovers })
        }
        Err(error) => {
            // What may be published after all must not be removed.
            if error.kind() != Kind::Unknown {
                draft.discard();
            }
            Err(error)
        }
    }
}

/// The folder that a destination is in, by its real path, and its name there.
fn split(to: &Path) -> Result<(PathBuf, String)> {
    let refused = |reason: &str| {
        Error::new(Kind::Invalid, format!("publish to {}: {reason}", to.display()))
            .hint("Name a file or folder in a folder that exists.")
    };
    let name = to.file_name().ok_or_else(|| refused("it has no name"))?;
    let name = name.to_str().ok_or_else(|| refused("its name is not UTF-8"))?;
    if name.starts_with('.') || name.chars().any(char::is_control) {
        return Err(refused("its name is hidden or has control characters in it"));
    }
    if name.len() > crate::name::MAX_NEW_NAME_BYTES {
        return Err(refused("its name is longer than 200 bytes"));
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(|error| Error::io("find the folder", parent, error))?;
    Ok((parent, name.to_owned()))
}
