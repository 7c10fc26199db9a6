//! One connection that is made when it is needed, and made again when it was lost.
//!
//! Statements are sent unprepared, one round trip each, so that a pooler may give every one of them to
//! another connection of the server; where it is clear that none does, those that are sent often are prepared. What
//! the server must plan otherwise is planned in its functions, once per connection there.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bell_store::clock::boottime;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::address::Schema;
use crate::fault::Fault;
use crate::route::Route;

/// How long any request may take. Shorter than any lease that has to be renewed meanwhile; longer than the
/// four seconds that a commit may wait for its turn on the server.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long setting up may take: nobody relies on the store yet, and a busy server may be slow to make tables.
const SET_UP_LIMIT: Duration = Duration::from_secs(30);

/// After a failure to connect the next requests fail alike for this long: many callers who all try
/// would only keep a struggling server busy.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a closing connection may take to say so.
const FAREWELL: Duration = Duration::from_millis(500);

/// How a connection of our own plans, and that its commits are on the disk when they are answered, whatever is set for
/// the database later. A client whose machine is gone is noticed within seconds: what it asked for may hold the turn, if just
/// the end of the request was lost. The long text is for the server's allocator, which from then on keeps the memory of a
/// statement for the next one. Some of ours came to just above the 128 kB at which it gave it back every time, for 25 µs.
const SETTLE: &str = "
    SELECT {schema}.settle(false),
           length(repeat(' ', 1000000)),
           set_config('synchronous_commit',
                      CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                           ELSE current_setting('synchronous_commit') END, false),
           set_config('tcp_keepalives_idle', '3', false),
           set_config('tcp_keepalives_interval', '1', false),
           set_config('tcp_keepalives_count', '3', false)
";

/// The branch of history that the server is on. It stays the same while a connection lasts: another takes a server that
/// starts anew, or a standby that takes over, for which this is none.
const BRANCH: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE {schema}.timeline() END";

const IDENTIFY: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// A statement's parameters, each with its type.
pub(crate) type Parameters<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// How often a statement is sent over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Seldom,
    /// It pays to be prepared.
    Often(Phrase),
}

/// The statements that are sent over and over again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phrase {
    Read,
    CommitTogether,
    CommitAtOnce,
    PutAlone,
    DeleteAlone,
}

impl Phrase {
    const ALL: usize = Self::DeleteAlone as usize + 1;
}

/// A connection that comes back.
pub(crate) struct Link {
    route: Route,
    /// What is sent first over a connection that is known to be our own.
    greeting: Option<Greeting>,
    state: Mutex<State>,
}

/// What is asked of a connection of our own before anything else.
struct Greeting {
    settle: String,
    branch: String,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    failed: Option<(Duration, Fault)>,
}

/// A connection while it lasts.
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// The server's branch of history, once the connection is settled.
    settled: OnceLock<String>,
    prepared: [OnceLock<Statement>; Phrase::ALL],
    /// Which cluster of databases it leads to; `None` if the server does not tell this role.
    pub(crate) system: Option<String>,
}

impl Link {
    /// A link whose every statement a pooler may send to another connection of the server.
    pub(crate) fn new(route: Route) -> Self {
        Self { route, greeting: None, state: Mutex::default() }
    }

    /// A link with no pooler on its way: its connections are settled, and what is asked often is prepared.
    pub(crate) fn direct(route: Route, schema: &Schema) -> Self {
        let greeting = Greeting { settle: schema.fill(SETTLE), branch: schema.fill(BRANCH) };
        Self { greeting: Some(greeting), ..Self::new(route) }
    }

    /// Whether its statements are prepared.
    pub(crate) fn is_direct(&self) -> bool {
        self.greeting.is_some()
    }

