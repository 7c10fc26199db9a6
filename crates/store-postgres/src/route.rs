//! How to connect, over and over again, encrypted or not.

use std::future::poll_fn;

use bell_store::Result;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};

use crate::address::{Address, Security};
use crate::tls;

/// The way to a server.
#[derive(Clone)]
pub(crate) struct Route {
    config: Config,
    tls: Option<tls::Connector>,
}

impl Route {
    pub(crate) fn to(address: &Address) -> Result<Self> {
        let tls = match &address.security {
            Security::Plain => None,
            Security::Tls(trusted) => Some(tls::connector(trusted.as_deref())?),
        };
        Ok(Self { config: address.config.clone(), tls })
    }

    /// Connects, and starts the task that moves what is sent and received. Notifications go to `heard`.
    pub(crate) async fn connect(
        &self,
        heard: Option<UnboundedSender<String>>,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        match self.tls.as_ref().cloned() {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls).await?;
                Ok((client, tokio::spawn(drive(connection, heard))))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, tokio::spawn(drive(connection, heard))))
            }
        }
    }
}

/// Its end shows in every request that waits for an answer, so it is not told here.
async fn drive<S, T>(mut connection: Connection<S, T>, heard: Option<UnboundedSender<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let (AsyncMessage::Notification(told), Some(heard)) = (message, &heard) {
            // Nobody listens any more: the connection is about to be closed.
            let _ = heard.send(told.payload().to_owned());
        }
    }
}
