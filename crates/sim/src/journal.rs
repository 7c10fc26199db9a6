//! What happened in a story: the end of it for people, all of it for a digest.

use std::collections::VecDeque;
use std::fmt;

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::SessionId;
use bell_core::time::{Revision, Timestamp};
use bell_core::work::job::JobId;
use bell_core::work::run::RunId;
use bell_store::{Name, Write};

use crate::state::Change;

/// Events that a failure shows.
const SHOWN: usize = 60;

/// Something that the checkers look at.
pub enum Event<'a> {
    /// A commit was applied.
    Committed(&'a [Change]),
    /// Somebody outside was told that this job was taken on.
    Accepted(JobId),
    /// A holder acted, relying on its lease.
    Acted {
        /// On what.
        key: Key,
        /// Who.
        session: SessionId,
        /// With which fence.
        fence: Fence,
    },
    /// The guarded sink took a write.
    Wrote {
        /// Where to.
        key: Key,
        /// With which fence.
        fence: Fence,
    },
    /// A run did a part of its work.
    Worked(RunId),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed(changes) => write!(f, "committed {} changes", changes.len()),
            Self::Accepted(job) => write!(f, "job {job} was said to be taken on"),
            Self::Acted { key, session, fence } => write!(f, "{session} acts on {key} with fence {fence}"),
            Self::Wrote { key, fence } => write!(f, "the sink took a write to {key} with fence {fence}"),
            Self::Worked(run) => write!(f, "run {run} works"),
        }
    }
}

/// Everything that happened, as far as it is kept.
#[derive(Default)]
pub struct Journal {
    lines: VecDeque<String>,
    started: Option<Timestamp>,
    keep: Keep,
    digest: Digest,
    commits: u64,
}

/// How much of it is kept for people.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Keep {
    /// Nothing: a story that succeeds is not told.
    #[default]
    Nothing,
    /// The end.
    End,
    /// Everything, told as it happens.
    Trace,
}

impl Journal {
    /// A journal that keeps this much.
    pub fn keeping(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Notes something. The words are made only if they are kept.
    pub fn note(&mut self, at: Timestamp, words: impl FnOnce() -> String) {
        self.digest.number(at.as_ms());
        if self.keep == Keep::Nothing {
            return;
        }
        let since = at.since(*self.started.get_or_insert(at));
        let line = format!("{:>8}.{:03} s  {}", since.as_secs(), since.subsec_millis(), words());
        if self.keep == Keep::Trace {
            eprintln!("{line}");
        }
        if self.lines.len() == SHOWN {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Notes a commit.
    pub fn commit(&mut self, at: Timestamp, who: &str, revision: Revision, writes: &[(Name, Write)]) {
        self.commits += 1;
        for (name, write) in writes {
            self.digest.bytes(name.as_str().as_bytes());
            if let Write::Put(value, _) = write {
                self.digest.bytes(value);
            }
        }
        self.note(at, || {
            let write = |(name, write): &(Name, Write)| match write {
                Write::Put(value, _) => format!("\n      {name} = {}", String::from_utf8_lossy(value)),
                Write::Delete => format!("\n      {name} deleted"),
            };
            format!("{who}: commit {revision}{}", writes.iter().map(write).collect::<String>())
        });
    }

    /// The last lines.
    pub fn end(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }

    /// A number that tells two histories apart.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.commits
    }
}

/// FNV-1a: only ever compared with itself.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x0100_0000_01b3);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }
}
