//! Opening: is it etcd, is it new enough, is the prefix a store, and what should its operator know.

use std::cmp::Ordering;

use bell_store::info::{Concern, FailOver, Warning};
use bell_store::{Error, Kind, Result, Timestamp, clock};
use etcd_client::{Compare, CompareOp, GetOptions, Txn as EtcdTxn, TxnOp};

use crate::answers::{Head, Meta, found, get};
use crate::keys::Keys;
use crate::line::{Answer, Host, Line, Reached};
use crate::timekeeper;
use crate::wire::{Twice, Wire};

/// What marks a prefix as a store, and how its keys are to be read.
const FORMAT_NAME: &str = "bellwether store ";

/// The second: commits may share a transaction, and values tell their place in it.
const FORMAT: u32 = 2;

/// The oldest etcd that has everything a store needs.
const OLDEST: (u32, u32) = (3, 4);

/// A store that was found or made.
pub(crate) struct Found {
    pub(crate) meta: Meta,
    /// The revision at which it was found.
    pub(crate) revision: i64,
}

/// Refuses an etcd that is too old.
///
/// # Errors
/// [`Kind::Unsupported`] if it is, or those of asking it.
pub(crate) async fn check_version(wire: &Wire) -> Result<()> {
    let ask = |client: etcd_client::Client| async move { client.maintenance_client().status().await };
    let status = match wire.call(Twice::Harmless, ask).await {
        Ok(status) => status,
        // Some versions tell it to administrators only. What the store needs is tried next anyway.
        Err(fault) if fault.kind == Kind::Unauthorized => return Ok(()),
        Err(fault) => return Err(wire.reading(fault)),
    };
    let version = status.version();
    if is_old(version) {
        return Err(Error::new(Kind::Unsupported, format!("use etcd {version}"))
            .hint("Upgrade etcd to 3.4 or newer."));
    }
    Ok(())
}

fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version < OLDEST)
}

/// Finds the store under the prefix, or makes it if nothing is there.
///
/// # Errors
/// [`Kind::Invalid`] if the prefix is used by something else, [`Kind::TooNew`] if a newer program made the
/// store, or those of asking etcd.
pub(crate) async fn find_or_make(wire: &Wire, keys: &Keys, host: &Host) -> Result<Found> {
    loop {
        if let Some(found) = find(wire, keys).await? {
            return Ok(found);
        }
        make(wire, keys, host).await?;
    }
}

/// The store; `None` if nothing is under the prefix.
async fn find(wire: &Wire, keys: &Keys) -> Result<Option<Found>> {
    let anything = get(keys.all(), GetOptions::new().with_limit(1).with_keys_only());
    let look = EtcdTxn::new().and_then([TxnOp::get(keys.format(), None), Meta::get(keys, 0), anything]);
    let answer = wire.txn(Twice::Harmless, look).await.map_err(|fault| wire.reading(fault))?;
    let mut found = found(&answer).into_iter();
    let (format, meta, anything) = (found.next(), found.next(), found.next());
    match format.unwrap_or_default().first() {
        Some(format) => check_format(format.value())?,
        None if anything.unwrap_or_default().is_empty() => return Ok(None),
        None => return Err(not_a_store()),
    }
    let revision = answer.header().map_or(0, |header| header.revision());
    Ok(Some(Found { meta: Meta::of(keys, &meta.unwrap_or_default())?, revision }))
}

fn check_format(format: &[u8]) -> Result<()> {
    let format = String::from_utf8_lossy(format);
    let Some(Ok(format)) = format.strip_prefix(FORMAT_NAME).map(str::parse::<u32>) else {
        return Err(not_a_store());
    };
    match format.cmp(&FORMAT) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => {
            Err(Error::new(Kind::TooNew, "use this prefix: a newer Bellwether made the store in it")
                .hint("Upgrade this program, or name another prefix."))
        }
        Ordering::Less => {
            let words = "use this prefix: an older Bellwether made the store in it, in a format of before its release";
            Err(Error::new(Kind::Unsupported, words).hint(
                "Name another prefix; or stop every process that uses it and remove it (etcdctl del --prefix PREFIX/), and with it all locks and jobs.",
            ))
        }
    }
}

