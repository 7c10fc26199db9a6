//! Keeping what an agent prints: up to a limit, and the last of what comes after it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use super::Stream;
use super::frame::{self, MAX_TEXT_BYTES};
use crate::error::{Error, Result};
use crate::run_dir::{OUTPUT, RunDir};

/// The last words of an agent often say why it failed, so this much of the end is kept beyond the limit.
const TAIL_BYTES: usize = 64 * 1024;

/// The output file of a run that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    /// What may still be written.
    room: u64,
    kept: Kept,
    out: Pending,
    err: Pending,
    seen_bytes: u64,
}

/// A line whose end has not come yet.
#[derive(Debug, Default)]
struct Pending(Vec<u8>);

#[derive(Debug)]
enum Kept {
    All,
    /// The limit is reached: whole frames of the end, at most twice [`TAIL_BYTES`].
    Tail {
        frames: Vec<u8>,
        dropped_bytes: u64,
    },
    /// The disk refuses: nothing more can be kept.
    Broken,
}

impl Writer {
    /// Opens the output of a new run.
    pub(crate) fn create(dir: &RunDir, limit_bytes: u64) -> Result<Self> {
        let path = dir.path(OUTPUT);
        let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| Error::io(format!("make {}", path.display()), error))?;
        Ok(Self {
            file,
            room: limit_bytes,
            kept: Kept::All,
            out: Pending::default(),
            err: Pending::default(),
            seen_bytes: 0,
        })
    }

    /// Takes what was read from the agent.
    pub(crate) fn take(&mut self, at_ms: u64, stream: Stream, bytes: &[u8]) {
        self.seen_bytes += bytes.len() as u64;
        let mut pending = std::mem::take(self.pending(stream));
        let mut frames = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            pending.add(&mut frames, at_ms, stream, text);
            if ends {
                frame::write(&mut frames, at_ms, stream, true, &pending.0);
                pending.0.clear();
            }
        }
        *self.pending(stream) = pending;
        self.keep(&frames);
    }

    /// Whether a line waits for its end.
    pub(crate) fn has_pending(&self) -> bool {
        !self.out.0.is_empty() || !self.err.0.is_empty()
    }

    /// Keeps unfinished lines too, such as a question that waits for an answer.
    pub(crate) fn flush(&mut self, at_ms: u64) {
        for stream in [Stream::Out, Stream::Err] {
            let pending = std::mem::take(&mut self.pending(stream).0);
            if !pending.is_empty() {
                let mut frames = Vec::with_capacity(pending.len() + 64);
                frame::write(&mut frames, at_ms, stream, false, &pending);
                self.keep(&frames);
            }
        }
    }

    /// Adds a word of the supervisor, whatever the limit.
    fn note(&mut self, at_ms: u64, text: &str) {
        let mut frames = Vec::new();
        frame::write(&mut frames, at_ms, Stream::Log, true, text.as_bytes());
        self.write(&frames);
    }

    /// The last of it: what was kept back is written.
    pub(crate) fn finish(&mut self, at_ms: u64) {
        self.flush(at_ms);
        let Kept::Tail { frames, dropped_bytes } = &mut self.kept else { return };
        let frames = std::mem::take(frames);
        let tail = last_frames(&frames, TAIL_BYTES);
        *dropped_bytes += (frames.len() - tail.len()) as u64;
        match *dropped_bytes {
            0 => self.kept = Kept::All,
            left_out => self
                .note(at_ms, &format!("{left_out} bytes are left out here; the last of the output follows")),
        }
        self.write(tail);
    }

    /// How much the agent printed, kept or not.
    pub(crate) fn seen_bytes(&self) -> u64 {
        self.seen_bytes
    }

    /// Whether something was not kept.
    pub(crate) fn is_truncated(&self) -> bool {
        !matches!(self.kept, Kept::All)
    }

    fn pending(&mut self, stream: Stream) -> &mut Pending {
        if stream == Stream::Err { &mut self.err } else { &mut self.out }
    }

    fn keep(&mut self, frames: &[u8]) {
        if frames.is_empty() {
            return;
        }
        if let Kept::Tail { frames: tail, dropped_bytes } = &mut self.kept {
            tail.extend_from_slice(frames);
            if tail.len() > 2 * TAIL_BYTES {
                let cut = tail.len() - last_frames(tail, TAIL_BYTES).len();
                tail.drain(..cut);
                *dropped_bytes += cut as u64;
            }
            return;
        }
        let fits = first_frames(frames, self.room);
        let (now, later) = frames.split_at(fits);
        self.room -= fits as u64;
        self.write(now);
        if !later.is_empty() && matches!(self.kept, Kept::All) {
            self.kept = Kept::Tail { frames: Vec::new(), dropped_bytes: 0 };
            self.keep(later);
        }
    }

    fn write(&mut self, frames: &[u8]) {
        if matches!(self.kept, Kept::Broken) {
            return;
        }
        // An agent does not have to end because its output can't be kept.
        if self.try_write(frames).is_err() {
            self.kept = Kept::Broken;
        }
    }

    /// All of it or nothing: half a frame would swallow the next one.
    fn try_write(&mut self, frames: &[u8]) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        self.file.write_all(frames).inspect_err(|_| {
            let _ = self.file.set_len(before);
        })
    }
}

