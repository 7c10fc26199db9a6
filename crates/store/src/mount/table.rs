//! Which file system a folder is on, from what the kernel shows in `/proc`.
//!
//! The kernel tells of every open folder on which mount it is (`mnt_id` in its `fdinfo`). That is exact where
//! comparing paths or devices is not: with bind mounts, mounts over mounts, subvolumes and overlays.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Its type, as in `mount -t`: `ext4`, `nfs4`, `fuse.sshfs`.
    pub fs_type: String,
    /// Where it is mounted.
    pub point: String,
    /// The options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// The mount that an open folder is on.
    ///
    /// # Errors
    /// If `/proc` can't be read, or does not show the mount.
    pub fn of(folder: BorrowedFd<'_>) -> io::Result<Self> {
        let fdinfo = fs::read_to_string(format!("/proc/self/fdinfo/{}", folder.as_raw_fd()))?;
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
        let found = mount_id(&fdinfo).and_then(|id| find(&mountinfo, id));
        found.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "/proc/self/mountinfo does not show its mount")
        })
    }
}

fn mount_id(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

fn find(mountinfo: &str, id: u64) -> Option<Mount> {
    mountinfo.lines().find_map(|line| parse(line).filter(|(found, _)| *found == id)).map(|(_, mount)| mount)
}

/// A line is `id parent device root point options [more…] - type source options`.
fn parse(line: &str) -> Option<(u64, Mount)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let id = mount.next()?.parse().ok()?;
    let point = unescape(mount.nth(3)?);
    let own_options = mount.next()?;
    let mut file_system = file_system.split(' ');
    let fs_type = unescape(file_system.next()?);
    // A source may be empty, but never has a space in it that is not escaped.
    let shared_options = file_system.nth(1).unwrap_or_default();
    let options = own_options.split(',').chain(shared_options.split(',')).filter(|option| !option.is_empty());
    Some((id, Mount { fs_type, point, options: options.map(unescape).collect() }))
}

/// The kernel writes space, tab, line end and backslash as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const MOUNTINFO: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
40 27 254:0 /srv/data /mnt/bind\\040mount rw,nosuid - ext4 /dev/vda rw,errors=remount-ro
41 27 0:50 / /mnt/shared rw,relatime shared:7 master:3 - nfs4 server:/x rw,vers=4.2,local_lock=none
42 41 0:51 / /mnt/shared rw - tmpfs  rw,size=1024k
43 27 0:52 / /mnt/a\\134b\\011c rw - fuse.sshfs me@host:/ rw,user_id=0
";

    fn mount(id: u64) -> Mount {
        find(MOUNTINFO, id).unwrap()
    }

    #[test]
    fn the_type_and_both_kinds_of_options_are_read() {
        let nfs = mount(41);
        assert_eq!(nfs.fs_type, "nfs4");
        assert_eq!(nfs.options, ["rw", "relatime", "rw", "vers=4.2", "local_lock=none"]);
    }

    #[test]
    fn a_bind_mount_is_found_by_its_own_number_and_its_point_is_unescaped() {
        assert_eq!(mount(40).point, "/mnt/bind mount");
        assert_eq!(mount(43).point, "/mnt/a\\b\tc");
    }

    #[test]
    fn of_two_mounts_on_one_point_the_right_one_is_found() {
        assert_eq!((mount(41).fs_type.as_str(), mount(42).fs_type.as_str()), ("nfs4", "tmpfs"));
        assert_eq!(mount(42).options, ["rw", "rw", "size=1024k"], "its source is empty");
    }

    #[test]
    fn a_mount_that_is_not_shown_is_not_found() {
        assert_eq!(find(MOUNTINFO, 4), None);
        assert_eq!(find("garbage\n\n - \n", 4), None);
    }

    #[test]
    fn the_number_of_the_mount_is_read_from_fdinfo() {
        assert_eq!(mount_id("pos:\t0\nflags:\t02100000\nmnt_id:\t29\nino:\t1\n"), Some(29));
        assert_eq!(mount_id("pos:\t0\n"), None);
    }

    #[test]
    fn the_kernel_shows_the_mount_of_proc() {
        let proc = fs::File::open("/proc").unwrap();
        assert_eq!(Mount::of(proc.as_fd()).unwrap().fs_type, "proc");
    }
}
