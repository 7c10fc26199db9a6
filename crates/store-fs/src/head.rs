//! The head: which journal is live, and up to where it is known to be durable.
//!
//! The file `bell-store` marks the folder, is what every lock is taken on, and keeps the head, in two slots
//! of a disk sector each that are written in turn. A slot that was half-written fails its checksum, and the other one
//! counts. The head is in the file that is locked because that is what a network file system
//! reads anew once the lock is held.
//!
//! Bytes of the journal before [`Head::length`] were synced before the head was written: if they are missing or
//! damaged, the disk has lost what it had promised to keep. Bytes after it are an append that was not
//! finished, or whose head did not reach the disk before the power failed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bell_store::record::Revision;
use bell_store::{Error, Kind, Result};

use crate::batch::Nonce;
use crate::codec::{Decode, Encode};
use crate::fault;

/// What a person sees who opens the file.
const NOTICE: &[u8] =
    b"A Bellwether store lives in this folder. Its locks are taken on this file: do not remove it.\n";

const MAGIC: [u8; 8] = *b"BELLHEAD";

/// The version of everything stored in the folder. Older ones can be read, newer ones not.
pub(crate) const FORMAT: u32 = 1;

const SECTOR_BYTES: usize = 512;

const SLOT_BYTES: usize = 68;

/// Looks at a slot that is being written at the same moment. A writer needs microseconds.
const MAX_LOOKS: u32 = 100;

/// Which journal is live, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Counts the heads written; the highest counts.
    pub(crate) sequence: u64,
    /// Names the journal.
    pub(crate) generation: u64,
    /// Bytes of it that are durable.
    pub(crate) length: u64,
    /// The revision they end with.
    pub(crate) revision: Revision,
    /// The last batch in them.
    pub(crate) nonce: Nonce,
}

/// What a look at the file shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// Nothing was ever written.
    Blank,
    /// The head.
    Head(Head),
    /// A newer Bellwether's head, of this format.
    Newer(u32),
    /// Neither slot can be read.
    Damage,
}

impl Head {
    /// Reads the head. `None`: the store has not been set up yet.
    ///
    /// # Errors
    /// [`Kind::TooNew`], [`Kind::Corrupt`], or those of reading the file.
    pub(crate) fn read(file: &File) -> Result<Option<Self>> {
        for _ in 0..MAX_LOOKS {
            match look(file).map_err(unreadable)? {
                Seen::Blank => return Ok(None),
                Seen::Head(head) => return Ok(Some(head)),
                Seen::Newer(format) => return Err(too_new(format)),
                // Both slots may be caught half-written by two quick commits of other processes.
                Seen::Damage => std::thread::yield_now(),
            }
        }
        Err(Error::new(Kind::Corrupt, "read the head of the store: both copies of it are damaged")
            .hint("Restore the whole folder from a backup, or start with an empty one."))
    }

    /// Reads the head of a store that has been set up.
    ///
    /// # Errors
    /// As [`Head::read`]; [`Kind::Corrupt`] also if there is none.
    pub(crate) fn read_existing(file: &File) -> Result<Self> {
        Self::read(file)?.ok_or_else(|| fault::corrupt("read the head of the store: it has been emptied"))
    }

    /// Writes the head. It is not durable before the file is synced; all it says is.
    ///
    /// # Errors
    /// Those of writing the file.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        let slot = 1 + self.sequence % 2;
        file.write_all_at(&self.encode(), slot * SECTOR_BYTES as u64)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.put_u32(FORMAT);
        bytes.put_u32(0);
        bytes.put_u64(self.sequence);
        bytes.put_u64(self.generation);
        bytes.put_u64(self.length);
        bytes.put_u64(self.revision);
        bytes.extend_from_slice(&self.nonce.0);
        bytes.put_u32(crc32fast::hash(&bytes));
        bytes
    }
}

/// Writes the notice with which the file begins.
///
/// # Errors
/// Those of writing the file.
pub(crate) fn write_notice(file: &File) -> io::Result<()> {
    file.write_all_at(NOTICE, 0)
}

fn look(file: &File) -> io::Result<Seen> {
    let mut bytes = [0; 3 * SECTOR_BYTES];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (first, second) = (decode(&bytes[SECTOR_BYTES..]), decode(&bytes[2 * SECTOR_BYTES..]));
    Ok(newest(first, second))
}

