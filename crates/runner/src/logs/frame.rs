//! One line of the output file: how it is written, how it is read back.

use std::io::Write;

use super::{Line, Stream};

/// A longer line is kept in pieces, so that no reader needs more memory than this for one.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024;

/// Text, moment, stream and line end.
pub(crate) const MAX_FRAME_BYTES: usize = MAX_TEXT_BYTES + 64;

/// Appends one frame to `to`. `text` has no line end in it.
pub(super) fn write(to: &mut Vec<u8>, at_ms: u64, stream: Stream, ends: bool, text: &[u8]) {
    let word = match stream {
        Stream::Out => "out",
        Stream::Err => "err",
        Stream::Log => "log",
    };
    let more = if ends { "" } else { "+" };
    // Writing into memory does not fail.
    let _ = write!(to, "{at_ms} {word}{more} ");
    to.extend_from_slice(text);
    to.push(b'\n');
}

/// One frame without its line end; `None` for what no supervisor wrote.
pub(super) fn parse(offset: u64, frame: &[u8]) -> Option<Line> {
    let mut parts = frame.splitn(3, |byte| *byte == b' ');
    let at_ms = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let word = parts.next()?;
    let (word, ends) = word.strip_suffix(b"+").map_or((word, true), |word| (word, false));
    let stream = match word {
        b"out" => Stream::Out,
        b"err" => Stream::Err,
        b"log" => Stream::Log,
        _ => return None,
    };
    Some(Line { offset, at_ms, stream, ends, text: parts.next()?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_back_as_it_was_written() {
        for (stream, ends, text) in [
            (Stream::Out, true, b"a  b ".as_slice()),
            (Stream::Err, false, b""),
            (Stream::Out, false, b"\xff\x00\x1b[2J\r"),
        ] {
            let mut frame = Vec::new();
            write(&mut frame, 1234, stream, ends, text);
            assert_eq!(frame.pop(), Some(b'\n'));
            let line = Line { offset: 9, at_ms: 1234, stream, ends, text: text.to_vec() };
            assert_eq!(parse(9, &frame), Some(line));
        }
    }

    #[test]
    fn what_is_no_frame_is_none() {
        for frame in ["", "x out y", "12", "12 out", "12 other y"] {
            assert_eq!(parse(0, frame.as_bytes()), None);
        }
    }
}
