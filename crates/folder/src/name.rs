//! Names of items and workers: what is allowed, and what a name tells.
//!
//! An item's name carries its fence. `report.json` waits for its first claim; put back after a failure it is
//! `report.json#2`, then `#3`. The claim itself does not change the name, so a claim by plain `mv` is the same
//! act as one by this library, and whoever was declared dead looks for a name that is no longer there.

use std::ffi::OsStr;
use std::fmt;

use bell_core::lock::Fence;

use crate::error::{Error, Kind, Result};

/// The longest name that a new item may have: a file name has 255 bytes, and room is left for its fence.
pub const MAX_NEW_NAME_BYTES: usize = 200;
/// The longest file name there is.
const MAX_NAME_BYTES: usize = 255;
/// The longest name of a worker or writer: with room for a nonce.
const MAX_WORKER_BYTES: usize = 100;

/// The name of an item that is in a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemName(String);

impl ItemName {
    /// The name of a new item.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with the reason.
    pub fn new(name: &str) -> Result<Self> {
        let refused = |reason: &str| {
            Error::new(Kind::Invalid, format!("use {name:?} as a name: {reason}"))
                .hint("Use a plain file name: letters, digits, dots and dashes, 200 bytes at the most.")
        };
        if name.len() > MAX_NEW_NAME_BYTES {
            return Err(refused("it is longer than 200 bytes"));
        }
        check(name).map_err(refused)?;
        if suffix(name).is_some() {
            return Err(refused("what follows its # would be taken for a fence"));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name of something that is in a folder, or `None` if it is not fit for an item: hidden, not UTF-8,
    /// or with characters that move a cursor.
    pub fn found(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        (name.len() <= MAX_NAME_BYTES && check(name).is_ok()).then(|| Self(name.to_owned()))
    }

    /// The file name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name that the item had when it was new.
    pub fn base(&self) -> &str {
        suffix(&self.0).map_or(self.as_str(), |(base, _, _)| base)
    }

    /// The fence of whoever claims the item under this name.
    pub fn fence(&self) -> Fence {
        Fence(suffix(&self.0).map_or(1, |(_, fence, _)| fence))
    }

    /// Which try this is, from 1.
    pub fn attempt(&self) -> u64 {
        suffix(&self.0).map_or(1, |(_, _, attempt)| attempt)
    }

    /// Its name for the next try.
    pub fn next(&self) -> Self {
        self.with(self.fence().0.saturating_add(1), self.attempt().saturating_add(1))
    }

    /// Whether it is not to be tried again: often enough, or its next name would be too long for a file.
    pub(crate) fn is_last(&self, attempts: u64) -> bool {
        self.attempt() >= attempts || self.next().0.len() > MAX_NAME_BYTES
    }

    /// Its name for a fresh start: the fence rises, the tries are counted from 1 again.
    pub fn afresh(&self) -> Self {
        self.with(self.fence().0.saturating_add(1), 1)
    }

    /// Its name for another claim that does not count as a try: the fence rises, the tries do not.
    pub fn untried(&self) -> Self {
        self.with(self.fence().0.saturating_add(1), self.attempt())
    }

    fn with(&self, fence: u64, attempt: u64) -> Self {
        let base = self.base();
        Self(if fence == attempt { format!("{base}#{fence}") } else { format!("{base}#{fence}.{attempt}") })
    }
}

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<OsStr> for ItemName {
    fn as_ref(&self) -> &OsStr {
        OsStr::new(&self.0)
    }
}

/// Refuses what can't name a worker or a writer.
pub(crate) fn check_worker(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = (1..=MAX_WORKER_BYTES).contains(&name.len());
    if fits && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("use {name:?} as the name of a worker or writer"))
        .hint("Use letters, digits, dots, dashes and underscores, 100 at the most, and no dot in front."))
}

/// Base, fence and attempt of a name that ends in `#fence` or `#fence.attempt`.
fn suffix(name: &str) -> Option<(&str, u64, u64)> {
    let (base, rest) = name.rsplit_once('#').filter(|(base, _)| !base.is_empty())?;
    let (fence, attempt) = rest.split_once('.').unwrap_or((rest, rest));
    let (fence, attempt) = (number(fence)?, number(attempt)?);
    (fence > 1 && attempt <= fence).then_some((base, fence, attempt))
}

/// One spelling for each number, so that two names never mean the same.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

fn check(name: &str) -> std::result::Result<(), &'static str> {
    match name {
        "" => Err("it is empty"),
        _ if name.starts_with('.') => Err("it begins with a dot, and hidden files are not yet finished"),
        _ if name.contains('/') => Err("it has a slash in it"),
        _ if name.chars().any(char::is_control) => Err("it has control characters in it"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn found(name: &str) -> ItemName {
        ItemName::found(OsStr::new(name)).unwrap()
    }

    #[test]
    fn the_fence_rises_with_every_try_and_is_in_the_name() {
        let first = ItemName::new("a.json").unwrap();
        assert_eq!((first.fence(), first.attempt(), first.base()), (Fence(1), 1, "a.json"));
        let second = first.next();
        assert_eq!((second.as_str(), second.fence(), second.attempt()), ("a.json#2", Fence(2), 2));
        let third = second.next();
        assert_eq!((third.as_str(), third.base()), ("a.json#3", "a.json"));
    }

    #[test]
    fn a_fresh_start_counts_tries_anew_but_never_the_fence() {
        let again = found("a#3").afresh();
        assert_eq!((again.as_str(), again.fence(), again.attempt()), ("a#4.1", Fence(4), 1));
        assert_eq!(again.next().as_str(), "a#5.2");
    }

    #[test]
    fn an_item_put_back_keeps_its_place_in_the_order() {
        assert!(found("0001-a") < found("0001-a").next());
        assert!(found("0001-a").next() < found("0002-b"));
    }

    #[test]
    fn what_only_looks_like_a_fence_is_a_part_of_the_name() {
        for name in ["a#", "a#x", "a#1", "a#02", "#2", "a#2.3", "a#2.", "a#-2", "a#99999999999999999999"] {
            assert_eq!((found(name).base(), found(name).fence()), (name, Fence(1)), "{name}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_or_hide_are_refused_with_the_reason() {
        let long = "x".repeat(300);
        for name in
            ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "../x", "a\nb", "a\u{1b}[2J", "a#2", &long]
        {
            let error = ItemName::new(name).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{name:?}");
            assert!(!error.advice().is_empty());
        }
        for name in [&b"\xff\xfe"[..], b"a\nb", b".tmp"] {
            assert_eq!(ItemName::found(OsStr::from_bytes(name)), None);
        }
    }

    #[test]
    fn a_worker_is_named_plainly() {
        for name in ["w", "worker-3", "host.example_1"] {
            check_worker(name).unwrap();
        }
        for name in ["", ".", "..", "a/b", "a b", "ä", "a\n", &"x".repeat(101)] {
            assert_eq!(check_worker(name).unwrap_err().kind(), Kind::Invalid, "{name:?}");
        }
    }
}
