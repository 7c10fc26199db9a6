//! A run with a desk that is served on a real socket, over a store in memory.

#![expect(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_api::ask::{AcquireRequest, Mode};
use bell_client::Client;
use bell_coord::work::intake::new_job;
use bell_coord::work::running::Work;
use bell_coord::work::wall_now;
use bell_coord::{Coord, Session, new_request};
use bell_core::lock::Ttl;
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobSpec, Rules, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::run::RunId;
use bell_gateway::desk::Standing;
use bell_gateway::routes::routes;
use bell_gateway::serve::{listen, serve};
use bell_gateway::{Callee, Callees, Desk, Refusal};
use bell_store::memory::Memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Long enough for a machine under any load: only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Knows one agent besides the caller: `helper`.
struct OneHelper;

#[async_trait]
impl Callees for OneHelper {
    async fn find(&self, _caller: &AgentName, wanted: &AgentName) -> Result<Callee, Refusal> {
        if wanted.as_str() != "helper" {
            return Err(Refusal::invalid(
                format!("could not call {wanted}: there is no such agent"),
                "Look.",
            ));
        }
        Ok(Callee { rules: Rules::default(), room: room(), depth_max: 3 })
    }
}

pub(crate) fn room() -> Room {
    Room { size: 100, overflow: Overflow::Reject }
}

pub(crate) fn name(text: &str) -> AgentName {
    AgentName::from_str(text).unwrap()
}

/// A run and its desk.
pub(crate) struct Office {
    pub(crate) coord: Coord,
    pub(crate) run: RunId,
    pub(crate) session: Session,
    pub(crate) desk: Desk,
    pub(crate) socket: PathBuf,
    folder: tempfile::TempDir,
    served: JoinSet<()>,
}

impl Office {
    pub(crate) async fn open() -> Self {
        Self::on(&Coord::new(Arc::new(Memory::new()))).await
    }

    /// A run of `worker` on this store.
    pub(crate) async fn on(coord: &Coord) -> Self {
        let (run, session) = begin(coord, "worker").await;
        let folder = tempfile::tempdir().unwrap();
        let standing = Standing {
            run: run.clone(),
            agent: name("worker"),
            work: coord.clone(),
            session: session.clone(),
            locks: coord.clone(),
            holder: session.clone(),
            ttl: Ttl::DEFAULT,
            runs: folder.path().join("runs"),
        };
        let desk = Desk::new(standing, OneHelper);
        let socket = folder.path().join("bell.sock");
        let listener = listen(&socket, None).unwrap();
        let mut served = JoinSet::new();
        served.spawn(serve(listener, routes(desk.clone())));
        Self { coord: coord.clone(), run, session, desk, socket, folder, served }
    }

    pub(crate) fn token(&self) -> String {
        self.session.token().expose()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(&self.token())
    }

    pub(crate) fn client_with(&self, token: &str) -> Client {
        Client::new(&format!("unix:{}", self.socket.display()), &token.to_owned().into()).unwrap()
    }

    /// Sends these bytes and reads until the other side closes or has answered. Answers the status and the whole text.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = bell_client::socket::connect(&self.socket).await.unwrap();
        // The other side may refuse before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut text = Vec::new();
        let mut part = [0; 4_096];
        let read = async {
            while let Ok(count @ 1..) = stream.read(&mut part).await {
                text.extend_from_slice(&part[..count]);
                let so_far = String::from_utf8_lossy(&text);
                if so_far.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}')) {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer");
        let text = String::from_utf8_lossy(&text).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {text:?}")), text)
    }

    /// A request with the run's token, these further headers and this body.
    pub(crate) async fn send(&self, line: &str, headers: &str, body: &str) -> (u16, String) {
        let token = self.token();
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        self.raw(format!("{head}{body}").as_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.send(&format!("POST {path}"), "Content-Type: application/json\r\n", body).await
    }
}

/// A run of an agent that has begun, and its session.
pub(crate) async fn begin(coord: &Coord, agent: &str) -> (RunId, Session) {
    let spec = JobSpec { agent: name(agent), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
    let offer = Offer { id: new_job(), spec, payload: "{}".into(), once: None, at: wall_now() };
    coord.accept(&[offer], room()).await.unwrap();
    let caps = Caps { agent: 100, fleet: None };
    let Ok(Work::Job(claim)) = coord.claim(&name(agent), caps, "here").await else { panic!("no job") };
    let session = coord.take_over(&claim.session.token()).await.unwrap();
    coord.begin(&claim.run, None).await.unwrap();
    (claim.run.clone(), session)
}

pub(crate) fn acquire(key: &str, wait_ms: u64) -> AcquireRequest {
    AcquireRequest {
        keys: vec![key.to_owned()],
        mode: Mode::Exclusive,
        ttl_ms: None,
        wait_ms,
        request_id: new_request().to_string(),
    }
}

/// Waits for something that must come to be.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("gave up waiting until {what}"));
}
