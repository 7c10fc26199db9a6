//! The output of a run: read from any offset, while it runs and after, with or without a daemon.
//!
//! `output.log` is a file of lines, each with its moment and its stream in front:
//!
//! ```text
//! 1763254778123 out a whole line
//! 1763254778130 err+ the beginning of a line; the next piece of `err` goes on with it
//! 1763254778999 log a word of the supervisor itself
//! ```
//!
//! It only grows, and an offset is a number of bytes in it, so offsets stay good for ever. The bytes are the agent's
//! own: who shows them on a terminal or a page makes them harmless first.

mod follow;
mod frame;
mod join;
mod writer;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::run_dir::{EXIT, OUTPUT, no_follow};

pub use follow::{Follow, follow};
pub(crate) use frame::MAX_FRAME_BYTES;
pub use join::Joiner;
pub(crate) use writer::Writer;

/// Where a piece of output came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// The agent's standard output.
    Out,
    /// The agent's standard error.
    Err,
    /// The supervisor, about the output.
    Log,
}

/// One line of output, or a piece of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Where it begins.
    pub offset: u64,
    /// When it was read from the agent, in milliseconds since 1970.
    pub at_ms: u64,
    /// Where it came from.
    pub stream: Stream,
    /// Whether the line ends here, or the stream's next piece goes on with it.
    pub ends: bool,
    /// What was printed, without the line's end.
    pub text: Vec<u8>,
}

/// A part of the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The lines, in the order they were read.
    pub lines: Vec<Line>,
    /// Where to go on.
    pub next: u64,
    /// Whether nothing will follow.
    pub is_last: bool,
}

/// Reads about `limit` bytes of output from `from` on; a frame that begins within them is read whole.
///
/// An offset in the middle of a line means the next line. One beyond the end gives nothing.
pub fn read(run_dir: &Path, from: u64, limit: usize) -> Result<Page> {
    let path = run_dir.join(OUTPUT);
    // Looked at first: what is written later comes before the end, so an end that was seen is behind all of it.
    let is_over = run_dir.join(EXIT).exists();
    let read = open(&path).and_then(|file| match file {
        Some(file) => read_from(file, from, limit, is_over),
        None => Ok(Page { lines: Vec::new(), next: from, is_last: is_over }),
    });
    read.map_err(|error| Error::io(format!("read {}", path.display()), error))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).custom_flags(no_follow()).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_from(mut file: File, from: u64, limit: usize, is_over: bool) -> io::Result<Page> {
    if from > file.metadata()?.len() {
        return Ok(Page { lines: Vec::new(), next: from, is_last: is_over });
    }
    // The byte before tells whether a line begins here.
    let mut offset = from.saturating_sub(1);
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = BufReader::new(file);
    if from > 0 {
        let mut rest = Vec::new();
        (&mut reader).take(MAX_FRAME_BYTES as u64).read_until(b'\n', &mut rest)?;
        offset += rest.len() as u64;
        if rest.last() != Some(&b'\n') {
            return Ok(Page { lines: Vec::new(), next: from.max(offset), is_last: is_over });
        }
    }
    let (mut lines, mut taken) = (Vec::new(), 0);
    loop {
        if taken >= limit {
            return Ok(Page { lines, next: offset, is_last: false });
        }
        let mut frame = Vec::new();
        let length = (&mut reader).take(MAX_FRAME_BYTES as u64).read_until(b'\n', &mut frame)?;
        if frame.pop() != Some(b'\n') {
            // Nothing, or a frame that is being written right now.
            return Ok(Page { lines, next: offset, is_last: is_over });
        }
        lines.extend(frame::parse(offset, &frame));
        offset += length as u64;
        taken += length;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOG: &str = "1000 out one\n1001 err+ tw\n1002 err o\n1003 log note\n";

    fn run_with(log: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(OUTPUT), log).unwrap();
        folder
    }

    fn texts(page: &Page) -> Vec<String> {
        page.lines.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
    }

    #[test]
    fn lines_come_with_their_moment_and_stream() {
        let run = run_with(LOG);
        let page = read(run.path(), 0, usize::MAX).unwrap();
        assert_eq!(texts(&page), ["one", "tw", "o", "note"]);
        let about: Vec<_> = page.lines.iter().map(|l| (l.at_ms, l.stream, l.ends)).collect();
        let expected = [
            (1000, Stream::Out, true),
            (1001, Stream::Err, false),
            (1002, Stream::Err, true),
            (1003, Stream::Log, true),
        ];
        assert_eq!(about, expected);
        assert_eq!((page.next, page.is_last), (LOG.len() as u64, false));
    }

    #[test]
    fn pages_of_any_size_give_every_line_once() {
        let run = run_with(LOG);
        for limit in [1, 5, 14, 30] {
            let (mut found, mut from) = (Vec::new(), 0);
            while from < LOG.len() as u64 {
                let page = read(run.path(), from, limit).unwrap();
                assert!(page.next > from);
                found.extend(texts(&page));
                from = page.next;
            }
            assert_eq!(found, ["one", "tw", "o", "note"], "{limit}");
        }
    }

    #[test]
    fn an_offset_inside_a_line_means_the_next_one() {
        let run = run_with(LOG);
        assert_eq!(texts(&read(run.path(), 4, usize::MAX).unwrap()), ["tw", "o", "note"]);
        let last = read(run.path(), 0, usize::MAX).unwrap().lines[1].offset;
        assert_eq!(texts(&read(run.path(), last, usize::MAX).unwrap()), ["tw", "o", "note"]);
    }

    #[test]
    fn a_line_that_is_being_written_is_left_for_later() {
        let run = run_with("1000 out one\n1001 out tw");
        let page = read(run.path(), 0, usize::MAX).unwrap();
        assert_eq!((texts(&page), page.next), (vec!["one".to_owned()], 13));
        fs::write(run.path().join(OUTPUT), "1000 out one\n1001 out two\n").unwrap();
        assert_eq!(texts(&read(run.path(), page.next, usize::MAX).unwrap()), ["two"]);
    }

    #[test]
    fn the_end_of_the_run_is_the_end_of_its_output() {
        let run = run_with(LOG);
        fs::write(run.path().join(EXIT), "{}").unwrap();
        assert!(!read(run.path(), 0, 14).unwrap().is_last);
        assert!(read(run.path(), 0, usize::MAX).unwrap().is_last);
        assert!(read(run.path(), 10_000, usize::MAX).unwrap().is_last);
    }

    #[test]
    fn an_offset_that_no_file_can_have_gives_nothing() {
        let run = run_with(LOG);
        for from in [LOG.len() as u64 + 1, i64::MAX as u64 + 2, u64::MAX] {
            let page = read(run.path(), from, usize::MAX).unwrap();
            assert_eq!((page.lines, page.next, page.is_last), (Vec::new(), from, false));
        }
    }

    #[test]
    fn a_run_that_has_printed_nothing_yet_has_an_empty_page() {
        let folder = tempfile::tempdir().unwrap();
        let page = read(folder.path(), 7, 100).unwrap();
        assert_eq!(page, Page { lines: Vec::new(), next: 7, is_last: false });
    }
}
