//! What a file system is good for here, judged by its type and mount options.
//!
//! Two things decide: whether its locks hold between machines, and whose clock stamps its files. Only NFS has both
//! at the server. Everything else is trusted within one machine at the most, where the kernel itself keeps
//! the locks and the time.

use bell_store::info::Durability;
use bell_store::mount::Mount;

/// What a file system is good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Suitability {
    /// Processes of one machine, on storage of its own.
    Local(Durability, Option<String>),
    /// Processes of one machine, on storage that others may reach: the warning says why not more.
    OneHost(String),
    /// Machines: locks and time stamps are the server's.
    Network,
    /// Nothing, unless somebody vouches that one machine alone uses it.
    Refused {
        /// What is wrong; reads after «because».
        reason: String,
        /// What to do instead.
        instead: &'static str,
    },
}

/// Judges a mounted file system.
pub(crate) fn judge(mount: &Mount) -> Suitability {
    let has = |option: &str| mount.options.iter().any(|known| known == option);
    match mount.fs_type.as_str() {
        "nfs" | "nfs4" => nfs(&has),
        "cifs" | "smb3" | "smbfs" => Suitability::Refused {
            reason: "clients of a Windows share stamp files with their own clocks".to_owned(),
            instead: USE_NFS,
        },
        "tmpfs" | "ramfs" | "hugetlbfs" => Suitability::Local(
            Durability::Process,
            Some(
                "the folder is in memory and gone with the machine; put it on a disk for what must last"
                    .to_owned(),
            ),
        ),
        "overlay" if has("volatile") => not_synced("volatile"),
        _ if has("nobarrier") => not_synced("nobarrier"),
        _ if has("barrier=0") => not_synced("barrier=0"),
        "fuseblk" => Suitability::Local(Durability::Power, None),
        other if other == "fuse" || other.starts_with("fuse.") => one_host(other),
        other if SHARED.contains(&other) => one_host(other),
        _ => Suitability::Local(Durability::Power, None),
    }
}

const USE_NFS: &str = "Mount it over NFS 4, or use a database that the machines share.";

/// File systems that may reach other machines, where locks or time stamps are not surely the server's.
const SHARED: [&str; 14] = [
    "9p", "afs", "beegfs", "ceph", "coda", "gfs", "gfs2", "gpfs", "lustre", "ncpfs", "ocfs2", "orangefs",
    "pvfs2", "virtiofs",
];

fn nfs(has: &dyn Fn(&str) -> bool) -> Suitability {
    const LOCAL_LOCKS: [&str; 3] = ["nolock", "local_lock=all", "local_lock=flock"];
    match LOCAL_LOCKS.into_iter().find(|option| has(option)) {
        None => Suitability::Network,
        Some(option) => Suitability::Refused {
            reason: format!("it is mounted with {option}, so other machines do not see its locks"),
            instead: "Mount it with vers=4.2 and without nolock or local_lock, or use a database that the machines share.",
        },
    }
}

fn not_synced(option: &str) -> Suitability {
    let warning = format!("mounted with {option}: a power cut may take answered commits; mount it without");
    Suitability::Local(Durability::Process, Some(warning))
}

fn one_host(fs_type: &str) -> Suitability {
    Suitability::OneHost(format!(
        "on {fs_type} locks are trusted only between processes of one machine; use NFS 4 or a database for several"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(fs_type: &str, options: &str) -> Suitability {
        let options = options.split(',').map(str::to_owned).collect();
        judge(&Mount { fs_type: fs_type.to_owned(), point: "/mnt".to_owned(), options })
    }

    /// One word for each verdict, so that the table below stays one line a case.
    fn word(suitability: &Suitability) -> &'static str {
        match suitability {
            Suitability::Local(Durability::Power, None) => "local",
            Suitability::Local(Durability::Process, Some(_)) => "local, not durable",
            Suitability::Local(..) => "local, odd",
            Suitability::OneHost(_) => "one host",
            Suitability::Network => "network",
            Suitability::Refused { .. } => "refused",
        }
    }

    #[test]
    fn every_file_system_is_used_for_what_it_can_do() {
        let table = [
            ("ext4", "rw,relatime", "local"),
            ("xfs", "rw,attr2", "local"),
            ("btrfs", "rw,subvol=/@", "local"),
            ("zfs", "rw", "local"),
            ("overlay", "rw,lowerdir=/a,upperdir=/b", "local"),
            ("overlay", "rw,volatile", "local, not durable"),
            ("ext4", "rw,nobarrier", "local, not durable"),
            ("ext4", "rw,barrier=0", "local, not durable"),
            ("tmpfs", "rw,size=1024k", "local, not durable"),
            ("fuseblk", "rw", "local"),
            ("nfs4", "rw,vers=4.2,local_lock=none", "network"),
            ("nfs", "rw,vers=3,local_lock=none", "network"),
            ("nfs", "rw,vers=3,local_lock=posix", "network"),
            ("nfs", "rw,vers=3,nolock,local_lock=all", "refused"),
            ("nfs", "rw,vers=3,local_lock=all", "refused"),
            ("nfs", "rw,vers=3,local_lock=flock", "refused"),
            ("cifs", "rw,vers=3.1.1", "refused"),
            ("smb3", "rw", "refused"),
            ("9p", "rw,trans=virtio", "one host"),
            ("virtiofs", "rw", "one host"),
            ("ceph", "rw", "one host"),
            ("fuse.sshfs", "rw", "one host"),
            ("fuse.glusterfs", "rw", "one host"),
            ("fuse", "rw", "one host"),
        ];
        for (fs_type, options, expected) in table {
            assert_eq!(word(&judged(fs_type, options)), expected, "{fs_type} {options}");
        }
    }

    #[test]
    fn a_refusal_names_the_option_and_what_to_mount_instead() {
        let Suitability::Refused { reason, instead } = judged("nfs", "rw,vers=3,nolock") else { panic!() };
        assert!(reason.contains("nolock"), "{reason}");
        assert!(instead.contains("vers=4.2"), "{instead}");
    }
}
