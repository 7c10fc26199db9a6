//! What the server's refusals mean to the caller.

use bell_store::{Error, Kind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why it did not work, to be told to everybody who waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) why: String,
    pub(crate) hint: &'static str,
    /// Another node may be the right one, or this one after a new connection.
    pub(crate) elsewhere: bool,
}

impl Fault {
    pub(crate) fn new(kind: Kind, why: impl Into<String>, hint: &'static str) -> Self {
        Self { kind, why: why.into(), hint, elsewhere: false }
    }

    /// A server that can't be talked to, at least not now.
    pub(crate) fn unreachable(why: impl Into<String>) -> Self {
        let hint = "Check that the server runs, and that its address in the URL is right.";
        Self { elsewhere: true, ..Self::new(Kind::Unavailable, why, hint) }
    }

    /// The server went away, or did not answer, after a request had left for it.
    pub(crate) fn no_answer(why: impl Into<String>) -> Self {
        let hint = "Look whether it happened; then check that the server runs and can be reached.";
        Self { elsewhere: true, ..Self::new(Kind::Unknown, why, hint) }
    }

    /// What comes of it for a request that changes nothing: without an answer it simply did not happen.
    pub(crate) fn of_question(self) -> Self {
        match self.kind {
            Kind::Unknown => Self { kind: Kind::Unavailable, ..self },
            _ => self,
        }
    }

    /// In words: `doing` reads after «could not».
    pub(crate) fn error(&self, doing: &str) -> Error {
        Error::new(self.kind, format!("{doing}: {}", self.why)).hint(self.hint)
    }
}

impl From<RedisError> for Fault {
    /// A request that was sent has met this. Only what the server itself answered is certain.
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some(code) => of_answer(code, error.detail().unwrap_or_default()),
            None => of_connection(&error),
        }
    }
}

fn of_answer(code: &str, detail: &str) -> Fault {
    let said = if detail.is_empty() { code.to_owned() } else { format!("{code} {detail}") };
    let elsewhere = |fault| Fault { elsewhere: true, ..fault };
    match code {
        "WRONGPASS" | "NOAUTH" => unauthorized(),
        "NOPERM" => Fault::new(
            Kind::Unauthorized,
            said,
            "Give this user the rights that the page on Redis lists (ACL SETUSER).",
        ),
        "READONLY" => elsewhere(Fault::new(
            Kind::ReadOnly,
            "the server is a replica",
            "Name the primary in the URL, or let redis+sentinel:// find it.",
        )),
        "OOM" => Fault::new(
            Kind::Full,
            "the server has no memory left (maxmemory)",
            "Raise maxmemory on the server, or delete what is no longer needed.",
        ),
        "MISCONF" => Fault::new(
            Kind::Full,
            "the server can't save to its disk and takes no writes",
            "Free space on the server's disk or correct its rights; its log says which.",
        ),
        "LOADING" | "BUSY" | "NOREPLICAS" => {
            Fault::new(Kind::Unavailable, said, "Wait until the server is ready and try again.")
        }
        "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" => elsewhere(Fault::new(
            Kind::Unavailable,
            said,
            "Try again; for a cluster write redis+cluster:// in the URL.",
        )),
        "WRONGTYPE" => foreign(),
        "ERR" if detail.contains("DB index") => Fault::new(
            Kind::Invalid,
            "the server has no database of that number",
            "Name a smaller number after the host, or raise `databases` on the server.",
        ),
        _ => Fault::new(Kind::Unsupported, said, "Use Redis 7.0 or newer, and report this if it is."),
    }
}

fn of_connection(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::AuthenticationFailed => unauthorized(),
        ErrorKind::Server(ServerErrorKind::NoPerm) => unauthorized(),
        ErrorKind::RESP3NotSupported => too_old("it does not know RESP3"),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::new(
            Kind::Unsupported,
            "what answers there does not speak like a Redis server",
            "Check host and port in the URL.",
        ),
        _ => Fault::no_answer(error.to_string()),
    }
}

pub(crate) fn unauthorized() -> Fault {
    Fault::new(
        Kind::Unauthorized,
        "the server refuses this user and password",
        "Correct user and password in the URL: redis://user:password@host, or redis://:password@host.",
    )
}

pub(crate) fn too_old(why: &str) -> Fault {
    Fault::new(
        Kind::Unsupported,
        format!("the server is too old: {why}"),
        "Use Redis 7.0 or newer, or Valkey 7.2 or newer.",
    )
}

pub(crate) fn foreign() -> Fault {
    Fault::new(
        Kind::Invalid,
        "another program uses keys with this prefix",
        "Choose another prefix in the URL: ?prefix=NAME.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_kind_and_says_what_to_do() {
        for (code, detail, kind) in [
            ("WRONGPASS", "", Kind::Unauthorized),
            ("NOPERM", "this user has no permissions to run the 'info' command", Kind::Unauthorized),
            ("READONLY", "", Kind::ReadOnly),
            ("OOM", "", Kind::Full),
            ("MISCONF", "", Kind::Full),
            ("LOADING", "", Kind::Unavailable),
            ("MOVED", "1 host:1", Kind::Unavailable),
            ("WRONGTYPE", "", Kind::Invalid),
            ("ERR", "DB index is out of range", Kind::Invalid),
            ("ERR", "unknown command", Kind::Unsupported),
        ] {
            let fault = of_answer(code, detail);
            assert_eq!(fault.kind, kind, "{code} {detail}");
            assert!(!fault.hint.is_empty(), "{code} {detail}");
        }
    }

    #[test]
    fn a_lost_connection_leaves_a_commit_unknown_and_a_question_unanswered() {
        let lost = Fault::from(RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)));
        assert_eq!(lost.kind, Kind::Unknown);
        assert_eq!(lost.of_question().kind, Kind::Unavailable);
    }
}
