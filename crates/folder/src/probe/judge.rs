//! What the type and the options of a mount say, and which features may be used.

use bell_store::mount::Mount;

use super::{Finding, Use, Verdict};

/// Where a file system keeps what it stores, as far as its type tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// On this machine.
    Local,
    /// On a server, by NFS.
    Nfs,
    /// On a Windows server.
    Smb,
    /// Somewhere: what is behind it, its type does not tell.
    Other,
}

fn reach(mount: &Mount) -> Reach {
    match mount.fs_type.as_str() {
        "nfs" | "nfs4" => Reach::Nfs,
        "cifs" | "smb3" | "smbfs" => Reach::Smb,
        "fuseblk" => Reach::Local,
        fs if fs == "fuse" || fs.starts_with("fuse.") => Reach::Other,
        "9p" | "afs" | "beegfs" | "ceph" | "coda" | "gfs2" | "glusterfs" | "gpfs" | "lustre" | "ocfs2"
        | "orangefs" | "virtiofs" | "unknown" => Reach::Other,
        _ => Reach::Local,
    }
}

/// Options that change what can be relied on.
pub(super) fn options(mount: &Mount) -> Vec<Finding> {
    const TELLING: [(&str, Verdict, &str); 12] = [
        ("nolock", Verdict::Unsafe, "locks are this machine's alone, and other machines do not see them"),
        (
            "local_lock=all",
            Verdict::Unsafe,
            "locks are this machine's alone, and other machines do not see them",
        ),
        ("local_lock=flock", Verdict::Unsafe, "flock is this machine's alone"),
        ("nobrl", Verdict::Unsafe, "locks are not sent to the server"),
        ("cache=loose", Verdict::Unsafe, "what others write is seen late, or not at all"),
        (
            "soft",
            Verdict::Conditions,
            "a server that is slow looks like one that failed: answers may be unknown",
        ),
        (
            "softerr",
            Verdict::Conditions,
            "a server that is slow looks like one that failed: answers may be unknown",
        ),
        ("nocto", Verdict::Conditions, "what others wrote is seen late after an open"),
        ("async", Verdict::Conditions, "a crash of the server may take what was answered"),
        ("nobarrier", Verdict::Conditions, "a power cut may take what was synced"),
        ("barrier=0", Verdict::Conditions, "a power cut may take what was synced"),
        ("volatile", Verdict::Conditions, "a power cut may take what was synced"),
    ];
    let known = TELLING.into_iter().filter(|(option, ..)| mount.options.iter().any(|has| has == option));
    let mut found: Vec<Finding> = known
        .map(|(option, verdict, says)| Finding {
            about: "mount option",
            verdict,
            seen: format!("{option}: {says}"),
        })
        .collect();
    if matches!(mount.fs_type.as_str(), "tmpfs" | "ramfs") {
        let seen = "the folder is in memory: gone with the power".to_owned();
        found.push(Finding { about: "durability", verdict: Verdict::Conditions, seen });
    }
    found.push(caching(mount));
    found
}

fn caching(mount: &Mount) -> Finding {
    let (verdict, seen) = match reach(mount) {
        Reach::Local => (Verdict::Safe, "nothing is remembered that others could change".to_owned()),
        Reach::Nfs => {
            let limit = mount.options.iter().find_map(|option| option.strip_prefix("acdirmax="));
            let limit = limit.unwrap_or("60");
            (
                Verdict::Conditions,
                format!("a new name may be seen up to {limit} s late on other machines (acdirmax)"),
            )
        }
        Reach::Smb | Reach::Other => {
            (Verdict::Conditions, "folders may be remembered: run with --peer on two machines".to_owned())
        }
    };
    Finding { about: "folder caching", verdict, seen }
}

