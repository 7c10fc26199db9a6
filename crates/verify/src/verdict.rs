//! What a check comes to, and why it ended.

use std::fmt;

use bell_coord::Denied;
use bell_store::{Error, Kind};
use serde::{Deserialize, Serialize};

/// What a check came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The store did what the rules say.
    Passed,
    /// This store, or this machine, has nothing to try it on.
    NotApplicable,
    /// The store did what it claims, and what it claims is not enough for every use.
    Warning,
    /// There was no time for it. Nothing is known.
    NotRun,
    /// The store did not answer. Nothing is known.
    Unavailable,
    /// The store did what it claims, and claims that a rule can be broken.
    Unsafe,
    /// The store did something else than the rules say.
    Failed,
}

impl Verdict {
    /// One short word for a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::NotApplicable => "n/a",
            Self::Warning => "warning",
            Self::Unsafe => "UNSAFE",
            Self::NotRun => "not run",
            Self::Unavailable => "no answer",
            Self::Failed => "FAIL",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What one check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The name of the check.
    pub check: String,
    /// What it proves, as a sentence.
    pub proves: String,
    /// The rules of the lock contract it is about.
    pub rules: Vec<String>,
    /// What it came to.
    pub verdict: Verdict,
    /// What was seen, with figures.
    pub evidence: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// What a check found if nothing stopped it: the evidence.
pub(crate) type Done = Result<String, Stop>;

/// Why a check ended without passing.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) verdict: Verdict,
    pub(crate) why: String,
}

impl Stop {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failed, why: why.into() }
    }

    pub(crate) fn not_applicable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotApplicable, why: why.into() }
    }

    pub(crate) fn warning(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, why: why.into() }
    }

    pub(crate) fn unsafely(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unsafe, why: why.into() }
    }

    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unavailable, why: why.into() }
    }

    pub(crate) fn not_run(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotRun, why: why.into() }
    }
}

/// No answer proves nothing about a store; records that can't be read do.
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let why = format!("could not {error}");
        match error.kind() {
            Kind::Corrupt | Kind::Invalid => Self::failed(why),
            _ => Self::unavailable(why),
        }
    }
}

impl From<Denied> for Stop {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unavailable(error) => error.into(),
            refused => Self::failed(format!("refused: {refused}")),
        }
    }
}

/// This machine, not the store: nothing is known.
impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::not_run(format!("this machine refused: {error}"))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(end: tokio::task::JoinError) -> Self {
        Self::not_run(format!("a part of the check ended early: {end}"))
    }
}

/// Ends the check unless this holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::verdict::Stop::failed(format!($($why)+)));
        }
    };
}
pub(crate) use ensure;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_does_not_answer_has_not_failed() {
        let of = |kind| Stop::from(Denied::Unavailable(Error::new(kind, "commit"))).verdict;
        assert_eq!(of(Kind::Unavailable), Verdict::Unavailable);
        assert_eq!(of(Kind::Unknown), Verdict::Unavailable);
        assert_eq!(of(Kind::Corrupt), Verdict::Failed);
        assert_eq!(Stop::from(Denied::NotHeld).verdict, Verdict::Failed);
    }
}
