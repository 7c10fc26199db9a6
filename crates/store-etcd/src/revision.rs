//! Revisions of the store: etcd's own, and the place of a commit among those that share its transaction.
//!
//! etcd gives everything that one transaction writes the same revision. Commits that go together still have
//! revisions of their own, which rise in the order of commits: etcd's comes first, the place within it second.
//! Places are written down with the values, since etcd does not know them.

use bell_store::{Revision, Version};

/// Where in its transaction a commit stands, from zero.
pub(crate) type Place = u8;

/// Commits in one transaction of etcd at the most. By then what they share is well shared, and there is room for
/// the operations of each among the 128 that etcd takes.
pub(crate) const PLACES: usize = 1 << BITS;
const BITS: u32 = 6;

/// The revision of the commit at this place of the transaction with that revision of etcd.
pub(crate) fn revision(transaction: i64, place: Place) -> Revision {
    (u64::try_from(transaction).unwrap_or(0) << BITS) | u64::from(place)
}

/// etcd's revision of the transaction that wrote this version. No two versions of a record are of the same.
///
/// For a number that is no version it is the first, that of an etcd in which nothing was written yet. Zero would
/// be taken for what every missing key has.
pub(crate) fn transaction(version: Version) -> i64 {
    i64::try_from(version >> BITS).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_rise_with_transactions_and_with_places_in_them() {
        let last = Place::try_from(PLACES - 1).unwrap();
        let rising = [revision(1, 0), revision(1, 1), revision(1, last), revision(2, 0), revision(3, 7)];
        assert!(rising.is_sorted_by(|earlier, later| earlier < later), "{rising:?}");
    }

    #[test]
    fn a_version_tells_its_transaction() {
        for (etcd, place) in [(1, 0), (1, 63), (i64::MAX >> BITS, 5)] {
            assert_eq!(transaction(revision(etcd, place)), etcd);
        }
        assert!([0, 1, 63, u64::MAX].into_iter().all(|number| transaction(number) > 0));
    }
}