/// Which features may be used, by what was tried and by what the mount is.
pub(super) fn uses(mount: &Mount, findings: &[Finding]) -> Vec<Use> {
    let verdict = |about: &str| {
        let of = findings.iter().filter(|finding| finding.about == about).map(|finding| finding.verdict);
        of.max().unwrap_or(Verdict::Safe)
    };
    let renames = verdict("rename over").max(verdict("file identity"));
    let lost = findings.iter().any(|finding| {
        finding.about == "mount option" && finding.verdict == Verdict::Unsafe && finding.seen.contains("lock")
    });
    let locks = if lost { Verdict::Unsafe } else { verdict("flock") };
    let between = |verdict: Verdict| verdict.max(trust(reach(mount)).0);
    let why = |verdict: Verdict, fine: &str| match verdict {
        Verdict::Unsafe => "a trial failed: see above".to_owned(),
        _ => format!("{fine}; {}", trust(reach(mount)).1),
    };
    let of = |feature, verdict: Verdict, fine: &str| Use {
        feature,
        verdict: between(verdict),
        because: why(between(verdict), fine),
    };
    vec![
        of("bell queue", renames, "a rename has one winner"),
        of("bell publish, files", renames, "readers see old or new"),
        exchange_use(verdict("folders change places"), renames, reach(mount)),
        of("bell outbox", verdict("exclusive create"), "everybody writes files of its own"),
        lock_use("bell lock --store file:", locks, reach(mount)),
        lock_use("bell lock run --flock", locks, reach(mount)),
    ]
}

fn exchange_use(exchange: Verdict, renames: Verdict, reach: Reach) -> Use {
    let verdict = exchange.max(renames).max(trust(reach).0);
    let because = match exchange {
        Verdict::Safe => format!("folders change places; {}", trust(reach).1),
        _ => "with --linked only: folders can't change places here".to_owned(),
    };
    Use { feature: "bell publish, folders", verdict, because }
}

fn lock_use(feature: &'static str, locks: Verdict, reach: Reach) -> Use {
    let (verdict, because) = match (locks, reach) {
        (Verdict::Unsafe, _) => (Verdict::Unsafe, "locks do not hold here".to_owned()),
        (_, Reach::Local) => (locks, "between processes of this machine".to_owned()),
        (_, Reach::Nfs) => (
            Verdict::Conditions,
            "between machines, if all mount it with locks; a lock is lost without notice when the server does not hear of its holder for its lease time".to_owned(),
        ),
        (_, Reach::Smb) => (
            Verdict::Unsafe,
            "clients stamp files with their own clocks, and the file store refuses it".to_owned(),
        ),
        (_, Reach::Other) => (
            Verdict::Conditions,
            "between processes of this machine; between machines only if --peer shows it".to_owned(),
        ),
    };
    Use { feature, verdict, because }
}

/// What can be said of renames beyond this machine.
fn trust(reach: Reach) -> (Verdict, &'static str) {
    match reach {
        Reach::Local => (Verdict::Safe, "on this machine"),
        Reach::Nfs => (
            Verdict::Conditions,
            "also between machines, if the server exports with sync and clients see each other's names late",
        ),
        Reach::Smb => (Verdict::Conditions, "a folder that is open elsewhere can't be replaced"),
        Reach::Other => (Verdict::Conditions, "between machines only if --peer shows it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(fs_type: &str, options: &str) -> Mount {
        let options = options.split(',').map(str::to_owned).collect();
        Mount { fs_type: fs_type.to_owned(), point: "/mnt".to_owned(), options }
    }

    fn verdict(fs_type: &str, listed: &str, feature: &str) -> Verdict {
        let mount = mount(fs_type, listed);
        let uses = uses(&mount, &options(&mount));
        uses.iter().find(|used| used.feature == feature).unwrap().verdict
    }

    #[test]
    fn locks_that_other_machines_do_not_see_are_unsafe_and_queues_are_not() {
        for option in ["nolock", "local_lock=all", "local_lock=flock"] {
            assert_eq!(verdict("nfs", option, "bell lock run --flock"), Verdict::Unsafe, "{option}");
            assert_eq!(verdict("nfs", option, "bell queue"), Verdict::Conditions, "{option}");
        }
        assert_eq!(verdict("nfs4", "rw,vers=4.2", "bell lock --store file:"), Verdict::Conditions);
    }

    #[test]
    fn a_local_disk_is_safe_and_what_is_unknown_is_not() {
        assert_eq!(verdict("ext4", "rw", "bell queue"), Verdict::Safe);
        assert_eq!(verdict("fuse.juicefs", "rw", "bell queue"), Verdict::Conditions);
        assert_eq!(verdict("cifs", "rw", "bell lock --store file:"), Verdict::Unsafe);
    }
}
