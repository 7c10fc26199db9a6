//! What the server says about itself: which process of it we talk to, and what it keeps.

use std::collections::HashMap;

use bell_store::Kind;
use bell_store::info::{Concern, Durability, FailOver, Warning};

use crate::address::Place;
use crate::fault::{Fault, too_old};

/// Scripts say what they do to the server since 7.0, and it keeps to that.
const OLDEST_MAJOR: u32 = 7;

/// The sections of INFO that are read.
pub(crate) const SECTIONS: [&str; 4] = ["server", "replication", "persistence", "memory"];

/// A server, as of when we connected to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    /// Names this process of it.
    pub(crate) run: String,
    /// Names the history of its data; a new one begins when a replica is promoted.
    pub(crate) replication: String,
    /// Its data had another history before.
    pub(crate) promoted: bool,
    pub(crate) replicas: u32,
    log: Log,
    eviction: Eviction,
}

/// Its append-only file.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Log {
    Off,
    /// Written, and synced when: `always`, `everysec`, `no`.
    On(String),
    /// It is on, but we may not ask how it is synced.
    OnUnknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Eviction {
    Never,
    /// It would, if it had a limit of memory.
    OnceLimited,
    AnyKey,
}

impl Server {
    /// Reads the answer to INFO, and that to CONFIG GET appendfsync if it was allowed.
    pub(crate) fn parse(info: &str, appendfsync: Option<String>) -> Result<Self, Fault> {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let field = |name: &str| fields.get(name).copied().unwrap_or_default();
        check_version(field("redis_version"))?;
        check_role(field("role"), field("master_host"), field("master_port"))?;
        let log = match (field("aof_enabled"), appendfsync) {
            ("1", Some(sync)) => Log::On(sync),
            ("1", None) => Log::OnUnknown,
            _ => Log::Off,
        };
        let eviction = match (field("maxmemory_policy"), field("maxmemory")) {
            (policy, _) if !policy.starts_with("allkeys") => Eviction::Never,
            (_, "0") => Eviction::OnceLimited,
            _ => Eviction::AnyKey,
        };
        let run = field("run_id");
        if run.is_empty() {
            return Err(too_old("it does not name its process (run_id)"));
        }
        Ok(Self {
            run: run.to_owned(),
            replication: field("master_replid").to_owned(),
            promoted: field("master_replid2").bytes().any(|digit| digit != b'0'),
            replicas: field("connected_slaves").parse().unwrap_or(0),
            log,
            eviction,
        })
    }

    /// Whether it may be trusted with records at all.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self.eviction {
            Eviction::AnyKey => Err(Fault::new(
                Kind::Unsupported,
                "the server throws keys away when its memory is full (maxmemory-policy allkeys-…)",
                "Set maxmemory-policy to noeviction, or use another server.",
            )),
            Eviction::Never | Eviction::OnceLimited => Ok(()),
        }
    }

    /// Whether a restart of it keeps everything that it acknowledged.
    pub(crate) fn keeps_all(&self) -> bool {
        matches!(&self.log, Log::On(sync) if sync == "always")
    }

    /// Whether its place may be taken by a replica that has not seen everything.
    pub(crate) fn is_replicated(&self, place: &Place) -> bool {
        self.replicas > 0 || !matches!(place, Place::Node(_))
    }

    /// What an answered commit survives.
    pub(crate) fn durability(&self) -> Durability {
        match &self.log {
            Log::On(sync) if sync == "always" => Durability::Power,
            // Written to the file before the answer, but left to the kernel.
            Log::On(sync) if sync == "no" => Durability::Process,
            // With everysec the write itself may wait for a sync that is under way.
            Log::On(_) | Log::OnUnknown | Log::Off => Durability::Volatile,
        }
    }

    /// What it costs when another server takes its place. `min-replicas-to-write` makes the loss rarer, but
    /// a commit is answered before any replica has it all the same.
    pub(crate) fn fail_over(&self, place: &Place) -> FailOver {
        if self.is_replicated(place) { FailOver::Loses } else { FailOver::None }
    }

    /// What the operator should know.
    pub(crate) fn warnings(&self, place: &Place) -> Vec<Warning> {
        let mut warnings: Vec<_> = self.log_warning().into_iter().collect();
        if self.is_replicated(place) {
            let words = "replication is asynchronous: a fail-over may lose acknowledged commits and free locks \
                         that are held; afterwards commits are refused until `bell store raise-epoch`";
            warnings.push(Warning::new(Concern::FailOver, words));
        }
        if self.eviction == Eviction::OnceLimited {
            let words =
                "with a limit of memory the server would throw keys away; set maxmemory-policy noeviction";
            warnings.push(Warning::new(Concern::Commits, words));
        }
        warnings
    }

    fn log_warning(&self) -> Option<Warning> {
        let loses = "after a restart commits are refused until `bell store raise-epoch`";
        let words = match &self.log {
            Log::On(sync) if sync == "always" => return None,
            Log::On(sync) => format!(
                "the server acknowledges before it syncs (appendfsync {sync}) and may lose the last seconds; \
                 {loses}; set appendfsync always"
            ),
            Log::OnUnknown => format!(
                "whether the server syncs before it acknowledges is unknown: CONFIG is not allowed; {loses}"
            ),
            Log::Off => format!(
                "the server keeps commits in memory and at most a snapshot of before; {loses}; \
                 set appendonly yes and appendfsync always"
            ),
        };
        Some(Warning::new(Concern::Durability, words))
    }
}