/// Makes the store, unless something has come up under the prefix since.
async fn make(wire: &Wire, keys: &Keys, host: &Host) -> Result<()> {
    // Any start would do; this one reads well.
    let now = Timestamp::default() + clock::wall();
    let line = Line::drawn(1, &host.id, host.boottime(), now);
    let line = Line { lease: timekeeper::grant(wire).await?, ..line };
    let reached = Reached { line: line.number, at: now };
    let (start, end) = keys.all();
    let is_unused = Compare::version(start, CompareOp::Equal, 0).with_range(end);
    let txn = EtcdTxn::new().when([is_unused]).and_then([
        TxnOp::put(keys.format(), format!("{FORMAT_NAME}{FORMAT}"), None),
        TxnOp::put(keys.line(), line.encode(), None),
        TxnOp::put(keys.head(), Head { reached, last: 0 }.encode(), None),
        TxnOp::put(keys.answer(), Answer { question: 0, reached }.encode(), None),
    ]);
    // All or nothing, and only if nothing is there: a second try finds what the first one made.
    wire.txn(Twice::Harmless, txn).await.map_err(|fault| wire.reading(fault))?;
    Ok(())
}

/// How many members there are, if we may ask.
pub(crate) async fn members(wire: &Wire) -> Option<usize> {
    let ask = |client: etcd_client::Client| async move { client.cluster_client().member_list().await };
    wire.call(Twice::Harmless, ask).await.ok().map(|answer| answer.members().len())
}

/// What the operator should know, one sentence each.
pub(crate) fn warnings(members: Option<usize>) -> Vec<Warning> {
    let words = match members {
        Some(1) => "etcd has one member: while it is down nothing can be locked; run three",
        Some(2) => "etcd has two members: if either is down nothing can be locked; run three",
        _ => return Vec::new(),
    };
    vec![Warning::new(Concern::Availability, words)]
}

/// What it costs when a member goes. A majority has every commit before it is answered; of two, no majority
/// is left without either.
pub(crate) fn fail_over(members: Option<usize>) -> FailOver {
    match members {
        Some(1 | 2) => FailOver::None,
        _ => FailOver::Kept,
    }
}

fn not_a_store() -> Error {
    Error::new(Kind::Invalid, "use this prefix: there are keys under it that are not a store's")
        .hint("Name another prefix at the end of the URL; nothing was changed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etcd_before_3_4_is_too_old() {
        for version in ["2.3.8", "3.3.27", "3.0.0-rc.1"] {
            assert!(is_old(version), "{version}");
        }
        for version in ["3.4.0", "3.4.23", "3.5.0-alpha", "3.10.1", "4.0.0", "", "unreadable"] {
            assert!(!is_old(version), "{version}");
        }
    }

    #[test]
    fn what_takes_over_has_every_commit_and_nothing_does_below_three() {
        for (members, fail_over, warnings) in [
            (Some(1), FailOver::None, 1),
            (Some(2), FailOver::None, 1),
            (Some(3), FailOver::Kept, 0),
            (None, FailOver::Kept, 0),
        ] {
            assert_eq!((super::fail_over(members), super::warnings(members).len()), (fail_over, warnings));
        }
    }

    #[test]
    fn formats_of_others_of_the_future_and_of_the_past_are_told_apart() {
        assert!(check_format(b"bellwether store 2").is_ok());
        assert_eq!(check_format(b"bellwether store 3").unwrap_err().kind(), Kind::TooNew);
        assert_eq!(check_format(b"bellwether store 1").unwrap_err().kind(), Kind::Unsupported);
        for other in ["", "kubernetes", "bellwether store x"] {
            assert_eq!(check_format(other.as_bytes()).unwrap_err().kind(), Kind::Invalid, "{other}");
        }
    }
}
