//! A batch: what one append adds to a journal, and how it stands there.
//!
//! A batch is there as a whole or not at all, so it needs no marks between the transactions in it. Each
//! begins with the revision that the one before it ended with: a lost or repeated batch does not fit.
//!
//! ```text
//! magic 4 | payload length 4 | nonce 16 | revision before 8 | revision after 8 | time 8 | crc32 4 | payload
//! ```
//! The checksum covers everything but itself.

use std::io::{self, Read};

use bell_store::record::{Name, Record, Revision, Timestamp};

use crate::codec::{Decode, Encode, encoded_len};

const MAGIC: [u8; 4] = *b"BBAT";

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 52;

const CRC_AT: usize = HEADER_BYTES - 4;

/// Bytes in a payload at the most. The largest transaction has 125 values of 1 MiB and as many names;
/// a length above this is damage, not data.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 256 << 20;

/// Which append of which process: two never share one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Nonce(pub(crate) [u8; 16]);

/// What one append adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    /// Who appended it.
    pub(crate) nonce: Nonce,
    /// The store's revision before.
    pub(crate) before: Revision,
    /// The store's revision after.
    pub(crate) after: Revision,
    /// The store's clock at the append.
    pub(crate) now: Timestamp,
    /// What happened, in order.
    pub(crate) changes: Vec<Change>,
}

/// What happens to the stored state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A record is now this.
    Put(Name, Record),
    /// A record is gone.
    Delete(Name),
    /// The store's clock is read in this way from now on.
    Epoch(Epoch),
}

/// How the store's clock is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Epoch {
    /// During this boot of this machine: its time since boot plus `base_ms`.
    Boot {
        /// The boot.
        id: String,
        /// What the clock would have shown at boot.
        base_ms: u64,
    },
    /// By the file server's time stamps.
    Server,
}

/// What stands at some place of a journal.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A whole batch, and its length in bytes.
    Batch(Batch, u64),
    /// Nothing: the bytes end here.
    End,
    /// Bytes that are no batch.
    Damage,
}

impl Batch {
    /// The batch as it stands in a journal.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        self.changes.iter().for_each(|change| change.encode(&mut payload));
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        bytes.extend_from_slice(&self.nonce.0);
        bytes.put_u64(self.before);
        bytes.put_u64(self.after);
        bytes.put_u64(self.now.as_ms());
        bytes.put_u32(checksum(&bytes, &payload));
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// Reads what stands next.
    ///
    /// # Errors
    /// Those of `reader`, but for its end.
    pub(crate) fn read(reader: &mut impl Read) -> io::Result<Found> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        reader.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
        if header.is_empty() {
            return Ok(Found::End);
        }
        let Some(head) = Header::decode(&header) else { return Ok(Found::Damage) };
        let mut payload = Vec::new();
        reader.take(u64::from(head.payload_bytes)).read_to_end(&mut payload)?;
        Ok(head.complete(&header, &payload).map_or(Found::Damage, |batch| {
            let length = (HEADER_BYTES + payload.len()) as u64;
            Found::Batch(batch, length)
        }))
    }
}

/// The nonce in the header of an encoded batch, if these bytes begin with one.
pub(crate) fn nonce_of(bytes: &[u8]) -> Option<Nonce> {
    Header::decode(bytes).map(|header| header.nonce)
}

struct Header {
    payload_bytes: u32,
    nonce: Nonce,
    before: Revision,
    after: Revision,
    now: Timestamp,
    crc: u32,
}

