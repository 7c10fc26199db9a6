//! What a file system really does, tried out in a folder on it, and what may be built on that.
//!
//! One machine can try what it sees itself; what holds between machines is tried by two of them at once
//! ([`peer`]). No trial can show what a power cut leaves, so the mount and its options are judged too.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `trials` | one function for each thing that is tried |
//! | `judge` | what the type and the options of a mount say, and which features may be used |
//! | [`peer`] | the same from two machines |

mod judge;
pub mod peer;
mod trials;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use bell_store::mount::Mount;
use serde::Serialize;

use crate::dir::Dir;
use crate::error::Result;
use crate::files::Kernel;
use crate::process::nonce;

/// How far something can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Safe,
    /// It holds if what is said beside it does.
    Conditions,
    /// It does not hold.
    Unsafe,
}

impl Verdict {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Conditions => "conditions",
            Self::Unsafe => "unsafe",
        }
    }
}

/// What one trial showed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was tried.
    pub about: &'static str,
    /// How far it can be relied on.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
}

/// Whether a part of Bellwether may be used here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Use {
    /// The command.
    pub feature: &'static str,
    /// Whether it may be used.
    pub verdict: Verdict,
    /// Why, and under which conditions.
    pub because: String,
}

/// Everything that was found out about a folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// The type of the file system.
    pub fs_type: String,
    /// Where it is mounted.
    pub mounted_at: String,
    /// Its options.
    pub options: Vec<String>,
    /// What the trials showed.
    pub findings: Vec<Finding>,
    /// What may be used.
    pub uses: Vec<Use>,
}

impl Report {
    /// The worst verdict over what may be used.
    pub fn worst(&self) -> Verdict {
        self.uses.iter().map(|used| used.verdict).max().unwrap_or(Verdict::Unsafe)
    }
}

/// Tries a folder out. A folder of its own is made in it and removed again.
///
/// # Errors
/// If nothing can be tried: the folder can't be opened or written to.
pub fn probe(path: &Path) -> Result<Report> {
    let folder = Dir::open(path, Arc::new(Kernel))?;
    let mount = Mount::of(folder.as_fd()).unwrap_or_else(|_| unknown_mount());
    let name = format!(".bell-probe-{}", nonce());
    let ground = folder.ensure(&name).map_err(folder.fault("make the folder", &name))?;
    let findings = trials::all(&ground);
    clear(&folder, &name);
    let mut findings: Vec<Finding> = findings.into_iter().chain(judge::options(&mount)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let uses = judge::uses(&mount, &findings);
    Ok(Report { fs_type: mount.fs_type, mounted_at: mount.point, options: mount.options, findings, uses })
}

fn unknown_mount() -> Mount {
    Mount { fs_type: "unknown".to_owned(), point: String::new(), options: Vec::new() }
}

/// Removes a folder of trials; they make no folders in folders.
fn clear(folder: &Dir, name: &str) {
    if let Ok(ground) = folder.folder(name) {
        for entry in ground.entries().unwrap_or_default() {
            let _ = ground.remove(&entry.name).or_else(|_| ground.remove_folder(&entry.name));
        }
    }
    let _ = folder.remove_folder(name);
}
