//! A request, packed as it goes over the wire while it is put together.

use redis::Cmd;

/// Room in front for how many arguments there are, which is known at the end.
const COUNT_BYTES: usize = 16;

/// What most requests fit into: a commit that takes or gives back one lock. More than about a kilobyte the allocator of
/// Linux has to look for each time.
const COMMON_BYTES: usize = 1_000;

/// A command and its arguments.
pub(crate) struct Request {
    bytes: Vec<u8>,
    args: usize,
}

impl Request {
    pub(crate) fn new(command: &str) -> Self {
        let mut bytes = Vec::with_capacity(COMMON_BYTES);
        bytes.resize(COUNT_BYTES, 0);
        let mut request = Self { bytes, args: 0 };
        request.arg(command);
        request
    }

    /// One that begins like this one.
    pub(crate) fn begun(&self) -> Self {
        let mut bytes = Vec::with_capacity(COMMON_BYTES);
        bytes.extend_from_slice(&self.bytes);
        Self { bytes, args: self.args }
    }

    pub(crate) fn arg(&mut self, arg: impl AsRef<[u8]>) -> &mut Self {
        self.joined(&[arg.as_ref()])
    }

    /// One argument of several pieces.
    pub(crate) fn joined(&mut self, pieces: &[&[u8]]) -> &mut Self {
        self.args += 1;
        self.bytes.push(b'$');
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let (digits, first) = decimal(length);
        self.bytes.extend_from_slice(&digits[first..]);
        self.bytes.extend_from_slice(b"\r\n");
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// What is sent.
    pub(crate) fn wire(&mut self) -> &[u8] {
        let (digits, first) = decimal(self.args);
        let digits = &digits[first..];
        let begin = COUNT_BYTES - digits.len() - 3;
        self.bytes[begin] = b'*';
        self.bytes[begin + 1..COUNT_BYTES - 2].copy_from_slice(digits);
        self.bytes[COUNT_BYTES - 2..COUNT_BYTES].copy_from_slice(b"\r\n");
        &self.bytes[begin..]
    }

    /// The same for the connection of the redis crate, which packs it again.
    pub(crate) fn to_cmd(&self) -> Cmd {
        let mut cmd = Cmd::new();
        let mut rest = &self.bytes[COUNT_BYTES..];
        while let Some((arg, after)) = first_arg(rest) {
            cmd.arg(arg);
            rest = after;
        }
        cmd
    }
}

/// The first of packed arguments, and what follows.
fn first_arg(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let length: usize = std::str::from_utf8(bytes.get(1..end)?).ok()?.parse().ok()?;
    let (arg, rest) = bytes.get(end + 2..)?.split_at_checked(length)?;
    Some((arg, rest.get(2..)?))
}

/// The longest number of bytes or arguments that is written.
const DIGITS: usize = 10;
const _: () = assert!(DIGITS + 3 <= COUNT_BYTES, "a star and the end of a line stand beside it");

/// A number as text: digits, and where among them it begins.
fn decimal(mut number: usize) -> ([u8; DIGITS], usize) {
    let (mut digits, mut first) = ([b'0'; DIGITS], DIGITS);
    loop {
        first -= 1;
        // A remainder of ten fits.
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || first == 0 {
            return (digits, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_packed_as_they_come() {
        let mut request = Request::new("GET");
        request.arg("").arg([0xff, b'\r', b'\n']).joined(&[b"a", b"", b"bc"]);
        assert_eq!(request.wire(), b"*4\r\n$3\r\nGET\r\n$0\r\n\r\n$3\r\n\xff\r\n\r\n$3\r\nabc\r\n");
        let packed_by_the_crate = request.to_cmd().get_packed_command();
        assert_eq!(request.wire(), packed_by_the_crate);
    }

    #[test]
    fn long_ones_and_many_are_counted() {
        let mut request = Request::new("x");
        for length in [9, 10, 11, 99, 100, 12_345] {
            request.arg("y".repeat(length));
        }
        for _ in 0..100 {
            request.arg("z");
        }
        let packed_by_the_crate = request.to_cmd().get_packed_command();
        assert_eq!(request.wire(), packed_by_the_crate);
        assert!(request.wire().starts_with(b"*107\r\n$1\r\nx\r\n$9\r\n"));
    }

    #[test]
    fn one_that_begins_like_another_goes_its_own_way() {
        let mut first = Request::new("SET");
        first.arg("a");
        let mut other = first.begun();
        other.arg("1");
        assert_eq!(first.wire(), b"*2\r\n$3\r\nSET\r\n$1\r\na\r\n");
        assert_eq!(other.wire(), b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n");
    }
}
