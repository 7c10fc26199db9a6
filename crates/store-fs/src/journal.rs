//! A journal: a file of batches, named by its generation.
//!
//! It begins with what came before it: the revision and the time that its first batch continues from.
//! Nothing here locks or decides; offsets and lengths come from the head.
//!
//! ```text
//! magic 8 | format 4 | generation 8 | revision 8 | time 8 | crc32 4 | batch | batch | …
//! ```

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use bell_store::Result;
use bell_store::record::{Revision, Timestamp};

use crate::batch::{Batch, Found};
use crate::codec::{Decode, Encode};
use crate::fault;
use crate::head::{FORMAT, too_new};

const MAGIC: [u8; 8] = *b"BELLJRNL";

/// Bytes before the first batch.
pub(crate) const START_BYTES: usize = 40;

/// The generation that a new store begins with.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// What a journal begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    /// The generation it was written for.
    pub(crate) generation: u64,
    /// The revision before its first batch.
    pub(crate) revision: Revision,
    /// The store's clock before its first batch.
    pub(crate) now: Timestamp,
}

impl Start {
    /// As it stands in the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(START_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.put_u32(FORMAT);
        bytes.put_u64(self.generation);
        bytes.put_u64(self.revision);
        bytes.put_u64(self.now.as_ms());
        bytes.put_u32(crc32fast::hash(&bytes));
        bytes
    }

    /// Reads the start of a journal.
    ///
    /// # Errors
    /// [`bell_store::Kind::TooNew`], [`bell_store::Kind::Corrupt`], or those of reading.
    pub(crate) fn read(file: &File) -> Result<Self> {
        let mut bytes = [0; START_BYTES];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(damaged(0)),
            Err(error) => return Err(fault::of_io(error, "read the journal")),
        }
        let (format, start) = Self::decode(&bytes).ok_or_else(|| damaged(0))?;
        if format > FORMAT { Err(too_new(format)) } else { Ok(start) }
    }

    fn decode(bytes: &[u8]) -> Option<(u32, Self)> {
        let (content, crc) = bytes.split_at_checked(START_BYTES - 4)?;
        let mut decode = Decode(content);
        if decode.array()? != MAGIC || Decode(crc).u32()? != crc32fast::hash(content) {
            return None;
        }
        let format = decode.u32()?;
        let (generation, revision) = (decode.u64()?, decode.u64()?);
        Some((format, Self { generation, revision, now: Timestamp::from_ms(decode.u64()?) }))
    }
}

/// The file name of a generation.
pub(crate) fn name(generation: u64) -> String {
    format!("journal.{generation}")
}

/// The generation that a file name stands for, if it is a journal's.
pub(crate) fn generation_of(name: &str) -> Option<u64> {
    name.strip_prefix("journal.")?.parse().ok()
}

/// Reads the batches between two offsets, one after the other.
pub(crate) struct Batches<'a> {
    reader: BufReader<io::Take<At<'a>>>,
    /// Where the next batch begins.
    pub(crate) offset: u64,
}

impl<'a> Batches<'a> {
    /// The batches of `file` from `offset`, ending at `end`.
    pub(crate) fn between(file: &'a File, offset: u64, end: u64) -> Self {
        let at = At { file, offset };
        let reader = BufReader::with_capacity(256 << 10, at.take(end.saturating_sub(offset)));
        Self { reader, offset }
    }

    /// What stands next.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn next(&mut self) -> Result<Found> {
        let found = Batch::read(&mut self.reader).map_err(|error| fault::of_io(error, "read the journal"))?;
        if let Found::Batch(_, length) = &found {
            self.offset += length;
        }
        Ok(found)
    }
}

/// Reads a file from an offset of its own: the file's cursor is shared with the other thread.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// What is at an offset can't be trusted, although it was durable once.
pub(crate) fn damaged(offset: u64) -> bell_store::Error {
    fault::corrupt(format!("read the journal: what stands at byte {offset} is not what was written there"))
}
