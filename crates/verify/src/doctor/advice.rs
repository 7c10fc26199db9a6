//! The setting or command that mends it, for each engine.

use bell_store::Info;
use bell_store::info::Scope;

/// What a store runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    Memory,
    /// SQLite, or a folder on a disk of this machine.
    Files,
    /// A folder that machines share.
    SharedFolder,
    Redis,
    Postgres,
    Etcd,
    Other,
}

impl Engine {
    pub(super) fn of(info: &Info) -> Self {
        match (info.scheme, info.scope) {
            ("memory", _) => Self::Memory,
            ("file", Scope::Distributed) => Self::SharedFolder,
            ("sqlite" | "file", _) => Self::Files,
            ("postgres", _) => Self::Postgres,
            ("etcd", _) => Self::Etcd,
            (scheme, _) if scheme.starts_with("redis") => Self::Redis,
            _ => Self::Other,
        }
    }

    /// Whether a server that forgot what it answered is noticed by what is stored, so that every commit is
    /// refused: its process is another one than the one recorded.
    pub(super) fn notices_a_loss(self) -> bool {
        self == Self::Redis
    }

    /// What makes answered commits survive a power cut.
    pub(super) fn to_keep_commits(self) -> &'static str {
        match self {
            Self::Memory => "Use sqlite:PATH for what must last.",
            Self::Files => "Name a path on a disk that syncs: bell --store sqlite:/var/lib/bell/bell.db …",
            Self::SharedFolder => {
                "On the file server: `exportfs -v` must show sync for the folder, never async."
            }
            Self::Redis => {
                "redis-cli CONFIG SET appendonly yes; redis-cli CONFIG SET appendfsync always; \
                 redis-cli CONFIG REWRITE"
            }
            Self::Postgres => {
                "ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();"
            }
            Self::Etcd | Self::Other => "Ask its operator to sync every commit before it is answered.",
        }
    }

    /// What makes a fail-over keep what was answered.
    pub(super) fn to_keep_on_fail_over(self) -> &'static str {
        match self {
            Self::Redis => {
                "Keep locks on one Redis server without replicas and with appendfsync always, or on etcd, or on \
                 PostgreSQL with synchronous_standby_names; until then send the fence with every guarded write."
            }
            Self::Postgres => {
                "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf(); \
                 ALTER ROLE … SET statement_timeout = 0; and promote only a standby that is waited for."
            }
            _ => "Use a store that keeps what it answered: etcd with three members, or one server alone.",
        }
    }

    /// What makes it available while one machine is down.
    pub(super) fn to_stay_available(self) -> &'static str {
        match self {
            Self::Etcd => "Run three members: etcdctl member add NAME --peer-urls=URL",
            Self::Postgres => "Add a standby and set synchronous_standby_names before it is there.",
            Self::Redis => {
                "Restart it quickly: replicas would make it unsafe. For more, use etcd with three members."
            }
            _ => "Nothing, if an outage of that one place is acceptable.",
        }
    }

    /// What makes changes arrive at once.
    pub(super) fn to_be_told(self) -> &'static str {
        match self {
            Self::Files => "sysctl fs.inotify.max_user_instances=1024",
            Self::Postgres => "Name the server itself in the URL, or set pool_mode = session in PgBouncer.",
            Self::SharedFolder => {
                "Nothing: NFS has no events. Use a database where a hand-over must be quick."
            }
            _ => "Nothing: this engine can't.",
        }
    }
}
