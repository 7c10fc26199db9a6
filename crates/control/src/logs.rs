//! What a run printed. Read from its folder on this machine: no daemon and no store is needed.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bell_api::control::logs::{LogAnswer, LogLine, LogQuery, LogStream};
use bell_api::outcome::Outcome;
use bell_core::work::agent::AgentName;
use bell_project::nearest::nearest;
use bell_runner::logs::{self, Joiner, Line, Stream};

use crate::control::Control;
use crate::refused::Refused;

/// Bytes of a log read at once.
const PAGE_BYTES: usize = 256 << 10;
/// Bytes of output in one answer: enough to need few, and little enough to hold.
pub const ANSWER_BYTES: usize = 1 << 20;
/// Stands for the last run of the project where a name must be given.
pub const ANY: &str = "-";

impl Control {
    /// A part of what a run printed. `name` is the run, an agent (its last run), or [`ANY`] (the last run of all).
    ///
    /// # Errors
    /// If no such run was on this machine, or its log can't be read.
    pub async fn logs(&self, name: &str, query: LogQuery) -> Result<LogAnswer, Refused> {
        read(self.place.runs(), name.to_owned(), query).await
    }
}

/// A part of what a run printed, from the folder that runs have theirs in. `name` is as for [`Control::logs`].
///
/// # Errors
/// If no such run was on this machine, or its log can't be read.
pub async fn read(runs: PathBuf, name: String, query: LogQuery) -> Result<LogAnswer, Refused> {
    // Disks may take their time, and whoever asked is not the only one.
    let read = tokio::task::spawn_blocking(move || {
        let named = Named::of(Some(name.as_str()).filter(|name| *name != ANY), &runs)?;
        let run = named.latest(&runs)?;
        answer(&runs, &run, &query)
    });
    read.await.map_err(|error| {
        Refused::new(Outcome::Unavailable, format!("could not read the log: {error}"), "Try again.")
    })?
}

/// A part of what a run printed, as one answer.
///
/// # Errors
/// If its log can't be read.
pub fn answer(runs: &Path, run: &str, query: &LogQuery) -> Result<LogAnswer, Refused> {
    let sieve = Sieve::of(query);
    let mut reading = Reading::new(runs.join(run), query.from);
    let limit = query.limit.unwrap_or(ANSWER_BYTES).clamp(1, ANSWER_BYTES);
    let mut part = reading.part(&sieve, limit)?;
    // The answer stands for itself: what goes on behind it comes as a line of its own.
    part.lines.extend(reading.rest(&sieve));
    Ok(of_part(run, part))
}

/// A part of the output as an answer.
pub fn of_part(run: &str, part: Part) -> LogAnswer {
    let lines = part.lines.into_iter().map(log_line).collect();
    LogAnswer { outcome: Outcome::Listed, run: run.to_owned(), lines, next: part.next, is_last: part.is_last }
}

fn log_line(line: Line) -> LogLine {
    let text = String::from_utf8_lossy(&line.text).into_owned();
    let stream = match line.stream {
        Stream::Out => LogStream::Out,
        Stream::Err => LogStream::Err,
        Stream::Log => LogStream::Log,
    };
    LogLine { offset: line.offset, at_ms: line.at_ms, stream, ends: line.ends, text }
}

/// Whose output is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// This run's.
    Run(String),
    /// That of the last run of this agent.
    Agent(AgentName),
    /// That of the last run of all.
    Any,
}

impl Named {
    /// Reads a name; without one, any will do.
    ///
    /// # Errors
    /// If it is the name of nothing.
    pub fn of(name: Option<&str>, runs: &Path) -> Result<Self, Refused> {
        let Some(name) = name else { return Ok(Self::Any) };
        // It becomes a part of a path.
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_name && !name.is_empty() && runs.join(name).is_dir() {
            return Ok(Self::Run(name.to_owned()));
        }
        AgentName::parse(name).map(Self::Agent).map_err(|_| not_found(Some(name), runs))
    }

