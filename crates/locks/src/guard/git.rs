//! Guarded pushes to a git remote: branches move with the fence, or not at all.
//!
//! The highest fence of a resource is kept on the remote, in a ref of its own under `refs/bell/fences/`. A push
//! looks at it, and then moves the branches and that ref in one atomic step, on the condition that the ref is
//! still what was looked at (`--atomic`, `--force-with-lease`). The ref moves with every push, also with one of
//! the same fence, so that the remote itself compares it: what the client compared could be old by then.
//!
//! What this can't do: a plain `git push` asks nobody, and whoever may delete the ref makes the remote forget. Where
//! that is not a matter of trust, the remote needs a hook that refuses pushes without the ref.
//!
//! Runs the `git` program, 2.29 or newer, with the user's own configuration, credentials and hooks.

mod error;
mod program;
mod record;
mod refspec;
mod remote;

use std::path::Path;
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;

pub use error::{GuardError, Rejected};
use program::Git;
use remote::{Remote, Seen};

use super::Stale;

/// How often a push is tried. Each time that it fails for no fault of its own, another push of the same resource
/// got through or was at it; ten in a row mean something else, such as a lock that a dead process left.
const TRIES: u32 = 10;
/// How much longer to pause after each try.
const PAUSE: Duration = Duration::from_millis(30);

/// What to push, and under which fence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// The name of a remote, or a URL.
    pub remote: String,
    /// Branches, as for `git push`.
    pub refspecs: Vec<String>,
    /// What the fence is a fence of.
    pub resource: Key,
    /// The fence.
    pub fence: Fence,
    /// What may happen to the commits that a branch has on the remote.
    pub update: Update,
}

/// What may happen to the commits that a branch has on the remote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Update {
    /// A branch only moves forward, by git's own rules.
    #[default]
    Forward,
    /// A branch is set, unless somebody else moves it at the same time.
    Set,
}

/// Pushes from the repository at `folder` if no later fence has been seen on the remote.
///
/// All refs move, or none. A process that is killed half-way has pushed or not, never half.
///
/// # Errors
/// [`GuardError::Stale`] if a later holder has pushed. Nothing was pushed then, nor after any other error but
/// [`GuardError::Unclear`].
pub fn push(folder: &Path, push: &Push) -> Result<(), GuardError> {
    let refspecs = refspec::checked(&push.refspecs, push.update)?;
    let git = Git::open(folder)?;
    let remote = Remote::find(&git, &push.remote)?;
    let mark = record::Mark::new(&push.resource, push.fence);
    let mark = git.store(&mark.to_string())?;
    let mut seen = remote.look(&git, &push.resource, &refspecs)?;
    for tried in 1..=TRIES {
        check(push.fence, &seen)?;
        let Err(failure) = remote.push(&git, &seen, &mark, &refspecs) else { return Ok(()) };
        let now = remote.look(&git, &push.resource, &refspecs).map_err(|_| failure.unclear(&remote))?;
        if now.mark.as_ref() == Some(&mark) {
            // The answer was lost, not the push.
            return Ok(());
        }
        check(push.fence, &now)?;
        if now.mark == seen.mark && !failure.is_contention() {
            return Err(failure.into_error(&remote));
        }
        seen = now;
        std::thread::sleep(PAUSE * tried);
    }
    Err(GuardError::Contended { remote: remote.shown(), tries: TRIES })
}

/// The highest fence that a resource has seen on a remote of the repository at `folder`.
///
/// # Errors
/// If it can't be read.
pub fn highest(folder: &Path, remote: &str, resource: &Key) -> Result<Option<Fence>, GuardError> {
    let git = Git::open(folder)?;
    let remote = Remote::find(&git, remote)?;
    Ok(remote.look(&git, resource, &[])?.fence)
}

fn check(given: Fence, seen: &Seen) -> Result<(), Stale> {
    match seen.fence {
        Some(seen) if seen > given => Err(Stale::refuse(given, seen)),
        _ => Ok(()),
    }
}
