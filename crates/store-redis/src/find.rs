//! Which node to talk to, and a connection to it.
//!
//! All keys of a store are in one slot, so one node has them all: a store on a cluster or behind sentinels is a
//! store on one node that has to be found first, and again when it has moved.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo,
    PushInfo, RedisConnectionInfo, RedisError, RedisResult, Value, cmd,
};
use tokio::sync::mpsc::UnboundedSender;

use bell_store::Kind;

use crate::address::{Address, Host, Place, Security};
use crate::fault::Fault;
use crate::line::Line;
use crate::request::Request;

/// How long one node may take to answer while we look for the right one.
const NODE_LIMIT: Duration = Duration::from_secs(1);

/// Requests that may be on their way to the connection at the same time.
const WAITING_REQUESTS: usize = 1_024;

/// The node that has the store.
pub(crate) async fn find(address: &Address) -> Result<Host, Fault> {
    match &address.place {
        Place::Node(host) => Ok(host.clone()),
        Place::Sentinel { sentinels, service } => ask_sentinels(address, sentinels, service).await,
        Place::Cluster(nodes) => ask_cluster(address, nodes).await,
    }
}

/// A connection to a node. Cheap to clone; all clones are the one connection.
#[derive(Clone)]
pub(crate) enum Connection {
    /// Driven by a task, and hears what is pushed.
    Hearing(MultiplexedConnection),
    /// Asked from the caller's own thread.
    Near(Arc<Line>),
}

impl Connection {
    pub(crate) async fn ask(&self, request: &mut Request) -> RedisResult<Value> {
        match self {
            Self::Hearing(connection) => request.to_cmd().query_async(&mut connection.clone()).await,
            Self::Near(line) => line.ask(request).await,
        }
    }

    /// Asks all of these in one round trip.
    pub(crate) async fn ask_all(&self, requests: &mut [Request]) -> RedisResult<Vec<Value>> {
        match self {
            Self::Hearing(connection) => {
                let mut pipeline = redis::pipe();
                for request in requests {
                    pipeline.add_command(request.to_cmd());
                }
                pipeline.query_async(&mut connection.clone()).await
            }
            Self::Near(line) => line.ask_all(requests).await,
        }
    }

    pub(crate) async fn subscribe(&self, channel: &str) -> RedisResult<()> {
        match self {
            Self::Hearing(connection) => connection.clone().subscribe(channel).await,
            Self::Near(_) => Ok(()),
        }
    }

    pub(crate) async fn psubscribe(&self, pattern: &str) -> RedisResult<()> {
        match self {
            Self::Hearing(connection) => connection.clone().psubscribe(pattern).await,
            Self::Near(_) => Ok(()),
        }
    }
}

/// A connection to a node, as the user of the address. What the server pushes goes to `pushes`.
pub(crate) async fn connect(
    address: &Address,
    host: &Host,
    pushes: UnboundedSender<PushInfo>,
) -> Result<Connection, Fault> {
    let mut login = RedisConnectionInfo::default().set_db(address.database);
    if let Some(user) = &address.user {
        login = login.set_username(user);
    }
    if let Some(password) = &address.password {
        login = login.set_password(&password.0);
    }
    dial(host, address.security, login, pushes).await.map(Connection::Hearing)
}

/// A connection for those on this runtime, over which nothing is pushed but its end.
pub(crate) async fn connect_near(
    address: &Address,
    host: &Host,
    pushes: UnboundedSender<PushInfo>,
) -> Result<Connection, Fault> {
    if address.security == Security::Tls {
        return connect(address, host, pushes).await;
    }
    let refused = |error: RedisError| unreachable(host, address.security, &error);
    let line = Line::open(host, pushes).await.map_err(refused)?;
    if let Some(password) = &address.password {
        let mut login = Request::new("AUTH");
        if let Some(user) = &address.user {
            login.arg(user);
        }
        line.ask(login.arg(&password.0)).await.map_err(refused)?;
    }
    let mut select = Request::new("SELECT");
    line.ask(select.arg(address.database.to_string())).await.map_err(refused)?;
    Ok(Connection::Near(Arc::new(line)))
}

