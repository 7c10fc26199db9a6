//! Stores of files that a project has used. One of them that is missing is never created again by itself: its disk may not be
//! mounted, and an empty store in its place would grant held locks a second time.
//!
//! The list is `.bell/known-stores`, a name in each line.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bell_store::{Error, Kind};
use rustix::process::geteuid;

use crate::place::Place;
use crate::store_history::{StoreHistory, is_file, raise_epoch_of};

const FILE: &str = "known-stores";

/// Adds the store at this redacted URL to the list of a project. Stores on servers are not listed: none is created where they
/// are missing.
///
/// # Errors
/// If the list can't be written.
pub fn add(place: &Place, redacted: &str) -> io::Result<()> {
    let name = StoreHistory::name_of(redacted);
    if !is_file(&name) || is_listed(place, &name) {
        return Ok(());
    }
    make_root(place)?;
    let mut list = File::options().create(true).append(true).mode(0o600).open(place.root().join(FILE))?;
    list.write_all(format!("{name}\n").as_bytes())
}

/// Refuses to create a store that the project has used.
///
/// # Errors
/// [`Kind::Replaced`].
pub fn check_missing(place: &Place, redacted: &str) -> Result<(), Error> {
    let name = StoreHistory::name_of(redacted);
    if !is_listed(place, &name) && !StoreHistory::is_of(place, &name) {
        return Ok(());
    }
    let message = format!("use the store {name}: the project has used it, and it is not there any more");
    Err(Error::new(Kind::Replaced, message).hint(format!(
        "Check that its disk is mounted, or bring the store back, a SQLite file with its -wal file. To begin a new one in \
         its place, run {}.",
        raise_epoch_of(&name)
    )))
}

fn is_listed(place: &Place, name: &str) -> bool {
    let list = fs::read_to_string(place.root().join(FILE)).unwrap_or_default();
    list.lines().any(|line| line == name)
}

/// Makes the state folder, but not in the name of another user.
fn make_root(place: &Place) -> io::Result<()> {
    let project = place.root().parent().unwrap_or(Path::new("."));
    if !place.root().exists() && fs::metadata(project)?.uid() != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    place.make_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_used_is_not_created_again_and_another_one_may_be() {
        let project = tempfile::tempdir().unwrap();
        let (place, root) = (Place::of(project.path()), project.path().display());
        let (used, other) = (format!("sqlite:{root}/used.db"), format!("sqlite:{root}/other.db"));
        assert!(check_missing(&place, &used).is_ok());
        add(&place, &used).unwrap();
        add(&place, &used).unwrap();
        assert_eq!(check_missing(&place, &used).unwrap_err().kind(), Kind::Replaced);
        assert!(check_missing(&place, &other).is_ok());
        let list = fs::read_to_string(place.root().join(FILE)).unwrap();
        assert_eq!(list.lines().count(), 1);
    }

    #[test]
    fn the_store_that_a_daemon_wrote_of_was_used() {
        let project = tempfile::tempdir().unwrap();
        let place = Place::of(project.path());
        place.make_root().unwrap();
        let url = format!("file:{}", project.path().join("store").display());
        StoreHistory::new(&url).save(&place).unwrap();
        assert!(check_missing(&place, &url).is_err());
    }

    #[test]
    fn a_store_on_a_server_is_not_listed() {
        let project = tempfile::tempdir().unwrap();
        let place = Place::of(project.path());
        add(&place, "redis://…@h/1").unwrap();
        assert!(!place.root().exists());
    }
}