impl Pending {
    fn add(&mut self, frames: &mut Vec<u8>, at_ms: u64, stream: Stream, mut text: &[u8]) {
        while self.0.len() + text.len() > MAX_TEXT_BYTES {
            let (now, later) = text.split_at(MAX_TEXT_BYTES - self.0.len());
            self.0.extend_from_slice(now);
            frame::write(frames, at_ms, stream, false, &self.0);
            self.0.clear();
            text = later;
        }
        self.0.extend_from_slice(text);
    }
}

/// How many bytes of whole frames fit into `room`.
fn first_frames(frames: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(frames.len());
    frames.get(..room).and_then(|fits| fits.iter().rposition(|byte| *byte == b'\n')).map_or(0, |end| end + 1)
}

/// The whole frames within the last `room` bytes.
fn last_frames(frames: &[u8], room: usize) -> &[u8] {
    let Some(from) = frames.len().checked_sub(room).filter(|from| *from > 0) else { return frames };
    let start = frames.iter().skip(from - 1).position(|byte| *byte == b'\n');
    start.and_then(|start| frames.get(from + start..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Launch;
    use crate::logs::{Line, read};

    fn written(limit: u64, write: impl FnOnce(&mut Writer)) -> (Vec<Line>, Writer) {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch::new("run-1", folder.path().join("run-1"), vec!["true".into()]).unwrap();
        let dir = RunDir::make(&launch).unwrap();
        let mut writer = Writer::create(&dir, limit).unwrap();
        write(&mut writer);
        writer.finish(99);
        (read(dir.root(), 0, usize::MAX).unwrap().lines, writer)
    }

    fn text_of(lines: &[Line], stream: Stream) -> Vec<u8> {
        let pieces = lines.iter().filter(|line| line.stream == stream);
        pieces.flat_map(|l| l.text.iter().copied().chain(l.ends.then_some(b'\n'))).collect()
    }

    #[test]
    fn streams_that_are_read_in_pieces_come_back_whole() {
        let (lines, writer) = written(u64::MAX, |writer| {
            writer.take(1, Stream::Out, b"one\ntw");
            writer.take(2, Stream::Err, b"oops");
            writer.take(3, Stream::Out, b"o\nthree");
        });
        assert_eq!(text_of(&lines, Stream::Out), b"one\ntwo\nthree");
        assert_eq!(text_of(&lines, Stream::Err), b"oops");
        assert_eq!((writer.seen_bytes(), writer.is_truncated()), (17, false));
    }

    #[test]
    fn a_line_without_end_is_kept_in_pieces() {
        let long = vec![b'x'; 5 * MAX_TEXT_BYTES + 7];
        let (lines, _) = written(u64::MAX, |writer| writer.take(1, Stream::Out, &long));
        assert_eq!(lines.len(), 6);
        assert_eq!(text_of(&lines, Stream::Out), long);
    }

    #[test]
    fn beyond_the_limit_only_the_last_is_kept_and_the_gap_is_told() {
        let (lines, writer) = written(1000, |writer| {
            for number in 0..100_000 {
                writer.take(1, Stream::Out, format!("line {number}\n").as_bytes());
            }
        });
        assert!(writer.is_truncated());
        assert_eq!(lines.first().unwrap().text, b"line 0");
        assert_eq!(lines.last().unwrap().text, b"line 99999");
        let notes: Vec<_> = lines.iter().filter(|line| line.stream == Stream::Log).collect();
        assert_eq!(notes.len(), 1);
        let kept: usize = lines.iter().map(|line| line.text.len()).sum();
        assert!(kept < 1000 + TAIL_BYTES, "{kept}");
    }

    #[test]
    fn what_just_goes_over_the_limit_and_fits_into_the_tail_is_not_cut() {
        let (lines, writer) = written(20, |writer| writer.take(1, Stream::Out, b"one\ntwo\nthree\n"));
        assert_eq!(text_of(&lines, Stream::Out), b"one\ntwo\nthree\n");
        assert!(!writer.is_truncated());
    }
}