    /// The name of the last run that is meant.
    ///
    /// # Errors
    /// If there is none on this machine.
    pub fn latest(&self, runs: &Path) -> Result<String, Refused> {
        let (name, found) = match self {
            Self::Run(run) => (None, Some(run.clone())),
            Self::Agent(agent) => (Some(agent.as_str()), latest(runs, |of| of == agent.as_str())),
            Self::Any => (None, latest(runs, |_| true)),
        };
        found.ok_or_else(|| not_found(name, runs))
    }
}

/// The run that was launched last of those whose agent is wanted.
fn latest(runs: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let names = names(runs).into_iter().filter(|name| agent_of(name).is_some_and(&is_wanted));
    let launched = |name: &String| -> Option<SystemTime> {
        fs::metadata(runs.join(name).join("launch.json")).and_then(|about| about.modified()).ok()
    };
    names.filter_map(|name| Some((launched(&name)?, name))).max().map(|(_, name)| name)
}

fn names(runs: &Path) -> Vec<String> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The name of a run is its agent's, a hyphen, and something that has none.
fn agent_of(run: &str) -> Option<&str> {
    run.rsplit_once('-').map(|(agent, _)| agent)
}

fn not_found(name: Option<&str>, runs: &Path) -> Refused {
    let names = names(runs);
    let known = names.iter().map(String::as_str).chain(names.iter().filter_map(|name| agent_of(name)));
    let message = match name {
        None => "could not find a run on this machine".to_owned(),
        Some(name) => match nearest(name, known) {
            Some(near) => format!("could not find the log of {name:?} on this machine; did you mean {near}?"),
            None => format!("could not find the log of {name:?} on this machine"),
        },
    };
    let hint = "bell runs lists the runs; a log is on the machine that its run was on.";
    Refused::new(Outcome::NotFound, message, hint)
}

/// Which lines are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sieve {
    since_ms: u64,
    text: Option<String>,
    stream: Option<Stream>,
    tail: Option<usize>,
}

impl Sieve {
    /// As asked for.
    pub fn of(query: &LogQuery) -> Self {
        let stream = query.stream.map(|stream| match stream {
            LogStream::Out => Stream::Out,
            LogStream::Err => Stream::Err,
            LogStream::Log => Stream::Log,
        });
        let since_ms = query.since_ms.unwrap_or(0);
        Self { since_ms, text: query.grep.clone(), stream, tail: query.tail }
    }

    /// Whether only the last lines are wanted.
    pub fn has_tail(&self) -> bool {
        self.tail.is_some()
    }

    /// Whether a line is wanted.
    pub fn admits(&self, line: &Line) -> bool {
        let has = |text: &String| String::from_utf8_lossy(&line.text).contains(text.as_str());
        line.at_ms >= self.since_ms
            && self.stream.is_none_or(|stream| stream == line.stream)
            && self.text.as_ref().is_none_or(has)
    }
}

/// A part of the output of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The lines that are wanted, as they were printed.
    pub lines: Vec<Line>,
    /// Where to go on.
    pub next: u64,
    /// Whether the run is over and nothing will follow.
    pub is_last: bool,
    /// Whether this is all that there is now.
    pub is_all: bool,
}

/// Reads the output of one run, part by part.
#[derive(Debug)]
pub struct Reading {
    run_dir: PathBuf,
    from: u64,
    joiner: Joiner,
}

impl Reading {
    /// From this offset on.
    pub fn new(run_dir: PathBuf, from: u64) -> Self {
        Self { run_dir, from, joiner: Joiner::default() }
    }

    /// Where to go on.
    pub fn next(&self) -> u64 {
        self.from
    }

