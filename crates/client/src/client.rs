//! What can be asked of a gateway.

use std::time::Duration;

use bell_api::ask::{AcquireRequest, LeaveRequest, Nothing, ReleaseRequest, RenewRequest, SessionRequest};
use bell_api::call::{CallAnswer, CallRequest};
use bell_api::lock::{AcquireAnswer, ChangesAnswer, ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_api::run::{ExitRequest, ReturnRequest, RunAnswer, StatusRequest};
use bell_api::token::Token;
use http::{HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::address::Address;
use crate::exchange::{Asked, exchange, open};
use crate::failure::Failure;
use crate::stream::Stream;

/// How long an answer that waits for nobody may take: a store that is slow is given up earlier by the gateway itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait of one call, at the gateway's end.
pub const POLL: Duration = Duration::from_secs(55);

/// How often a request that can be repeated is repeated after silence.
const REPEATS: u32 = 2;
const REPEAT_AFTER: Duration = Duration::from_millis(200);

/// How long a gateway that was there may be away before a request that waits is given up: one that starts again is back
/// by then, and places in queues are kept for about as long.
const AWAY_MAX: Duration = Duration::from_secs(10);

/// A gateway, and the token that says who asks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    bearer: HeaderValue,
}

impl Client {
    /// A gateway at this address. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Unusable`] if the address or the token can't be one.
    pub fn new(url: &str, token: &Token) -> Result<Self, Failure> {
        let address = url.parse::<Address>().map_err(|error| Failure::Unusable(error.to_string()))?;
        Ok(Self { address, bearer: bearer(token)? })
    }

    /// The same gateway, asked by another session.
    ///
    /// # Errors
    /// [`Failure::Unusable`] if the token can't be one.
    pub fn with_token(&self, token: &Token) -> Result<Self, Failure> {
        Ok(Self { address: self.address.clone(), bearer: bearer(token)? })
    }

    /// Where the gateway is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks for locks and waits as long as the request says. After silence it is repeated: it has the one outcome.
    ///
    /// Dropped half-way, the place in the queue is given up after a few seconds, or at once by [`Self::leave`].
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn acquire(&self, request: &AcquireRequest) -> Result<LockAnswer, Failure> {
        let began = Instant::now();
        let (mut silences, mut heard): (u32, Option<Instant>) = (0, None);
        loop {
            let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let left =
                AcquireRequest { wait_ms: request.wait_ms.saturating_sub(waited_ms), ..request.clone() };
            match self.post("/v1/locks/acquire", &left).await {
                Ok(LockAnswer { outcome: Outcome::Waiting, .. }) => {
                    (silences, heard) = (0, Some(Instant::now()));
                }
                Err(Failure::Unknown { .. }) if silences < REPEATS => {
                    silences += 1;
                    heard = Some(Instant::now());
                    sleep(REPEAT_AFTER).await;
                }
                // It was there a moment ago, so it may be starting again.
                Err(Failure::Unreachable { .. }) if heard.is_some_and(|at| at.elapsed() < AWAY_MAX) => {
                    sleep(REPEAT_AFTER).await;
                }
                done => return done,
            }
        }
    }

    /// As [`Self::acquire`], in one call: after 55 s at the most it answers `waiting`. Who calls again with the same
    /// request within a few seconds keeps its place in the queue.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn attend(&self, request: &AcquireRequest) -> Result<LockAnswer, Failure> {
        self.post("/v1/locks/acquire", request).await
    }

    /// Gives up a request that waits.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn leave(&self, request_id: &str) -> Result<LockAnswer, Failure> {
        self.post("/v1/locks/leave", &LeaveRequest { request_id: request_id.to_owned() }).await
    }

    /// Makes a lease last its full ttl again.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn renew(&self, request: &RenewRequest) -> Result<LockAnswer, Failure> {
        self.post("/v1/locks/renew", request).await
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn release(&self, request: &ReleaseRequest) -> Result<LockAnswer, Failure> {
        self.post("/v1/locks/release", request).await
    }

    /// Who holds a key and who waits for it.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn show(&self, key: &str) -> Result<LockAnswer, Failure> {
        self.get("/v1/locks/show", &[("key", key)]).await
    }

    /// Every key that starts with `prefix` and is held or waited for.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn list(&self, prefix: &str) -> Result<ListAnswer, Failure> {
        let mut all: Vec<LockAnswer> = Vec::new();
        loop {
            let after = all.last().and_then(|lock| lock.key.as_ref()).map(ToString::to_string);
            let query = [("prefix", prefix), ("after", after.as_deref().unwrap_or_default())];
            let page: ListAnswer = self.get("/v1/locks", &query[..1 + usize::from(after.is_some())]).await?;
            all.extend(page.locks);
            if !page.more {
                return Ok(ListAnswer { outcome: page.outcome, locks: all, more: false });
            }
        }
    }

    /// The revision to look for changes after.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn revision(&self) -> Result<u64, Failure> {
        let answer: ChangesAnswer = self.get("/v1/locks/changes", &[]).await?;
        Ok(answer.revision)
    }

    /// Returns when keys that start with `prefix` may have changed after that revision, or after a minute.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn changed(&self, prefix: &str, after: u64) -> Result<ChangesAnswer, Failure> {
        let (after, wait) = (after.to_string(), POLL.as_millis().to_string());
        self.get("/v1/locks/changes", &[("prefix", prefix), ("after", &after), ("wait_ms", &wait)]).await
    }

    /// Makes a session of its own, and answers a client that acts in it.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn session(&self, request: &SessionRequest) -> Result<Self, Failure> {
        let made: AcquireAnswer = self.post("/v1/sessions", request).await?;
        let token = made
            .token
            .ok_or_else(|| Failure::Unusable("could not use the answer: it has no token".into()))?;
        self.with_token(&token)
    }

    /// Ends the session that this client acts in, with everything it holds.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn end_session(&self) -> Result<LockAnswer, Failure> {
        self.post("/v1/sessions/end", &Nothing {}).await
    }

    /// Says what the run is doing.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn status(&self, text: &str) -> Result<RunAnswer, Failure> {
        self.post("/v1/run/status", &StatusRequest { text: text.to_owned() }).await
    }

    /// Gives a value to whoever called the run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn give_back(&self, value: &str) -> Result<RunAnswer, Failure> {
        self.post("/v1/run/return", &ReturnRequest { value: value.to_owned() }).await
    }

    /// Asks for the run to be run again.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn rerun(&self) -> Result<RunAnswer, Failure> {
        self.post("/v1/run/rerun", &Nothing {}).await
    }

    /// Ends the run, with every process of it.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn exit(&self, code: u8) -> Result<RunAnswer, Failure> {
        self.post("/v1/run/exit", &ExitRequest { code }).await
    }

    /// Calls an agent. After silence it is repeated: the call is made once.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn call(&self, request: &CallRequest) -> Result<CallAnswer, Failure> {
        let mut silences = 0;
        loop {
            match self.post("/v1/calls", request).await {
                Err(Failure::Unknown { .. }) if silences < REPEATS => {
                    silences += 1;
                    sleep(REPEAT_AFTER).await;
                }
                done => return done,
            }
        }
    }

    /// Where a call stands.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn check_call(&self, job: &str) -> Result<CallAnswer, Failure> {
        self.get(&call_path(job), &[]).await
    }

    /// Where a call stands once it is over, or after this long, a minute at the most.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn wait_call(&self, job: &str, wait: Duration) -> Result<CallAnswer, Failure> {
        let wait_ms = wait.min(POLL).as_millis().to_string();
        self.get(&call_path(job), &[("wait_ms", &wait_ms)]).await
    }

    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::Unusable(format!("could not write the request: {error}")))?;
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn get<A: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<A, Failure> {
        if query.is_empty() {
            return self.ask(Method::GET, path, None).await;
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        self.ask(Method::GET, &format!("{path}?{query}"), None).await
    }

    /// Asks for an answer that goes on.
    pub(crate) async fn open_stream(&self, path: &str, query: &[(&str, &str)]) -> Result<Stream, Failure> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let path = format!("{path}?{query}");
        let asked = Asked { method: Method::GET, path: &path, body: None, patience: PATIENCE };
        let (sender, body) = open(&self.address, &self.bearer, asked).await?;
        Ok(Stream::new(self.address.to_string(), sender, body))
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<A, Failure> {
        let asked = Asked { method, path, body, patience: POLL + PATIENCE };
        exchange(&self.address, &self.bearer, asked).await
    }
}

/// The path of a call. Names of jobs are plain; whatever else is given must not change the path.
fn call_path(job: &str) -> String {
    let name: String = form_urlencoded::byte_serialize(job.as_bytes()).collect();
    format!("/v1/calls/{name}")
}

fn bearer(token: &Token) -> Result<HeaderValue, Failure> {
    let unusable =
        |_| Failure::Unusable("could not use the token: it has characters that a token can't have".into());
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(unusable)?;
    // Its Debug shows nothing of it then.
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_shown() {
        let client = Client::new("unix:/x", &Token::from("canary".to_owned())).unwrap();
        assert!(!format!("{client:?}").contains("canary"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nobody_there_is_unreachable_and_silence_after_sending_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bell.sock");
        let client = Client::new(&format!("unix:{}", path.display()), &Token::from("t".to_owned())).unwrap();
        assert!(matches!(client.status("x").await, Err(Failure::Unreachable { .. })));
        let listener = crate::socket::bind(&path).unwrap();
        let cut = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut some = [0; 16];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut some).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.status("x"), cut);
        assert!(matches!(answer, Err(Failure::Unknown { .. })), "{answer:?}");
    }
}
