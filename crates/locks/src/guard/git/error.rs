//! Why a guarded push did not happen.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::program::Run;
use super::remote::Remote;
use crate::guard::Stale;

/// Why a guarded push did not happen. What git said is in it, without credentials.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was pushed.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A remote or refspec that is not passed on to git.
    #[error("could not use {given:?}: {reason}")]
    Argument {
        /// As given.
        given: String,
        /// Why not.
        reason: &'static str,
    },
    /// Git can't be run.
    #[error("could not run git: {0}")]
    NoGit(#[source] io::Error),
    /// Git is too old.
    #[error("could not use git: it is {version:?}, and 2.29 is the oldest that will do")]
    TooOld {
        /// What it says of itself.
        version: String,
    },
    /// There is nothing to push from.
    #[error("could not find a repository in {}: {said}", folder.display())]
    NotARepository {
        /// Where it was looked for.
        folder: PathBuf,
        /// What git said.
        said: String,
    },
    /// The repository can't be written.
    #[error("could not write to the repository: {said}")]
    Local {
        /// What git said.
        said: String,
    },
    /// The remote has several URLs to push to, which can't be moved together.
    #[error("could not push to {remote}: it has several URLs, and they would not move together")]
    SeveralUrls {
        /// The remote.
        remote: String,
    },
    /// The remote can't be read: it is not there, does not answer, or refuses us. Nothing was pushed.
    #[error("could not read {remote}: {said}")]
    Remote {
        /// The remote.
        remote: String,
        /// What git said.
        said: String,
    },
    /// The repository has nothing of that name to push. Nothing was pushed.
    #[error("could not find what to push: {said}")]
    NoSource {
        /// What git said.
        said: String,
    },
    /// The remote can't move refs together. Nothing was pushed.
    #[error("could not push to {remote}: it can't move several refs in one step")]
    NotAtomic {
        /// The remote.
        remote: String,
    },
    /// The remote has commits that would be lost. Nothing was pushed.
    #[error("could not push to {remote}: it has commits that this push would lose: {}", list(refs))]
    Behind {
        /// The remote.
        remote: String,
        /// The branches.
        refs: Vec<Rejected>,
    },
    /// The remote refuses, by a hook or a setting. Nothing was pushed.
    #[error("could not push to {remote}: it refuses {}; git said: {said}", list(refs))]
    Refused {
        /// The remote.
        remote: String,
        /// The refs and why.
        refs: Vec<Rejected>,
        /// What git said.
        said: String,
    },
    /// Others were pushing the same, again and again. Nothing was pushed.
    #[error("could not push to {remote}: something else got in between {tries} times")]
    Contended {
        /// The remote.
        remote: String,
        /// How often it was tried.
        tries: u32,
    },
    /// What is kept on the remote can't be trusted. Nothing was pushed.
    #[error("could not read the fence in {name} of {remote}: {reason}")]
    Damaged {
        /// The remote.
        remote: String,
        /// The ref.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// No answer came for the refs: it may have happened.
    #[error("could not learn whether the push to {remote} happened: {said}")]
    Unclear {
        /// The remote.
        remote: String,
        /// What git said.
        said: String,
    },
}

impl GuardError {
    /// What to do next: one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Stale(_) => "Stop the work at once: its lease is over and a newer holder has pushed.",
            Self::Argument { .. } => {
                "Name a remote or its URL, and branches as for git push: main, HEAD:main."
            }
            Self::NoGit(_) | Self::TooOld { .. } => "Install git 2.29 or newer and have it on the PATH.",
            Self::NotARepository { .. } => "Run it inside the repository that has the commits.",
            Self::Local { .. } => "Look at the disk and at who owns the repository; then try again.",
            Self::SeveralUrls { .. } => "Push to one of its URLs by name.",
            Self::Remote { .. } => "Look at its URL (git remote -v), and that git ls-remote works with it.",
            Self::NoSource { .. } => "Look at the names with git branch --all, and name one that is there.",
            Self::NotAtomic { .. } => {
                "Push to a remote that supports --atomic: ssh, a local path, or HTTP with a server that has it switched on."
            }
            Self::Behind { .. } => "Fetch, merge or rebase, and push again; --force sets the branch instead.",
            Self::Refused { .. } => "Do what the remote's words ask for, or ask whoever runs it.",
            Self::Contended { .. } => {
                "Try again; if it stays so, look on the remote for a .lock file that a dead process left."
            }
            Self::Damaged { .. } => {
                "Find out what wrote there; delete that ref on the remote only when no older holder can push."
            }
            Self::Unclear { .. } => "Push again with the same fence: that does no harm if it has happened.",
        }
    }
}

