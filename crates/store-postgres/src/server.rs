//! What the server is and how it is set up: whether it can keep a store, and what it can promise.

use bell_store::info::{Clock, Concern, Durability, FailOver, Limits, Push, Scope, Warning};
use bell_store::{Error, Info, Kind, Result};

use crate::address::Address;
use crate::fault::Fault;
use crate::link::Session;
use crate::records::column;

/// The first version whose procedures and functions do all that is needed.
const OLDEST_VERSION: i32 = 120_000;

const INSPECT: &str = "
    SELECT current_setting('server_version_num')::integer,
           pg_is_in_recovery(),
           current_setting('default_transaction_isolation'),
           current_setting('fsync') = 'on',
           current_setting('full_page_writes') = 'on',
           current_setting('synchronous_standby_names') <> '',
           current_setting('statement_timeout') <> '0',
           (SELECT count(*) FROM pg_stat_replication)
               + (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active)
";

/// A server's settings, as far as they matter.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    version: i32,
    is_standby: bool,
    isolation: String,
    syncs: bool,
    writes_full_pages: bool,
    waits_for_standbys: bool,
    cancels_statements: bool,
    /// Those that follow it now, and those that it keeps a place for while they are away.
    standbys: i64,
}

impl Server {
    pub(crate) async fn inspect(session: &Session) -> Result<Self, Fault> {
        let rows = session.ask(INSPECT, &[]).await?;
        let row = rows.first().ok_or_else(|| Fault::nonsense("the server does not tell its settings"))?;
        Ok(Self {
            version: column(row, 0)?,
            is_standby: column(row, 1)?,
            isolation: column(row, 2)?,
            syncs: column(row, 3)?,
            writes_full_pages: column(row, 4)?,
            waits_for_standbys: column(row, 5)?,
            cancels_statements: column(row, 6)?,
            standbys: column(row, 7)?,
        })
    }

    /// Whether it can keep a store at all.
    pub(crate) fn check(&self) -> Result<()> {
        if self.version < OLDEST_VERSION {
            let message = format!("open the store: PostgreSQL {} is too old", self.version / 10_000);
            return Err(Error::new(Kind::Unsupported, message).hint("Use PostgreSQL 12 or newer."));
        }
        if self.is_standby {
            let message = "open the store: the server is a standby, which can't be written";
            return Err(Error::new(Kind::ReadOnly, message)
                .hint("Name the primary server, or list all hosts: postgres://user@a,b/database."));
        }
        if self.isolation != "read committed" {
            let message =
                format!("open the store: transactions of this role are {} by default", self.isolation);
            return Err(Error::new(Kind::Unsupported, message).hint(
                "Run ALTER ROLE … SET default_transaction_isolation = 'read committed' for this role.",
            ));
        }
        Ok(())
    }

    pub(crate) fn info(&self, address: &Address, push: Push) -> Info {
        let is_safe = self.syncs && self.writes_full_pages;
        Info {
            scheme: "postgres",
            location: address.location(),
            scope: Scope::Distributed,
            durability: if is_safe { Durability::Power } else { Durability::Process },
            fail_over: self.fail_over(address),
            clock: Clock::Server,
            push,
            notices_death: false,
            limits: Limits::CONTRACT,
            warnings: self.warnings(address, push),
        }
    }

    fn fail_over(&self, address: &Address) -> FailOver {
        match (self.can_be_replaced(address), self.waits_for_standbys) {
            // A limit on statements ends the wait, and the commit is answered as if it had been confirmed.
            (_, true) if self.cancels_statements => FailOver::Loses,
            (_, true) => FailOver::Kept,
            (true, false) => FailOver::Loses,
            (false, false) => FailOver::None,
        }
    }

    /// Whether there is another server that could take its place.
    fn can_be_replaced(&self, address: &Address) -> bool {
        self.standbys > 0 || address.config.get_hosts().len() > 1
    }

