//! Reads along with the HTTP parser, and refuses what two parsers could read in two ways: where a request ends must never
//! be a matter of opinion, or a proxy and this server could see different requests in the same bytes.
//!
//! The parser of `hyper` is kinder than that. It takes a line that ends without CR, and of Content-Length and
//! Transfer-Encoding together it drops the first before anybody sees it. Nothing here answers, or keeps more than a line that
//! has begun: it says how far bytes may be passed on.

use crate::limits::HEAD_BYTES_MAX;

/// Digits in the size of a chunk: more than any body has.
const SIZE_DIGITS_MAX: usize = 8;

/// That the bytes must not be passed on: only so many of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub(crate) usize);

/// Where in a connection's requests the next byte stands.
#[derive(Default, Debug)]
pub(crate) struct Framing {
    at: At,
    /// A line that has begun.
    line: Vec<u8>,
    head: Head,
}

#[derive(Default, Debug)]
enum At {
    #[default]
    Head,
    /// In a body, with so many bytes to come.
    Body(u64),
    Chunk(Chunk),
}

#[derive(Clone, Copy, Debug)]
enum Chunk {
    Size,
    /// In a chunk, with so many bytes to come.
    Data(u64),
    /// After a chunk: an empty line.
    End,
    /// After the last chunk: an empty line. What comes before it would be fields that nobody here reads.
    Last,
}

#[derive(Default, Debug)]
struct Head {
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl Framing {
    /// Takes the bytes that come next.
    ///
    /// # Errors
    /// If they must not be passed on.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            done += match &mut self.at {
                At::Body(left) | At::Chunk(Chunk::Data(left)) => {
                    let skipped = (*left).min(rest.len() as u64);
                    *left -= skipped;
                    if *left == 0 {
                        self.at = self.after_data();
                    }
                    // It is at most the length of what is here.
                    usize::try_from(skipped).unwrap_or(rest.len())
                }
                At::Head | At::Chunk(_) => self.line(rest).ok_or(Refused(done + up_to_line_end(rest)))?,
            };
        }
        Ok(())
    }

    fn after_data(&self) -> At {
        if matches!(self.at, At::Body(_)) { At::Head } else { At::Chunk(Chunk::End) }
    }

    /// Takes bytes up to the end of a line; `None` if the line is wrong.
    fn line(&mut self, bytes: &[u8]) -> Option<usize> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.keep(bytes);
            // A line that is wrong already need not end; the last byte may be the CR of its end.
            let (_, so_far) = self.line.split_last()?;
            return is_clean(so_far).then_some(bytes.len());
        };
        if self.line.is_empty() {
            // As nearly always: heads are small and come in one piece.
            self.ends_with(&bytes[..end])?;
        } else {
            self.keep(&bytes[..end]);
            let line = std::mem::take(&mut self.line);
            self.ends_with(&line)?;
        }
        Some(end + 1)
    }

    /// Keeps the beginning of a line for when the rest has come.
    fn keep(&mut self, part: &[u8]) {
        // Longer than this, the parser refuses it as well, before the line has ended.
        if self.line.len() + part.len() <= HEAD_BYTES_MAX {
            self.line.extend_from_slice(part);
        }
    }

    /// A whole line, up to its LF.
    fn ends_with(&mut self, line: &[u8]) -> Option<()> {
        match line.split_last() {
            Some((b'\r', line)) if is_clean(line) => self.ended(line),
            _ => None,
        }
    }

    /// A whole line, without its end.
    fn ended(&mut self, line: &[u8]) -> Option<()> {
        match self.at {
            At::Chunk(Chunk::Size) => {
                let is_size =
                    (1..=SIZE_DIGITS_MAX).contains(&line.len()) && line.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(line).ok().filter(|_| is_size)?;
                let size = u64::from_str_radix(digits, 16).ok()?;
                self.at = At::Chunk(if size == 0 { Chunk::Last } else { Chunk::Data(size) });
            }
            At::Chunk(Chunk::End) => self.at = line.is_empty().then_some(At::Chunk(Chunk::Size))?,
            At::Chunk(Chunk::Last) => self.at = line.is_empty().then_some(At::Head)?,
            // Some send an empty line too many after a body.
            At::Head if line.is_empty() && !self.head.has_begun => {}
            At::Head if line.is_empty() => {
                self.at = match std::mem::take(&mut self.head) {
                    Head { is_chunked: true, .. } => At::Chunk(Chunk::Size),
                    Head { length: Some(length @ 1..), .. } => At::Body(length),
                    Head { .. } => At::Head,
                };
            }
            At::Head if self.head.has_begun => self.head.field(line)?,
            At::Head => {
                // It would turn the rest of the connection into something that is no HTTP.
                self.head.has_begun = !line.starts_with(b"CONNECT ");
                return self.head.has_begun.then_some(());
            }
            At::Body(_) | At::Chunk(Chunk::Data(_)) => {}
        }
        Some(())
    }
}