/// A ref that a remote did not move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The ref on the remote.
    pub name: String,
    /// Why not, in git's words.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.reason)
    }
}

fn list(refs: &[Rejected]) -> String {
    refs.iter().map(Rejected::to_string).collect::<Vec<_>>().join(", ")
}

/// What a push that failed told.
pub(super) enum Failure {
    NotRun(GuardError),
    Told { refs: Vec<Rejected>, said: String },
}

/// Why git leaves a branch alone by its own rules.
const BEHIND: &[&str] = &["non-fast-forward", "fetch first", "needs force", "stale info", "already exists"];
/// Said of refs that only share the fate of another one.
const ALONG: &[&str] = &["atomic push failed", "atomic push failure"];
/// The remote's own comparison failed, or somebody else was at it.
const CONTENTION: &str = "atomic transaction failed";

impl Failure {
    /// Reads what `git push --porcelain` told: a line for each ref, `!`, a tab, its names, a tab, and why.
    pub(super) fn read(run: Run) -> Self {
        let told = run.out.lines().filter_map(|line| line.strip_prefix("!\t")?.split_once('\t'));
        let rejected = told.map(|(names, why)| Rejected {
            name: names.split_once(':').map_or(names, |(_, target)| target).to_owned(),
            reason: reason(why).to_owned(),
        });
        Self::Told { refs: rejected.collect(), said: run.said }
    }

    /// Whether the same push may succeed if it is tried again.
    pub(super) fn is_contention(&self) -> bool {
        matches!(self, Self::Told { refs, .. } if refs.iter().any(|one| one.reason == CONTENTION))
    }

    /// The failure if the remote can't be asked any more.
    pub(super) fn unclear(&self, remote: &Remote) -> GuardError {
        let said = match self {
            Self::NotRun(error) => error.to_string(),
            Self::Told { said, .. } => said.clone(),
        };
        GuardError::Unclear { remote: remote.shown(), said }
    }

    /// The failure if the remote is as it was before.
    pub(super) fn into_error(self, remote: &Remote) -> GuardError {
        let (mut refs, said) = match self {
            Self::NotRun(error) => return error,
            Self::Told { refs, said } => (refs, said),
        };
        let remote = remote.shown();
        refs.retain(|one| !ALONG.contains(&one.reason.as_str()));
        if refs.is_empty() {
            return without_refs(remote, said);
        }
        if refs.iter().all(|one| BEHIND.contains(&one.reason.as_str())) {
            return GuardError::Behind { remote, refs };
        }
        GuardError::Refused { remote, refs, said }
    }
}

/// Git gave up before the remote said anything about the refs.
fn without_refs(remote: String, said: String) -> GuardError {
    if said.contains("does not support --atomic") {
        GuardError::NotAtomic { remote }
    } else if said.contains("src refspec") {
        GuardError::NoSource { said }
    } else {
        GuardError::Unclear { remote, said }
    }
}

/// `[rejected] (non-fast-forward)` → `non-fast-forward`.
fn reason(why: &str) -> &str {
    let inner = why.split_once(" (").and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(out: &str) -> Failure {
        Failure::read(Run { code: Some(1), out: out.to_owned(), said: String::new() })
    }

    #[test]
    fn what_git_told_of_each_ref_is_read() {
        let out = "To ../r.git\n!\tabc:refs/bell/fences/x\t[rejected] (atomic push failed)\n\
                   !\trefs/heads/main:refs/heads/main\t[rejected] (non-fast-forward)\nDone\n";
        let Failure::Told { refs, .. } = failure(out) else { panic!("it was told") };
        assert_eq!(refs[1].name, "refs/heads/main");
        assert_eq!(refs[1].reason, "non-fast-forward");
        assert_eq!(refs[0].reason, "atomic push failed");
    }

    #[test]
    fn only_a_lost_race_is_worth_another_try() {
        let line = |reason: &str| format!("!\ta:refs/heads/main\t[remote rejected] ({reason})\n");
        assert!(failure(&line(CONTENTION)).is_contention());
        assert!(!failure(&line("hook declined")).is_contention());
        assert!(!failure("").is_contention());
    }
}