    /// The connection, made if there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, Fault> {
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        state.session = None;
        if let Some((when, fault)) = &state.failed
            && boottime().saturating_sub(*when) < PAUSE
        {
            return Err(fault.clone());
        }
        match Session::open(&self.route, None).await {
            Ok(session) => {
                let session = Arc::new(session);
                *state = State { session: Some(Arc::clone(&session)), failed: None };
                Ok(session)
            }
            Err(fault) => {
                state.failed = Some((boottime(), fault.clone()));
                Err(fault)
            }
        }
    }

    /// Asks for something that changes nothing. A connection that turns out to be lost is made again.
    pub(crate) async fn read(
        &self,
        sql: &str,
        parameters: &Parameters<'_>,
        asked: Asked,
    ) -> Result<Vec<Row>, Fault> {
        let session = self.session().await?;
        match self.ask(&session, sql, parameters, asked).await {
            Err(fault) if fault.is_silence() && session.client.is_closed() => {
                let session = self.session().await?;
                self.ask(&session, sql, parameters, asked).await
            }
            answer => answer,
        }
    }

    /// Asks over a connection of this link, and gives the connection up if no answer comes.
    pub(crate) async fn ask(
        &self,
        session: &Arc<Session>,
        sql: &str,
        parameters: &Parameters<'_>,
        asked: Asked,
    ) -> Result<Vec<Row>, Fault> {
        let answer = match (&self.greeting, asked) {
            (Some(greeting), Asked::Often(phrase)) => {
                session.ask_prepared(greeting, phrase, sql, parameters).await
            }
            _ => session.ask(sql, parameters).await,
        };
        self.unless_silent(session, answer).await
    }

    /// The branch of history that the server is on, for as long as this connection lasts. `None`: the next statement may
    /// meet another connection.
    pub(crate) async fn branch<'a>(&self, session: &'a Arc<Session>) -> Result<Option<&'a str>, Fault> {
        let Some(greeting) = &self.greeting else { return Ok(None) };
        if let Some(branch) = session.settled.get() {
            return Ok(Some(branch));
        }
        let settled = in_time(session.settled(greeting)).await;
        self.unless_silent(session, settled).await.map(Some)
    }

    /// Gives the connection up if no answer came.
    async fn unless_silent<T>(&self, session: &Arc<Session>, answer: Result<T, Fault>) -> Result<T, Fault> {
        if answer.as_ref().is_err_and(Fault::is_silence) {
            let mut state = self.state.lock().await;
            state.session.take_if(|current| Arc::ptr_eq(current, session));
        }
        answer
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(&self) {
        if let Some(session) = self.state.lock().await.session.take().and_then(Arc::into_inner) {
            session.close().await;
        }
    }
}

impl Session {
    /// Connects. Notifications go to `heard`.
    pub(crate) async fn open(
        route: &Route,
        heard: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<Self, Fault> {
        let connected = timeout(REQUEST_LIMIT, route.connect(heard)).await;
        let (client, driver) =
            connected.map_err(|_| Fault::unreachable())?.map_err(|error| Fault::while_connecting(&error))?;
        let mut session =
            Self { client, driver, settled: OnceLock::new(), prepared: Default::default(), system: None };
        match session.ask(IDENTIFY, &[]).await {
            Ok(rows) => session.system = rows.first().and_then(|row| row.try_get(0).ok()),
            Err(fault) if fault.is_silence() => return Err(Fault::unreachable()),
            // Some hosters keep it to themselves.
            Err(_) => {}
        }
        Ok(session)
    }

    pub(crate) async fn ask(&self, sql: &str, parameters: &Parameters<'_>) -> Result<Vec<Row>, Fault> {
        in_time(self.client.query_typed(sql, parameters)).await
    }

    /// Asks with a statement that is prepared once on this connection, which is settled first.
    async fn ask_prepared(
        &self,
        greeting: &Greeting,
        phrase: Phrase,
        sql: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        in_time(async {
            let prepared = &self.prepared[phrase as usize];
            let statement = match prepared.get() {
                Some(statement) => statement,
                None => {
                    self.settled(greeting).await?;
                    let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
                    let statement = self.client.prepare_typed(sql, &types).await?;
                    prepared.get_or_init(|| statement)
                }
            };
            let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
            self.client.query(statement, &values).await
        })
        .await
    }

    /// Settles the connection if that has not been done. Answers with the server's branch.
    ///
    /// Two who come first at the same time both do it, here and above: whoever waited for the other would wait for a task
    /// that may do something else meanwhile.
    async fn settled(&self, greeting: &Greeting) -> Result<&str, tokio_postgres::Error> {
        if let Some(branch) = self.settled.get() {
            return Ok(branch);
        }
        self.client.batch_execute(&greeting.settle).await?;
        let branch = self.client.query_one(&greeting.branch, &[]).await?.try_get(0)?;
        Ok(self.settled.get_or_init(|| branch))
    }

    /// Runs several statements that set something up, none of which has parameters.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Fault> {
        let answer = timeout(SET_UP_LIMIT, self.client.batch_execute(sql)).await;
        answer.map_err(|_| Fault::late())?.map_err(|error| Fault::from(&error))
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(self) {
        drop(self.client);
        // A server that does not take a goodbye learns of it when the process ends.
        let _ = timeout(FAREWELL, self.driver).await;
    }
}

/// What came of a request within the limit.
async fn in_time<T>(request: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
    let answer = timeout(REQUEST_LIMIT, request).await;
    answer.map_err(|_| Fault::late())?.map_err(|error| Fault::from(&error))
}
