//! POSIX access control lists: rights of one more user on a file of ours, where its owner can't be changed.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, lsetxattr};
use rustix::process::geteuid;

use crate::error::{Error, Kind, Result};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// The version of the kernel's format: a header, then tag, rights and user number of each entry, little-endian.
const VERSION: u32 = 2;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The user number of entries that name no user.
const NO_USER: u32 = u32::MAX;

const READ_WRITE: u16 = 6;
const ALL: u16 = 7;

/// Lets a user read and write a file or connect to a socket, beside its owner. No other user can.
///
/// # Errors
/// If the file system has no access control lists.
pub fn share_file(path: &Path, uid: u32) -> Result<()> {
    set(path, ACCESS, &entries(READ_WRITE, &[uid]))
}

/// Lets a user work in a folder, beside its owner. Both can also read and remove what either of them makes in it.
///
/// # Errors
/// If the file system has no access control lists.
pub fn share_folder(path: &Path, uid: u32) -> Result<()> {
    set(path, ACCESS, &entries(ALL, &[uid]))?;
    let mut both = [uid, geteuid().as_raw()];
    both.sort_unstable();
    set(path, DEFAULT, &entries(ALL, &both))
}

/// Lets a user read and remove everything in the folders of this one. Links are not followed; what belongs to others is left.
pub(crate) fn share_folders_below(folder: &Path, uid: u32) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Without rights on it now, its owner still can give them.
            let _ = share_folder(&entry.path(), uid);
            share_folders_below(&entry.path(), uid);
        }
    }
}

fn set(path: &Path, name: &str, list: &[u8]) -> Result<()> {
    lsetxattr(path, name, list, XattrFlags::empty()).map_err(|error| {
        let message = format!("let another user use {}", path.display());
        let error = io::Error::from(error);
        match error.kind() {
            io::ErrorKind::Unsupported => {
                Error::new(Kind::Unsupported, format!("{message}: its file system has no access control lists"))
                    .hint("Keep the project on a file system that has them (ext4, xfs, btrfs), or start bell up as root.")
            }
            _ => Error::io(message, error).of_machine(),
        }
    })
}

fn entries(rights: u16, users: &[u32]) -> Vec<u8> {
    let named = users.iter().map(|uid| (USER, rights, *uid));
    let before = [(OWNER, rights, NO_USER)];
    let after = [(GROUP, 0, NO_USER), (MASK, rights, NO_USER), (OTHERS, 0, NO_USER)];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, rights, user) in before.into_iter().chain(named).chain(after) {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(user.to_le_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_shared_folder_is_open_to_one_more_user_and_closed_to_all_others() {
        let folder = tempfile::tempdir().unwrap();
        share_folder(folder.path(), 61_002).unwrap();
        // With a list, the group's bits of the mode are what named users have at most.
        assert_eq!(mode(folder.path()), 0o770);
        let list = |name: &str| {
            let mut list = [0; 256];
            let length = rustix::fs::lgetxattr(folder.path(), name, &mut list).unwrap();
            list[..length].to_vec()
        };
        assert_eq!(list(ACCESS), entries(ALL, &[61_002]));
        let mut both = [61_002, geteuid().as_raw()];
        both.sort_unstable();
        assert_eq!(list(DEFAULT), entries(ALL, &both));
    }

    #[test]
    fn folders_that_were_closed_are_opened_again_and_links_are_left_alone() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (closed, outside) = (folder.path().join("a/closed"), elsewhere.path().join("outside"));
        for path in [&closed, &outside] {
            fs::create_dir_all(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
        share_folders_below(folder.path(), 61_002);
        assert_eq!((mode(&closed), mode(&outside)), (0o770, 0o700));
    }

    #[test]
    fn a_file_system_without_lists_is_named_as_the_reason() {
        let error = share_file(Path::new("/proc/self/status"), 61_002).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
}
