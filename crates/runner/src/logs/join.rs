//! Lines put together again: long ones are kept in pieces, and so is one whose end was late.

use super::{Line, Stream};

/// A longer line is given out in parts, so that no reader needs more memory than this for one.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Puts the pieces of lines together, each stream apart.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    pending: [Option<Line>; 3],
}

impl Joiner {
    /// Takes a piece; answers the line that it ends. A line has the offset and the moment of its first piece.
    pub fn take(&mut self, piece: Line) -> Option<Line> {
        let slot = self.pending.get_mut(place(piece.stream))?;
        let line = match slot.take() {
            Some(mut begun) => {
                begun.text.extend_from_slice(&piece.text);
                Line { ends: piece.ends, ..begun }
            }
            None => piece,
        };
        if line.ends || line.text.len() >= MAX_LINE_BYTES {
            return Some(line);
        }
        *slot = Some(line);
        None
    }

    /// What has no end yet, in the order it began. Its rest will come as a line of its own.
    pub fn rest(&mut self) -> Vec<Line> {
        let mut rest: Vec<Line> = self.pending.iter_mut().filter_map(Option::take).collect();
        rest.sort_by_key(|line| line.offset);
        rest
    }
}

fn place(stream: Stream) -> usize {
    match stream {
        Stream::Out => 0,
        Stream::Err => 1,
        Stream::Log => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, stream: Stream, text: &str, ends: bool) -> Line {
        Line { offset, at_ms: offset, stream, ends, text: text.into() }
    }

    #[test]
    fn a_line_in_pieces_is_one_line_though_another_stream_came_between() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.take(piece(1, Stream::Err, "tw", false)), None);
        assert_eq!(joiner.take(piece(2, Stream::Out, "one", true)), Some(piece(2, Stream::Out, "one", true)));
        assert_eq!(joiner.take(piece(3, Stream::Err, "o", true)), Some(piece(1, Stream::Err, "two", true)));
        assert!(joiner.rest().is_empty());
    }

    #[test]
    fn what_has_no_end_is_given_out_once() {
        let mut joiner = Joiner::default();
        joiner.take(piece(5, Stream::Out, "password: ", false));
        joiner.take(piece(2, Stream::Err, "a", false));
        let rest: Vec<u64> = joiner.rest().iter().map(|line| line.offset).collect();
        assert_eq!(rest, [2, 5]);
        assert!(joiner.rest().is_empty());
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut joiner = Joiner::default();
        let long = "x".repeat(MAX_LINE_BYTES / 2 + 1);
        assert_eq!(joiner.take(piece(0, Stream::Out, &long, false)), None);
        let line = joiner.take(piece(1, Stream::Out, &long, false)).unwrap();
        assert!(!line.ends && line.text.len() == 2 * long.len());
    }
}