impl Header {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decode = Decode(bytes);
        if decode.array()? != MAGIC {
            return None;
        }
        let payload_bytes = decode.u32().filter(|bytes| *bytes <= MAX_PAYLOAD_BYTES)?;
        Some(Self {
            payload_bytes,
            nonce: Nonce(decode.array()?),
            before: decode.u64()?,
            after: decode.u64()?,
            now: Timestamp::from_ms(decode.u64()?),
            crc: decode.u32()?,
        })
    }

    fn complete(&self, header: &[u8], payload: &[u8]) -> Option<Batch> {
        let is_whole = payload.len() as u64 == u64::from(self.payload_bytes);
        if !is_whole || checksum(&header[..CRC_AT], payload) != self.crc {
            return None;
        }
        let mut decode = Decode(payload);
        let mut changes = Vec::new();
        while !decode.0.is_empty() {
            changes.push(Change::decode(&mut decode)?);
        }
        Some(Batch { nonce: self.nonce, before: self.before, after: self.after, now: self.now, changes })
    }
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(header);
    crc.update(payload);
    crc.finalize()
}

impl Change {
    const PUT: u8 = 1;
    const DELETE: u8 = 2;
    const BOOT: u8 = 3;
    const SERVER: u8 = 4;

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Put(name, record) => {
                bytes.put_u8(Self::PUT);
                bytes.put_bytes(name.as_str().as_bytes());
                bytes.put_u64(record.version);
                bytes.put_u64(record.stamp);
                bytes.put_bytes(&record.value);
            }
            Self::Delete(name) => {
                bytes.put_u8(Self::DELETE);
                bytes.put_bytes(name.as_str().as_bytes());
            }
            Self::Epoch(Epoch::Boot { id, base_ms }) => {
                bytes.put_u8(Self::BOOT);
                bytes.put_bytes(id.as_bytes());
                bytes.put_u64(*base_ms);
            }
            Self::Epoch(Epoch::Server) => bytes.put_u8(Self::SERVER),
        }
    }

    fn decode(decode: &mut Decode<'_>) -> Option<Self> {
        Some(match decode.u8()? {
            Self::PUT => {
                let name = decode.text()?.into();
                let (version, stamp) = (decode.u64()?, decode.u64()?);
                Self::Put(name, Record { value: decode.bytes()?.to_vec(), version, stamp })
            }
            Self::DELETE => Self::Delete(decode.text()?.into()),
            Self::BOOT => Self::Epoch(Epoch::Boot { id: decode.text()?.to_owned(), base_ms: decode.u64()? }),
            Self::SERVER => Self::Epoch(Epoch::Server),
            _ => return None,
        })
    }
}

/// Bytes that a record takes in a journal.
pub(crate) fn put_bytes(name: &Name, value: &[u8]) -> u64 {
    1 + encoded_len(name.as_str().as_bytes()) + 8 + 8 + encoded_len(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let record = Record { value: b"value".to_vec(), version: 8, stamp: 3 };
        Batch {
            nonce: Nonce([9; 16]),
            before: 7,
            after: 8,
            now: Timestamp::from_ms(1_234),
            changes: vec![
                Change::Put("a".into(), record),
                Change::Delete("b".into()),
                Change::Epoch(Epoch::Boot { id: "boot".to_owned(), base_ms: 5 }),
                Change::Epoch(Epoch::Server),
            ],
        }
    }

    fn read(bytes: &[u8]) -> Found {
        Batch::read(&mut &bytes[..]).unwrap()
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let bytes = batch().encode();
        assert_eq!(read(&bytes), Found::Batch(batch(), bytes.len() as u64));
        assert_eq!(nonce_of(&bytes), Some(Nonce([9; 16])));
    }

    #[test]
    fn a_batch_cut_short_at_any_byte_is_damage() {
        let bytes = batch().encode();
        assert_eq!(read(&[]), Found::End);
        for length in 1..bytes.len() {
            assert_eq!(read(&bytes[..length]), Found::Damage, "{length}");
        }
    }

    #[test]
    fn any_flipped_bit_is_damage() {
        let bytes = batch().encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped), Found::Damage, "bit {bit}");
        }
    }

    #[test]
    fn the_size_of_a_put_is_known_beforehand() {
        let change = Change::Put("name".into(), Record { value: vec![0; 100], version: 1, stamp: 1 });
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        assert_eq!(bytes.len() as u64, put_bytes(&"name".into(), &[0; 100]));
    }
}