    fn warnings(&self, address: &Address, push: Push) -> Vec<Warning> {
        let told = [
            (!self.syncs, Concern::Durability, NOT_SYNCED),
            (!self.writes_full_pages, Concern::Durability, TORN_PAGES),
            (self.can_be_replaced(address) && !self.waits_for_standbys, Concern::FailOver, ASYNCHRONOUS),
            (self.waits_for_standbys && self.cancels_statements, Concern::FailOver, WAIT_CUT_SHORT),
            (matches!(push, Push::Poll { .. }), Concern::Push, NOT_NOTIFIED),
        ];
        let told = told.into_iter().filter(|(is_so, ..)| *is_so);
        told.map(|(_, about, words)| Warning::new(about, words)).collect()
    }
}

const NOT_SYNCED: &str =
    "the server does not sync its disk and a power cut can ruin everything; set fsync = on";
const TORN_PAGES: &str = "a power cut can tear the server's pages; set full_page_writes = on";
const ASYNCHRONOUS: &str = "standbys follow asynchronously, so a fail-over can lose what was answered and repeat fences; \
     commits are then refused until the epoch is raised; set synchronous_standby_names to avoid it";
const WAIT_CUT_SHORT: &str = "statement_timeout can end the wait for a standby, and a fail-over then lose what was answered; set it to 0 for this role";
const NOT_NOTIFIED: &str = "notifications don't arrive, probably through a pooler in transaction mode, so changes are looked for; connect to the \
     server itself, or use session mode, to be told at once";

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Server {
        Server {
            version: 150_000,
            is_standby: false,
            isolation: "read committed".to_owned(),
            syncs: true,
            writes_full_pages: true,
            waits_for_standbys: false,
            cancels_statements: false,
            standbys: 0,
        }
    }

    fn kind(server: &Server) -> Kind {
        server.check().unwrap_err().kind()
    }

    fn info(server: &Server) -> Info {
        server.info(&Address::parse("postgres://ada@host/app").unwrap(), Push::Push)
    }

    #[test]
    fn a_sound_server_is_taken_without_a_warning() {
        sound().check().unwrap();
        assert_eq!((info(&sound()).durability, info(&sound()).warnings.len()), (Durability::Power, 0));
    }

    #[test]
    fn what_can_not_keep_a_store_is_refused() {
        assert_eq!(kind(&Server { version: 110_022, ..sound() }), Kind::Unsupported);
        assert_eq!(kind(&Server { is_standby: true, ..sound() }), Kind::ReadOnly);
        assert_eq!(kind(&Server { isolation: "serializable".to_owned(), ..sound() }), Kind::Unsupported);
    }

    #[test]
    fn a_server_that_does_not_sync_promises_less_and_says_so() {
        for server in [Server { syncs: false, ..sound() }, Server { writes_full_pages: false, ..sound() }] {
            assert_eq!((info(&server).durability, info(&server).warnings.len()), (Durability::Process, 1));
        }
    }

    #[test]
    fn standbys_that_nobody_waits_for_are_warned_of() {
        let server = Server { standbys: 1, ..sound() };
        assert!(info(&server).warnings[0].words.contains("repeat fences"));
        assert_eq!(info(&server).fail_over, FailOver::Loses);
        let waiting = info(&Server { waits_for_standbys: true, ..server });
        assert_eq!((waiting.fail_over, waiting.warnings.len()), (FailOver::Kept, 0));
    }

    #[test]
    fn a_server_alone_has_nothing_to_fail_over_to_unless_the_url_names_another() {
        assert_eq!(info(&sound()).fail_over, FailOver::None);
        let both = Address::parse("postgres://ada@host,other/app").unwrap();
        assert_eq!(sound().info(&both, Push::Push).fail_over, FailOver::Loses);
    }

    #[test]
    fn a_time_limit_that_can_end_the_wait_for_a_standby_is_warned_of() {
        let server = Server { waits_for_standbys: true, cancels_statements: true, ..sound() };
        assert!(info(&server).warnings[0].words.contains("statement_timeout"));
        assert_eq!(info(&server).fail_over, FailOver::Loses);
    }
}