    /// What there is now, about `limit` bytes of it. With a number of last lines, it is read to its end.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn part(&mut self, sieve: &Sieve, limit: usize) -> Result<Part, Refused> {
        let (mut kept, mut bytes) = (VecDeque::new(), 0);
        loop {
            let page = logs::read(&self.run_dir, self.from, PAGE_BYTES.min(limit)).map_err(unreadable)?;
            let is_all = page.lines.is_empty() || page.is_last;
            self.from = page.next;
            let mut lines: Vec<Line> =
                page.lines.into_iter().filter_map(|piece| self.joiner.take(piece)).collect();
            if is_all {
                lines.extend(self.joiner.rest());
            }
            for line in lines.into_iter().filter(|line| sieve.admits(line)) {
                bytes += line.text.len();
                kept.push_back(line);
                if sieve.tail.is_some_and(|count| kept.len() > count) {
                    bytes -= kept.pop_front().map_or(0, |line| line.text.len());
                }
            }
            let is_full = bytes >= limit && sieve.tail.is_none();
            if is_all || is_full {
                return Ok(Part { lines: kept.into(), next: self.from, is_last: page.is_last, is_all });
            }
        }
    }

    /// What has no end yet, if it is wanted.
    pub fn rest(&mut self, sieve: &Sieve) -> Vec<Line> {
        self.joiner.rest().into_iter().filter(|line| sieve.admits(line)).collect()
    }
}

/// That a log can't be read.
pub fn unreadable(error: bell_runner::Error) -> Refused {
    let hint = error.advice().to_owned();
    Refused::new(Outcome::Unavailable, format!("could not {error}"), hint)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(at_ms: u64, stream: Stream, text: &str) -> Line {
        Line { offset: at_ms, at_ms, stream, ends: true, text: text.into() }
    }

    #[test]
    fn only_what_is_wanted_gets_through() {
        let text = Some("oops".to_owned());
        let sieve = Sieve { since_ms: 10, text, stream: Some(Stream::Err), tail: None };
        assert!(sieve.admits(&line(10, Stream::Err, "an oops here")));
        assert!(!sieve.admits(&line(9, Stream::Err, "an oops here")));
        assert!(!sieve.admits(&line(10, Stream::Out, "an oops here")));
        assert!(!sieve.admits(&line(10, Stream::Err, "all is well")));
    }

    #[test]
    fn the_last_run_of_an_agent_is_not_that_of_one_whose_name_goes_on() {
        let runs = tempfile::tempdir().unwrap();
        for (name, at) in [("a-0000000001", 1), ("a-0000000002", 2), ("a-b-0000000003", 3)] {
            let launch = runs.path().join(name).join("launch.json");
            fs::create_dir(runs.path().join(name)).unwrap();
            fs::write(&launch, "{}").unwrap();
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
            fs::File::options().write(true).open(&launch).unwrap().set_modified(moment).unwrap();
        }
        let of = |name: &str| Named::of(Some(name), runs.path()).and_then(|named| named.latest(runs.path()));
        assert_eq!(of("a").as_deref(), Ok("a-0000000002"));
        assert_eq!(of("a-b").as_deref(), Ok("a-b-0000000003"));
        assert_eq!(of("a-0000000001").as_deref(), Ok("a-0000000001"));
        assert_eq!(Named::Any.latest(runs.path()).as_deref(), Ok("a-b-0000000003"));
        assert!(Named::of(Some("../runs"), runs.path()).is_err());
    }

    #[test]
    fn answers_of_any_size_give_everything_once_also_a_line_that_is_cut() {
        let runs = tempfile::tempdir().unwrap();
        fs::create_dir(runs.path().join("a-1")).unwrap();
        let log = "1000 out one\n1001 err+ tw\n1002 out three\n1003 err o\n1004 out+ and\n";
        fs::write(runs.path().join("a-1").join("output.log"), log).unwrap();
        for limit in [1, 3, 9, 1_000] {
            let (mut texts, mut from) = (Vec::new(), 0);
            loop {
                let query = LogQuery { from, limit: Some(limit), ..LogQuery::default() };
                let part = answer(runs.path(), "a-1", &query).unwrap();
                texts.extend(part.lines.into_iter().map(|line| line.text));
                if part.next == from {
                    break;
                }
                from = part.next;
            }
            texts.sort();
            assert_eq!(texts.concat().len(), "one two three and".len() - 3, "{limit}: {texts:?}");
        }
    }
}
