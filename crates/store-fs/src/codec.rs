//! Numbers and texts as bytes, little end first. Shared by the three things that are stored: the head, the
//! start of a journal, and batches.

/// Appends to a growing row of bytes.
pub(crate) trait Encode {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends four bytes.
    fn put_u32(&mut self, value: u32);
    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64);
    /// Appends a length of four bytes and the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        // Limits keep names and values far below 4 GiB; a cut length would fail its checksum's reader.
        self.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.extend_from_slice(bytes);
    }
}

/// Reads from the front of a row of bytes. `None`: too few are left.
#[derive(Clone, Copy)]
pub(crate) struct Decode<'a>(pub(crate) &'a [u8]);

impl<'a> Decode<'a> {
    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// A number of four bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// What [`Encode::put_bytes`] appended.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.take(count)
    }

    /// A text appended with [`Encode::put_bytes`].
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// The length of what [`Encode::put_bytes`] appends.
pub(crate) fn encoded_len(bytes: &[u8]) -> u64 {
    4 + bytes.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_taken_in_the_same_order() {
        let mut bytes = Vec::new();
        bytes.put_u8(7);
        bytes.put_u32(1 << 20);
        bytes.put_u64(u64::MAX);
        bytes.put_bytes("größer".as_bytes());
        let mut decode = Decode(&bytes);
        assert_eq!(decode.u8(), Some(7));
        assert_eq!(decode.u32(), Some(1 << 20));
        assert_eq!(decode.u64(), Some(u64::MAX));
        assert_eq!(decode.text(), Some("größer"));
        assert_eq!(decode.u8(), None);
    }

    #[test]
    fn a_length_beyond_the_end_gives_nothing() {
        let mut bytes = Vec::new();
        bytes.put_u32(5);
        bytes.extend_from_slice(b"four");
        assert_eq!(Decode(&bytes).bytes(), None);
    }
}
