//! What a run prints, as it prints it.

use bell_api::control::logs::{LogAnswer, LogQuery};
use bell_api::outcome::Outcome;
use bell_runner::logs::{Follow, follow};

use crate::control::Control;
use crate::logs::{ANY, Named, Part, Sieve, answer, of_part, unreadable};
use crate::refused::Refused;

/// Bytes of output in one part.
const PART_BYTES: usize = 64 << 10;

/// The output of one run, part by part, until the run is over.
#[derive(Debug)]
pub struct Following {
    run: String,
    sieve: Sieve,
    output: Follow,
    /// The last lines, where so many were asked for.
    first: Option<LogAnswer>,
    is_over: bool,
}

impl Control {
    /// What a run printed from an offset on, and goes on printing. `name` is as for [`Self::logs`]; of an agent, the run that
    /// is its last one now.
    ///
    /// # Errors
    /// If no such run was on this machine, or its log can't be read.
    pub async fn follow_logs(&self, name: &str, mut query: LogQuery) -> Result<Following, Refused> {
        let (runs, name) = (self.place.runs(), name.to_owned());
        let found = tokio::task::spawn_blocking(move || {
            let named = Named::of(Some(name.as_str()).filter(|name| *name != ANY), &runs)?;
            let run = named.latest(&runs)?;
            let first = query.tail.is_some().then(|| answer(&runs, &run, &query)).transpose()?;
            query.from = first.as_ref().map_or(query.from, |first| first.next);
            query.tail = None;
            Ok::<_, Refused>((runs.join(&run), run, query, first))
        });
        let (run_dir, run, query, first) = found.await.map_err(|error| {
            Refused::new(Outcome::Unavailable, format!("could not read the log: {error}"), "Try again.")
        })??;
        let output = follow(&run_dir, query.from).map_err(unreadable)?;
        Ok(Following { run, sieve: Sieve::of(&query), output, first, is_over: false })
    }
}

impl Following {
    /// The next part; the one that is the last says so, and `None` follows it.
    ///
    /// Dropped half-way, nothing is lost.
    ///
    /// # Errors
    /// If the log can't be read.
    pub async fn next(&mut self) -> Result<Option<LogAnswer>, Refused> {
        if let Some(first) = self.first.take() {
            self.is_over = first.is_last;
            return Ok(Some(first));
        }
        while !self.is_over {
            let page = self.output.next(PART_BYTES).await.map_err(unreadable)?;
            let next = self.output.offset();
            let (lines, is_last) = page.map_or((Vec::new(), true), |page| (page.lines, page.is_last));
            let lines: Vec<_> = lines.into_iter().filter(|line| self.sieve.admits(line)).collect();
            self.is_over = is_last;
            if is_last || !lines.is_empty() {
                let part = Part { lines, next, is_last, is_all: true };
                return Ok(Some(of_part(&self.run, part)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn following(run_dir: &Path, from: u64) -> Following {
        let sieve = Sieve::of(&LogQuery::default());
        let output = follow(run_dir, from).unwrap();
        Following { run: "a-1".to_owned(), sieve, output, first: None, is_over: false }
    }

    async fn all(mut following: Following) -> (Vec<String>, bool) {
        let (mut texts, mut is_last) = (Vec::new(), false);
        while let Some(part) = following.next().await.unwrap() {
            texts.extend(part.lines.into_iter().map(|line| line.text));
            is_last = part.is_last;
        }
        (texts, is_last)
    }

    #[tokio::test]
    async fn everything_is_given_from_any_offset_and_the_last_part_says_so() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("output.log"), "1000 out one\n1001 out two\n").unwrap();
        fs::write(folder.path().join("exit.json"), "{}").unwrap();
        for (from, texts) in [(0, &["one", "two"][..]), (13, &["two"]), (26, &[])] {
            assert_eq!(
                all(following(folder.path(), from)).await,
                (texts.iter().map(|t| (*t).to_owned()).collect(), true)
            );
        }
    }

    #[tokio::test]
    async fn what_is_printed_later_follows() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("output.log");
        fs::write(&log, "1000 out one\n").unwrap();
        let mut following = following(folder.path(), 0);
        let first = following.next().await.unwrap().unwrap();
        assert_eq!((first.lines.len(), first.next, first.is_last), (1, 13, false));
        let write = async {
            fs::write(&log, "1000 out one\n1001 out two\n").unwrap();
            fs::write(folder.path().join("exit.json"), "{}").unwrap();
        };
        let (rest, ()) = tokio::join!(all(following), write);
        assert_eq!(rest, (vec!["two".to_owned()], true));
    }
}
