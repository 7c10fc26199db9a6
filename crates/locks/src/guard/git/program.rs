//! Running git: the one place that does.
//!
//! No shell is involved, and what comes from outside stands after `--` or is refused before. What git says is
//! read in English and shown without credentials.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::error::GuardError;

/// The first git that can fetch without a trace (`--no-write-fetch-head`).
const OLDEST: (u32, u32) = (2, 29);

/// Lines of git's words that are shown. The first ones name the cause; the rest is advice for other commands.
const SAID_LINES: usize = 6;

/// Git in a repository.
pub(super) struct Git {
    folder: PathBuf,
}

/// What a run of git came to.
pub(super) struct Run {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    /// What it said, for people.
    pub(super) said: String,
}

impl Run {
    pub(super) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }
}

impl Git {
    /// Git in the repository that `folder` is in.
    pub(super) fn open(folder: &Path) -> Result<Self, GuardError> {
        let git = Self { folder: folder.to_path_buf() };
        let version = git.run(["--version"])?.out;
        if parse_version(&version).is_none_or(|version| version < OLDEST) {
            return Err(GuardError::TooOld { version: version.trim().to_owned() });
        }
        let found = git.run(["rev-parse", "--git-dir"])?;
        if found.succeeded() {
            return Ok(git);
        }
        Err(GuardError::NotARepository { folder: folder.to_path_buf(), said: found.said })
    }

    /// Runs git and waits for it.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Run, GuardError> {
        let output = self.command().args(arguments).stdin(Stdio::null()).output();
        output.map(run).map_err(|source| self.did_not_run(source))
    }

    /// Keeps `text` as an object. Answers its name.
    pub(super) fn store(&self, text: &str) -> Result<String, GuardError> {
        let stored = self.feed(&["hash-object", "-w", "--stdin"], text);
        let stored = stored.map_err(|source| self.did_not_run(source))?;
        if stored.succeeded() {
            return Ok(stored.out.trim().to_owned());
        }
        Err(GuardError::Local { said: stored.said })
    }

    fn feed(&self, arguments: &[&str], text: &str) -> io::Result<Run> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // If git has gone, it says why.
            let _ = input.write_all(text.as_bytes());
        }
        child.wait_with_output().map(run)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the module that runs git")]
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.folder).env("LC_ALL", "C");
        command
    }

    fn did_not_run(&self, source: io::Error) -> GuardError {
        // A folder that is not there gives the same error as a program that is not there.
        if source.kind() == io::ErrorKind::NotFound && !self.folder.is_dir() {
            let said = "there is no such folder".to_owned();
            return GuardError::NotARepository { folder: self.folder.clone(), said };
        }
        GuardError::NoGit(source)
    }
}

fn run(output: Output) -> Run {
    Run {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        said: said(&String::from_utf8_lossy(&output.stderr)),
    }
}

/// What git said, in one line, without its advice and without credentials.
fn said(err: &str) -> String {
    let lines = err.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    redacted(&lines.take(SAID_LINES).collect::<Vec<_>>().join("; "))
}

/// A text as it may be shown: URLs in it lose what stands before the last `@`.
pub(super) fn redacted(text: &str) -> String {
    text.split_inclusive([' ', '\'', '"', '\n']).map(redacted_word).collect()
}

fn redacted_word(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://…@{place}"),
        None => word.to_owned(),
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("git version ")?.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_whoever_built_them() {
        assert_eq!(parse_version("git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(parse_version("git version 2.39.5 (Apple Git-154)\n"), Some((2, 39)));
        assert_eq!(parse_version("git version 2.45.1.windows.1\n"), Some((2, 45)));
        assert_eq!(parse_version("hub version 1"), None);
        assert!((2, 28) < OLDEST && (3, 0) > OLDEST);
    }

    #[test]
    fn what_git_says_is_shown_without_credentials_and_advice() {
        let err = "fatal: unable to access 'https://me:s3cret@git.example/a/': no\nhint: use another\n";
        assert_eq!(said(err), "fatal: unable to access 'https://…@git.example/a/': no");
        assert_eq!(redacted("https://me:se/cr@et@host/x"), "https://…@host/x");
        assert_eq!(redacted("git@host:acme/site"), "git@host:acme/site");
    }
}
