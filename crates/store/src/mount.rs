//! What kind of file system a path is on, and how it is mounted.
//!
//! Kernel locks, shared memory and file events of one machine say nothing about the others that share a
//! network file system. Who relies on them asks here first.

mod table;

use std::io;
use std::path::Path;

pub use table::Mount;

/// The network file system that holds `path`, by name, or `None` if the path is on this machine.
///
/// File systems in user space count as network ones: the kernel can't know what is behind them.
///
/// # Errors
/// If the path can't be looked at.
pub fn network(path: &Path) -> io::Result<Option<&'static str>> {
    let kind = kind(path)?;
    Ok(NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name))
}

/// Whether `path` is on a file system that is gone with the power.
///
/// # Errors
/// If the path can't be looked at.
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    Ok(IN_MEMORY.contains(&kind(path)?))
}

/// Whether the file system that holds `path` takes no writes at all.
///
/// # Errors
/// If the path can't be looked at.
pub fn is_read_only(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statvfs(path)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn kind(path: &Path) -> io::Result<u32> {
    // The width and sign of the field differ between machines; the numbers are all 32 bits.
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

/// tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58F6];

/// Bytes that are free for this user where `path` lies.
///
/// # Errors
/// If the path can't be looked at.
pub fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let figures = rustix::fs::statvfs(path)?;
    Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
}

/// The numbers by which the kernel names its file systems (statfs(2)).
const NETWORK: [(u32, &str); 15] = [
    (0x0000_517B, "smb"),
    (0x0000_564C, "ncp"),
    (0x0000_6969, "nfs"),
    (0x00C3_6400, "ceph"),
    (0x0102_1997, "9p"),
    (0x0116_1970, "gfs2"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x5346_414F, "afs"),
    (0x6573_5546, "fuse"),
    (0x6B41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x7461_636F, "ocfs2"),
    (0xFE53_4D42, "smb"),
    (0xFF53_4D42, "smb"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_file_system_is_on_this_machine() {
        assert_eq!(network(Path::new("/proc")).unwrap(), None);
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert_eq!(network(Path::new("/proc/none/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
