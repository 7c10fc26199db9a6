//! Reads and scans as of one revision, linearizable, in as many requests as they need.

use std::collections::BTreeSet;

use bell_store::{Name, Result};
use etcd_client::{GetOptions, KeyValue, Txn as EtcdTxn, TxnOp, TxnResponse};

use crate::answers::{Gathered, Meta, found, get};
use crate::fault::Fault;
use crate::keys::{Keys, Range};
use crate::wire::{Twice, Wire};

/// Records in one request, with one operation to spare for the store's state.
const CHUNK: usize = 127;

/// How often to begin again if etcd forgets the revision in the middle of reading it.
const BEGINNINGS: usize = 3;

/// Records as of one revision; time is left to the caller.
pub(crate) struct Page {
    pub(crate) meta: Meta,
    pub(crate) gathered: Gathered,
}

/// Why a page could not be read.
enum Stop {
    Fault(Fault),
    Error(bell_store::Error),
}

/// The named records.
///
/// # Errors
/// Those of asking etcd.
pub(crate) async fn read(wire: &Wire, keys: &Keys, names: &[Name]) -> Result<Page> {
    let names: BTreeSet<&Name> = names.iter().collect();
    let ranges: Vec<Range> = names.iter().map(|name| keys.record(name.as_str())).collect();
    let mut beginnings = 0;
    loop {
        beginnings += 1;
        match Reader::new(wire, keys).read(&ranges).await {
            Ok(page) => return Ok(page),
            Err(stop) => stop.check(wire, beginnings)?,
        }
    }
}

/// The records in a range of keys: as many as `limit`, and one more if there are more.
///
/// # Errors
/// Those of asking etcd.
pub(crate) async fn scan(wire: &Wire, keys: &Keys, range: Option<Range>, limit: usize) -> Result<Page> {
    let mut beginnings = 0;
    loop {
        beginnings += 1;
        match Reader::new(wire, keys).scan(range.as_ref(), limit).await {
            Ok(page) => return Ok(page),
            Err(stop) => stop.check(wire, beginnings)?,
        }
    }
}

impl Stop {
    /// Whether to begin again.
    fn check(self, wire: &Wire, beginnings: usize) -> Result<()> {
        match self {
            Self::Fault(fault) if fault.is_compacted() && beginnings < BEGINNINGS => Ok(()),
            Self::Fault(fault) => Err(wire.reading(fault)),
            Self::Error(error) => Err(error),
        }
    }
}

struct Reader<'a> {
    wire: &'a Wire,
    keys: &'a Keys,
    /// The revision of the first answer, which all others are to be as of.
    revision: i64,
    meta: Option<Meta>,
    gathered: Gathered,
}

impl<'a> Reader<'a> {
    fn new(wire: &'a Wire, keys: &'a Keys) -> Self {
        Self { wire, keys, revision: 0, meta: None, gathered: Gathered::default() }
    }

    async fn read(mut self, ranges: &[Range]) -> Result<Page, Stop> {
        let (first, others) = ranges.split_at(ranges.len().min(CHUNK));
        self.ask(first, 0).await?;
        for chunk in others.chunks(CHUNK) {
            self.ask(chunk, 0).await?;
        }
        self.page()
    }

    async fn scan(mut self, range: Option<&Range>, limit: usize) -> Result<Page, Stop> {
        let Some((mut start, end)) = range.cloned() else {
            self.ask(&[], 0).await?;
            return self.page();
        };
        // A record has one or two keys, so a page may take a second request.
        while self.gathered.len() <= limit {
            let missing = limit + 1 - self.gathered.len();
            match self.ask(&[(start, end.clone())], missing).await? {
                Some(last) => start = [last.as_slice(), b"\0"].concat(),
                None => break,
            }
        }
        self.page()
    }

    /// Reads these ranges, each to its limit (zero: to its end). The last key, if the limit of the last
    /// range was reached.
    async fn ask(&mut self, ranges: &[Range], limit: usize) -> Result<Option<Vec<u8>>, Stop> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let options = || GetOptions::new().with_revision(self.revision).with_limit(limit);
        let reads = ranges.iter().map(|range| get(range.clone(), options()));
        let operations: Vec<TxnOp> =
            std::iter::once(Meta::get(self.keys, self.revision)).chain(reads).collect();
        let answer =
            self.wire.txn(Twice::Harmless, EtcdTxn::new().and_then(operations)).await.map_err(Stop::Fault)?;
        self.take(&answer, limit)
    }

    fn take(&mut self, answer: &TxnResponse, limit: i64) -> Result<Option<Vec<u8>>, Stop> {
        let mut found = found(answer).into_iter();
        let meta = found.next().unwrap_or_default();
        if self.meta.is_none() {
            self.meta = Some(Meta::of(self.keys, &meta).map_err(Stop::Error)?);
            self.revision = answer.header().map_or(0, |header| header.revision());
        }
        let mut last = None;
        for found in found {
            let is_full = limit > 0 && i64::try_from(found.len()).is_ok_and(|count| count == limit);
            last = found.last().filter(|_| is_full).map(KeyValue::key).map(<[u8]>::to_vec);
            self.gathered.add(self.keys, found);
        }
        Ok(last)
    }

    fn page(self) -> Result<Page, Stop> {
        let meta = self.meta.ok_or_else(|| Stop::Fault(Fault::late()))?;
        Ok(Page { meta, gathered: self.gathered })
    }
}
