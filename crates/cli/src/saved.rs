//! Tokens of this user's sessions, kept in files so that a later command finds them.
//!
//! One file for each key that a session took, named by a hash of the store, a hash of the key, and the
//! session. The folder and the files are for this user alone; links are not followed. A token whose session has ended
//! proves nothing any more, so a file that was left behind does no harm.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bell_api::outcome::Outcome;
use bell_coord::Token;
use bell_core::key::Key;
use bell_core::session::{RequestId, SessionId};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::answer::Refusal;
use crate::open::state_folder;

/// Bytes in a file with a token at the most: an id of 64, a dot, 64 digits and a line break.
const TOKEN_BYTES_MAX: u64 = 130;
/// Bytes of a hash in a file's name: 2^64 keys before two are likely to have the same.
const HASH_BYTES: usize = 16;
/// Read and write for the owner, nothing for anybody else.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// The folder of tokens.
pub(crate) struct Saved {
    folder: PathBuf,
}

/// What a token is kept for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot<'a> {
    /// A key that the session took.
    Key(&'a Key),
    /// A request that may be repeated.
    Request(&'a RequestId),
}

impl Saved {
    /// Opens this user's folder, for looking: one that is missing has no tokens.
    pub(crate) fn open() -> Result<Self, Refusal> {
        let folder = state_folder()?.join("sessions");
        match check_private(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(&folder, &error)),
            _ => Ok(Self { folder }),
        }
    }

    /// Opens this user's folder, created if it is missing.
    pub(crate) fn create() -> Result<Self, Refusal> {
        let folder = state_folder()?.join("sessions");
        let usable = DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&folder);
        usable.and_then(|()| check_private(&folder)).map_err(|error| unusable(&folder, &error))?;
        Ok(Self { folder })
    }

    /// Keeps a token.
    pub(crate) fn keep(&self, store: &str, slot: Slot<'_>, token: &Token) -> Result<(), Refusal> {
        let path = self.path(store, slot, token.session());
        write_token(&path, token).map_err(|error| unusable(&path, &error))
    }

    /// The tokens that were kept for `slot`.
    pub(crate) fn find(&self, store: &str, slot: Slot<'_>) -> Vec<Token> {
        let stem = stem(store, slot);
        self.tokens(|name| name.split_once('.').is_some_and(|(found, _)| found == stem))
            .into_values()
            .collect()
    }

    /// Every token that was kept for `store`, by its file.
    pub(crate) fn of_store(&self, store: &str) -> BTreeMap<PathBuf, Token> {
        let prefix = format!("{}-", hash(store));
        self.tokens(|name| name.starts_with(&prefix))
    }

    /// Forgets the token of one session.
    pub(crate) fn forget(&self, store: &str, slot: Slot<'_>, session: &SessionId) {
        // A file that stays is a token of a session that has ended.
        let _ = fs::remove_file(self.path(store, slot, session));
    }

    fn path(&self, store: &str, slot: Slot<'_>, session: &SessionId) -> PathBuf {
        self.folder.join(format!("{}.{session}", stem(store, slot)))
    }

    fn tokens(&self, is_meant: impl Fn(&str) -> bool) -> BTreeMap<PathBuf, Token> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return BTreeMap::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let meant =
            paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&is_meant));
        meant.filter_map(|path| read_token(&path).ok().map(|token| (path, token))).collect()
    }
}

/// Names a slot of a store without showing what it is.
fn stem(store: &str, slot: Slot<'_>) -> String {
    let (kind, text) = match slot {
        Slot::Key(key) => ("key", key.as_str()),
        Slot::Request(request) => ("request", request.as_str()),
    };
    format!("{}-{}", hash(store), hash(&format!("{kind}\0{text}")))
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a token to a new file that only this user can read.
pub(crate) fn write_token(path: &Path, token: &Token) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(PRIVATE_FILE);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)?.write_all(format!("{}\n", token.expose()).as_bytes())
}

/// Reads a token from a file that only its owner can read.
pub(crate) fn read_token(path: &Path) -> io::Result<Token> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file: File = options.open(path)?;
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        let message = "others can read it: chmod 600 it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut text = String::new();
    file.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
    Token::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "there is no token in it"))
}

fn check_private(folder: &Path) -> io::Result<()> {
    let seen = fs::symlink_metadata(folder)?;
    let is_ours = seen.is_dir() && seen.uid() == rustix::process::geteuid().as_raw();
    if is_ours && seen.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    let message = "others may look into it: it must belong to this user, with mode 700";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn unusable(path: &Path, error: &io::Error) -> Refusal {
    let outcome = match error.kind() {
        io::ErrorKind::PermissionDenied => Outcome::Unauthorized,
        _ => Outcome::Unavailable,
    };
    let message = format!("could not keep session tokens in {}: {error}", path.display());
    Refusal::new(outcome, message, "Correct that folder, set XDG_STATE_HOME, or use --session-file.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(letter: char) -> Token {
        let id = format!("session-{letter}");
        Token::parse(&format!("{id}.{}", "ab".repeat(32))).unwrap()
    }

    fn saved() -> (tempfile::TempDir, Saved) {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved { folder: folder.path().to_path_buf() };
        (folder, saved)
    }

    #[test]
    fn a_token_is_found_by_its_store_and_key_only() {
        let (_folder, saved) = saved();
        let (x, y) = (Key::parse("deploy://x").unwrap(), Key::parse("deploy://y").unwrap());
        saved.keep("sqlite:/a", Slot::Key(&x), &token('a')).unwrap();
        assert_eq!(saved.find("sqlite:/a", Slot::Key(&x)).len(), 1);
        assert!(saved.find("sqlite:/a", Slot::Key(&y)).is_empty());
        assert!(saved.find("sqlite:/b", Slot::Key(&x)).is_empty());
        assert!(saved.find("sqlite:/a", Slot::Request(&RequestId::from("deploy://x"))).is_empty());
    }

    #[test]
    fn only_what_is_meant_is_forgotten() {
        let (_folder, saved) = saved();
        let key = Key::parse("deploy://x").unwrap();
        for letter in ['a', 'b'] {
            saved.keep("sqlite:/a", Slot::Key(&key), &token(letter)).unwrap();
        }
        saved.forget("sqlite:/a", Slot::Key(&key), token('a').session());
        let left = saved.find("sqlite:/a", Slot::Key(&key));
        assert_eq!(left.iter().map(|token| token.session().as_str()).collect::<Vec<_>>(), ["session-b"]);
    }

    #[test]
    fn files_are_for_this_user_alone_and_others_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write_token(&path, &token('a')).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE_FILE);
        assert!(read_token(&path).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_token(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        write_token(&victim, &token('a')).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(read_token(&link).is_err());
        assert!(write_token(&link, &token('b')).is_err());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check_private(folder.path()).is_err());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check_private(folder.path()).is_ok());
    }
}