impl Head {
    /// Takes in a field; `None` if it is wrong, or says again how long the body is.
    fn field(&mut self, line: &[u8]) -> Option<()> {
        // A line that begins with a space goes on with the one before: to some readers, and not to others.
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(is_of_name) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(value).ok().filter(|_| is_number)?;
            let length = number.parse().ok()?;
            return (!self.is_chunked && self.length.replace(length).is_none()).then_some(());
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_first = !std::mem::replace(&mut self.is_chunked, true) && self.length.is_none();
            return (is_first && value.eq_ignore_ascii_case(b"chunked")).then_some(());
        }
        Some(())
    }
}

/// Neither NUL nor a CR that ends no line. Every byte is looked at, many of them together.
fn is_clean(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |clean, byte| clean & !matches!(byte, 0 | b'\r'))
}

fn is_of_name(byte: &u8) -> bool {
    /// Asked for each letter of each head.
    static OF_NAME: [bool; 256] = {
        let (mut of_name, mut byte) = ([false; 256], 0);
        while byte < 256 {
            of_name[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let (marks, mut at) = (b"!#$%&'*+-.^_`|~", 0);
        while at < marks.len() {
            of_name[marks[at] as usize] = true;
            at += 1;
        }
        of_name
    };
    OF_NAME[usize::from(*byte)]
}

/// What of a wrong line the parser may have: never the end of it.
fn up_to_line_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is passed on, in one piece and byte by byte: both must say the same.
    fn passes(bytes: &[u8]) -> bool {
        let whole = Framing::default().take(bytes).is_ok();
        let mut framing = Framing::default();
        let in_pieces = bytes.chunks(1).all(|byte| framing.take(byte).is_ok());
        assert_eq!(whole, in_pieces, "{:?}", String::from_utf8_lossy(bytes));
        whole
    }

    #[test]
    fn a_name_is_of_letters_digits_and_the_marks_of_a_token() {
        for byte in 0..=u8::MAX {
            let is_mark = b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_of_name(&byte), byte.is_ascii_alphanumeric() || is_mark, "{byte}");
        }
    }

    #[test]
    fn requests_one_after_the_other_are_passed_on() {
        for right in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb\0cGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n5\r\na\nb\0c\r\n0A\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"\r\nGET / HTTP/1.1\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 0\r\nX-Empty:\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(passes(right), "{:?}", String::from_utf8_lossy(right));
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_not() {
        for wrong in [
            &b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
            b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: a\r\n\tb: c\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
            b"GET /\0 HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\n: nameless\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\nabcde\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdefg",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: trailer\r\n\r\n",
        ] {
            // Whether or not the end of it is there.
            let refused = !passes(wrong) || !passes(&[wrong, b"\r\n"].concat());
            assert!(refused, "{:?}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn of_a_wrong_line_its_end_is_never_passed_on() {
        let text = b"GET / HTTP/1.1\nHost: a\r\n\r\n";
        assert_eq!(Framing::default().take(text), Err(Refused(14)));
        let two = b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(Framing::default().take(two), Err(Refused(two.len() - 4)));
    }

    #[test]
    fn an_endless_line_takes_no_more_room_than_a_head() {
        let mut framing = Framing::default();
        for _ in 0..100 {
            let _ = framing.take(&[b'a'; 4_096]);
        }
        assert!(framing.line.capacity() <= 2 * HEAD_BYTES_MAX);
    }
}
