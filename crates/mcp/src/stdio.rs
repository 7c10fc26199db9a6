//! Speaking MCP on standard input and output.

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;

use crate::server::{Server, Side};

/// Why a conversation could not be had.
#[derive(Debug, thiserror::Error)]
#[error("speak MCP on standard input and output: {0}")]
pub struct Broken(String);

/// Speaks MCP on standard input and output until the other side is gone.
///
/// Dropped half-way, requests for locks that wait are given up after a few seconds.
///
/// # Errors
/// [`Broken`] if what comes in is not MCP.
pub async fn serve(side: Side) -> Result<(), Broken> {
    let service = match Server::new(side).serve(stdio_pipes()).await {
        Ok(service) => service,
        // Who has nothing to ask may leave without a word.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err(Broken("the first message asks for nothing".to_owned()));
        }
        Err(error) => return Err(Broken(error.to_string())),
    };
    service.waiting().await.map(|_| ()).map_err(|error| Broken(error.to_string()))
}
