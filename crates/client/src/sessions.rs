//! Sessions of programs outside of any run.

use bell_api::ask::{Nothing, SessionRequest};
use bell_api::session::{HeartbeatAnswer, SessionAnswer};

use crate::client::Client;
use crate::failure::Failure;

impl Client {
    /// Makes a session at the daemon, with an API key. The answer has its token, for [`Client::with_token`].
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn open_session(&self, request: &SessionRequest) -> Result<SessionAnswer, Failure> {
        self.post("/v1/sessions", request).await
    }

    /// Keeps the session alive that this client acts in, and hears what became of its locks.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn heartbeat(&self) -> Result<HeartbeatAnswer, Failure> {
        self.post("/v1/sessions/heartbeat", &Nothing {}).await
    }
}