async fn dial(
    host: &Host,
    security: Security,
    login: RedisConnectionInfo,
    pushes: UnboundedSender<PushInfo>,
) -> Result<MultiplexedConnection, Fault> {
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(WAITING_REQUESTS)
        .set_push_sender(pushes);
    let login = login.set_protocol(redis::ProtocolVersion::RESP3);
    let client = (addr(host, security).into_connection_info())
        // Requests are small and many, and none should wait for the answer to the one before.
        .map(|place| place.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        .and_then(|place| Client::open(place.set_redis_settings(login)))
        .map_err(|error| unreachable(host, security, &error))?;
    client
        .get_multiplexed_async_connection_with_config(&settings)
        .await
        .map_err(|error| unreachable(host, security, &error))
}

fn addr(host: &Host, security: Security) -> ConnectionAddr {
    match security {
        Security::Plain => ConnectionAddr::Tcp(host.name.clone(), host.port),
        Security::Tls => ConnectionAddr::TcpTls {
            host: host.name.clone(),
            port: host.port,
            insecure: false,
            tls_params: None,
        },
    }
}

/// Nothing was asked yet, so nothing can have happened.
fn unreachable(host: &Host, security: Security, error: &RedisError) -> Fault {
    let said = error.to_string();
    let why = format!("{host}: {said}");
    match (error.kind(), security) {
        (ErrorKind::Io, Security::Tls) if said.contains("certificate") => Fault::new(
            Kind::Unsupported,
            why,
            "Make this machine trust who signed the server's certificate, or name the file in SSL_CERT_FILE.",
        ),
        (ErrorKind::Io, Security::Plain) if error.is_connection_dropped() => Fault {
            hint: "Check that the server takes connections; if the port wants TLS, write rediss:// for it.",
            ..Fault::unreachable(why)
        },
        (ErrorKind::Io, _) => Fault::unreachable(why),
        _ => Fault::from(error.clone()).of_question(),
    }
}

async fn ask_sentinels(address: &Address, sentinels: &[Host], service: &str) -> Result<Host, Fault> {
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    // Sentinels have no data and no users of it: the user of the URL is the node's.
    let (host, found) = ask_first::<Option<(String, u16)>>(
        sentinels,
        address.security,
        |_| RedisConnectionInfo::default(),
        &question,
    )
    .await?;
    match found {
        Some((name, port)) => Ok(Host { name, port }),
        None => Err(Fault::new(
            Kind::Invalid,
            format!("the sentinel {host} knows no service {service}"),
            "Write the service's name as in `sentinel monitor` after the sentinels' addresses.",
        )),
    }
}

async fn ask_cluster(address: &Address, nodes: &[Host]) -> Result<Host, Fault> {
    let login = |_: &Host| {
        let mut login = RedisConnectionInfo::default();
        if let Some(user) = &address.user {
            login = login.set_username(user);
        }
        if let Some(password) = &address.password {
            login = login.set_password(&password.0);
        }
        login
    };
    let [meta, ..] = address.keys();
    let mut question = cmd("CLUSTER");
    question.arg("KEYSLOT").arg(meta);
    let (host, slot) = ask_first::<i64>(nodes, address.security, login, &question).await?;
    let mut question = cmd("CLUSTER");
    question.arg("SLOTS");
    let (_, slots) =
        ask_first::<Value>(std::slice::from_ref(&host), address.security, login, &question).await?;
    owner(&slots, slot, &host).ok_or_else(|| {
        Fault::new(
            Kind::Unavailable,
            format!("no node of the cluster has slot {slot}"),
            "Wait until the cluster is whole again (CLUSTER INFO), and try again.",
        )
    })
}

/// The answer of the first of these hosts that gives one.
async fn ask_first<T: FromRedisValue>(
    hosts: &[Host],
    security: Security,
    login: impl Fn(&Host) -> RedisConnectionInfo,
    question: &Cmd,
) -> Result<(Host, T), Fault> {
    let mut last = Fault::unreachable("the URL names no host");
    for host in hosts {
        let asked = async {
            let (ignored, _) = tokio::sync::mpsc::unbounded_channel();
            let mut connection = dial(host, security, login(host), ignored).await?;
            question.query_async(&mut connection).await.map_err(|error| Fault::from(error).of_question())
        };
        match tokio::time::timeout(NODE_LIMIT, asked).await {
            Ok(Ok(answer)) => return Ok((host.clone(), answer)),
            Ok(Err(fault)) => last = fault,
            Err(_) => {
                last = Fault::unreachable(format!("{host}: no answer within {} ms", NODE_LIMIT.as_millis()))
            }
        }
    }
    Err(last)
}

/// The primary of the range that has this slot, in the answer to CLUSTER SLOTS. A node that does not know
/// its own name is the one that was asked.
fn owner(slots: &Value, slot: i64, asked: &Host) -> Option<Host> {
    let Value::Array(ranges) = slots else { return None };
    ranges.iter().find_map(|range| {
        let Value::Array(range) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
            return None;
        };
        let [name, Value::Int(port), ..] = primary.as_slice() else { return None };
        let name = match name {
            Value::BulkString(name) if !name.is_empty() => String::from_utf8(name.clone()).ok()?,
            _ => asked.name.clone(),
        };
        let port = u16::try_from(*port).ok()?;
        (*first..=*last).contains(&slot).then_some(Host { name, port })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, name: &str, port: i64) -> Value {
        let node = vec![Value::BulkString(name.as_bytes().to_vec()), Value::Int(port)];
        Value::Array(vec![Value::Int(first), Value::Int(last), Value::Array(node)])
    }

    #[test]
    fn the_primary_of_the_slot_s_range_owns_it() {
        let asked = Host { name: "seed".to_owned(), port: 1 };
        let slots = Value::Array(vec![range(0, 99, "a", 1), range(100, 199, "b", 2), range(200, 300, "", 3)]);
        let owner = |slot| owner(&slots, slot, &asked).map(|host| host.to_string());
        assert_eq!(owner(100).as_deref(), Some("b:2"));
        assert_eq!(owner(250).as_deref(), Some("seed:3"));
        assert_eq!(owner(400), None);
    }
}