fn check_version(version: &str) -> Result<(), Fault> {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST_MAJOR => Ok(()),
        Some(_) => Err(too_old(&format!("it is version {version}"))),
        None => Err(too_old("it does not say its version")),
    }
}

fn check_role(role: &str, host: &str, port: &str) -> Result<(), Fault> {
    if role != "slave" {
        return Ok(());
    }
    let why = format!("the server is a replica of {host}:{port}");
    let hint = "Name the primary in the URL, or let redis+sentinel:// find it.";
    Err(Fault { elsewhere: true, ..Fault::new(Kind::ReadOnly, why, hint) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Host;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n# Replication\r\nrole:master\r\n\
        connected_slaves:0\r\nmaster_replid:def\r\nmaster_replid2:0000\r\n# Persistence\r\naof_enabled:1\r\n\
        # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n";

    fn node() -> Place {
        Place::Node(Host { name: "h".to_owned(), port: 1 })
    }

    fn parsed(info: &str, sync: &str) -> Server {
        Server::parse(info, Some(sync.to_owned())).unwrap()
    }

    #[test]
    fn a_server_that_syncs_always_keeps_all_and_has_no_warnings() {
        let server = parsed(INFO, "always");
        assert!(server.keeps_all() && !server.promoted);
        assert_eq!(server.durability(), Durability::Power);
        assert_eq!(server.warnings(&node()), Vec::new());
        assert_eq!(server.fail_over(&node()), FailOver::None);
    }

    #[test]
    fn a_server_that_syncs_later_or_nobody_knows_when_promises_less() {
        for (info, sync, promise) in [
            (INFO.to_owned(), Some("everysec"), Durability::Volatile),
            (INFO.to_owned(), Some("no"), Durability::Process),
            (INFO.to_owned(), None, Durability::Volatile),
            (INFO.replace("aof_enabled:1", "aof_enabled:0"), Some("always"), Durability::Volatile),
        ] {
            let server = Server::parse(&info, sync.map(str::to_owned)).unwrap();
            assert_eq!(server.durability(), promise, "{sync:?}");
            assert!(!server.keeps_all());
            assert_eq!(server.warnings(&node()).len(), 1);
        }
    }

    #[test]
    fn replicas_sentinels_and_clusters_are_warned_of() {
        let server = parsed(&INFO.replace("connected_slaves:0", "connected_slaves:1"), "always");
        let alone = parsed(INFO, "always");
        for (server, place) in [(server, node()), (alone, Place::Cluster(Vec::new()))] {
            assert!(server.warnings(&place)[0].words.contains("asynchronous"));
            assert_eq!(server.fail_over(&place), FailOver::Loses);
        }
    }

    #[test]
    fn a_promoted_replica_shows_it() {
        assert!(parsed(&INFO.replace("master_replid2:0000", "master_replid2:0a00"), "always").promoted);
    }

    #[test]
    fn an_old_server_and_a_replica_are_refused() {
        let refused = |info: &str| Server::parse(info, None).unwrap_err().kind;
        assert_eq!(refused(&INFO.replace("7.0.15", "6.2.7")), Kind::Unsupported);
        assert_eq!(refused(""), Kind::Unsupported);
        assert_eq!(refused(&INFO.replace("role:master", "role:slave")), Kind::ReadOnly);
    }

    #[test]
    fn a_server_that_evicts_any_key_is_refused_once_it_has_a_limit() {
        let evicting = INFO.replace("noeviction", "allkeys-lru");
        assert_eq!(parsed(&evicting, "always").check(), Ok(()));
        assert_eq!(parsed(&evicting, "always").warnings(&node()).len(), 1);
        let limited = evicting.replace("maxmemory:0", "maxmemory:1000");
        assert_eq!(parsed(&limited, "always").check().unwrap_err().kind, Kind::Unsupported);
        assert_eq!(parsed(&limited.replace("allkeys", "volatile"), "always").check(), Ok(()));
    }
}
