//! What an agent sees in its environment: an allow-list of the daemon's, and what its run gives it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};

/// What is taken over from the daemon's own environment, where it has it.
const ALLOWED: &[&str] = &["PATH", "HOME", "LANG", "TZ", "TERM", "USER", "SHELL", "TMPDIR"];

/// Families of names that are taken over too.
const ALLOWED_PREFIXES: &[&str] = &["LC_"];

/// The names by which the supervisor marks every process of a run.
pub(crate) const RUN: &str = "BELL_RUN";
pub(crate) const MARK: &str = "BELL_RUN_MARK";

/// Longer values don't fit through `execve`, which allows 128 KiB for each string.
const MAX_ENTRY_BYTES: usize = 128 * 1024 - 1;

/// The exact environment of an agent. Shows names only: values may be secrets.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Nothing at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// What the allow-list lets through of `from`, such as `std::env::vars()`.
    pub fn allowed(from: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(from.into_iter().filter(|(name, _)| is_allowed(name)).collect())
    }

    /// Adds a name, or replaces its value.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Adds all of `other`, whose values win.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All of it, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Refuses what no process can be given.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in &self.0 {
            let wrong = match () {
                () if name.is_empty() || name.contains(['=', '\0']) => {
                    "its name is empty or has = or NUL in it"
                }
                () if value.contains('\0') => "its value has NUL in it",
                () if name.len() + value.len() >= MAX_ENTRY_BYTES => "it is longer than 128 KiB",
                () => continue,
            };
            let message = format!("set the variable {name:?}: {wrong}");
            return Err(Error::new(Kind::Invalid, message).hint("Give long or binary data by file."));
        }
        Ok(())
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.contains(&name) || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "value".to_owned())).collect()
    }

    #[test]
    fn only_what_is_allowed_comes_through() {
        let env = Environment::allowed(entries(&[
            "PATH",
            "LC_ALL",
            "AWS_SECRET_ACCESS_KEY",
            "BELL_TOKEN",
            "PATHS",
        ]));
        assert_eq!(env.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["LC_ALL", "PATH"]);
    }

    #[test]
    fn what_is_given_wins_over_what_is_taken_over() {
        let env = Environment::allowed(entries(&["HOME"])).with("HOME", "/elsewhere");
        assert_eq!(env.get("HOME"), Some("/elsewhere"));
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", Environment::empty().with("KEY", "canary"));
        assert!(shown.contains("KEY") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn what_no_process_can_be_given_is_refused() {
        for (name, value) in [("A=B", "x"), ("", "x"), ("A", "x\0y"), ("A", &"x".repeat(200_000))] {
            assert_eq!(Environment::empty().with(name, value).check().unwrap_err().kind(), Kind::Invalid);
        }
        assert!(Environment::empty().with("A", "x\ny=z").check().is_ok());
    }
}