fn newest(first: Seen, second: Seen) -> Seen {
    match (first, second) {
        (Seen::Newer(format), _) | (_, Seen::Newer(format)) => Seen::Newer(format),
        (Seen::Head(a), Seen::Head(b)) => Seen::Head(if a.sequence > b.sequence { a } else { b }),
        (Seen::Head(head), _) | (_, Seen::Head(head)) => Seen::Head(head),
        (Seen::Blank, Seen::Blank) => Seen::Blank,
        _ => Seen::Damage,
    }
}

/// The place of the checksum and of the format is the same in every format to come.
fn decode(bytes: &[u8]) -> Seen {
    let slot = &bytes[..SLOT_BYTES];
    if slot.iter().all(|byte| *byte == 0) {
        return Seen::Blank;
    }
    decode_slot(slot).unwrap_or(Seen::Damage)
}

fn decode_slot(slot: &[u8]) -> Option<Seen> {
    let (content, crc) = slot.split_at_checked(SLOT_BYTES - 4)?;
    let mut decode = Decode(content);
    if decode.array()? != MAGIC || Decode(crc).u32()? != crc32fast::hash(content) {
        return None;
    }
    let format = decode.u32()?;
    if format > FORMAT {
        return Some(Seen::Newer(format));
    }
    decode.u32()?;
    Some(Seen::Head(Head {
        sequence: decode.u64()?,
        generation: decode.u64()?,
        length: decode.u64()?,
        revision: decode.u64()?,
        nonce: Nonce(decode.array()?),
    }))
}

fn unreadable(error: io::Error) -> Error {
    Error::new(Kind::of_io(&error), "read the head of the store").because(error)
}

/// The failure to read what a newer Bellwether wrote.
pub(crate) fn too_new(format: u32) -> Error {
    Error::new(
        Kind::TooNew,
        format!("read the store: its format is {format}, the newest known here is {FORMAT}"),
    )
    .hint("Update this bell to the version that wrote the store, or a newer one.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(sequence: u64) -> Head {
        Head { sequence, generation: 1, length: 100 * sequence, revision: sequence, nonce: Nonce([1; 16]) }
    }

    fn file_with(heads: &[Head]) -> File {
        let file = tempfile::tempfile().unwrap();
        write_notice(&file).unwrap();
        heads.iter().for_each(|head| head.write(&file).unwrap());
        file
    }

    #[test]
    fn the_newest_head_counts() {
        let file = file_with(&[head(1), head(2), head(3)]);
        assert_eq!(Head::read(&file).unwrap(), Some(head(3)));
    }

    #[test]
    fn a_file_without_a_head_is_not_set_up_yet() {
        assert_eq!(Head::read(&tempfile::tempfile().unwrap()).unwrap(), None);
        assert_eq!(Head::read(&file_with(&[])).unwrap(), None);
    }

    #[test]
    fn any_flipped_bit_of_the_newest_head_leaves_the_one_before() {
        let bytes = head(3).encode();
        for bit in 0..bytes.len() * 8 {
            let file = file_with(&[head(2), head(3)]);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            file.write_all_at(&flipped, 2 * SECTOR_BYTES as u64).unwrap();
            assert_eq!(Head::read(&file).unwrap(), Some(head(2)), "bit {bit}");
        }
    }

    #[test]
    fn two_damaged_heads_are_corruption_and_not_an_empty_store() {
        let file = file_with(&[head(2), head(3)]);
        file.write_all_at(b"x", 600).unwrap();
        file.write_all_at(b"x", 512).unwrap();
        file.write_all_at(b"x", 1024).unwrap();
        assert_eq!(Head::read(&file).unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn a_head_of_a_newer_format_is_told_apart_from_damage() {
        let file = file_with(&[head(2)]);
        let mut bytes = head(3).encode();
        bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
        let crc = crc32fast::hash(&bytes[..SLOT_BYTES - 4]);
        bytes[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&bytes, 2 * SECTOR_BYTES as u64).unwrap();
        let error = Head::read(&file).unwrap_err();
        assert_eq!(error.kind(), Kind::TooNew);
        assert!(error.advice().contains("Update"));
    }
}
