//! One connection: requests and answers, without a library in the way.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// How a client gets there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Tcp,
    Unix,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Tcp, Self::Unix];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "unix socket",
        }
    }
}

/// Where somebody listens.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) socket: PathBuf,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that stays open.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    head: String,
    read: Vec<u8>,
}

/// An answer: its status, and its body.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(self.body)?)
    }

    /// Refuses anything but success.
    pub(crate) fn good(self) -> Result<Self> {
        if self.status == 200 {
            return Ok(self);
        }
        bail!("the answer was {}: {}", self.status, String::from_utf8_lossy(self.body))
    }
}

impl Connection {
    pub(crate) async fn open(place: &Place, way: Way, bearer: &str) -> Result<Self> {
        let stream: Box<dyn Stream> = match way {
            Way::Tcp => {
                let stream = TcpStream::connect(&place.address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Way::Unix => Box::new(UnixStream::connect(short(&place.socket)?).await?),
        };
        let mut connection = Self { stream, head: String::new(), read: Vec::with_capacity(1_024) };
        connection.act_as(&place.address, bearer);
        Ok(connection)
    }

    /// From now on this key or token is shown.
    pub(crate) fn act_as(&mut self, host: &str, bearer: &str) {
        self.head = format!(
            "HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\nContent-Type: application/json\r\nContent-Length: "
        );
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer<'_>> {
        self.send(path, body).await?;
        self.answer().await
    }

    /// Sends without waiting for an answer.
    pub(crate) async fn send(&mut self, path: &str, body: &str) -> Result<()> {
        let request = format!("POST {path} {}{}\r\n\r\n{body}", self.head, body.len());
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    pub(crate) async fn answer(&mut self) -> Result<Answer<'_>> {
        self.read.clear();
        let head = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let (status, length) = read_head(&self.read[..head])?;
        while self.read.len() < head + length {
            self.more().await?;
        }
        Ok(Answer { status, body: &self.read[head..] })
    }

    async fn more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.read).await? == 0 {
            bail!("the connection was closed");
        }
        Ok(())
    }
}

fn read_head(head: &[u8]) -> Result<(u16, usize)> {
    let text = std::str::from_utf8(head)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    let lengths = text.split("\r\n").filter_map(|line| line.split_once(": "));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().map_or(Ok(0), |(_, length)| length.parse())?;
    Ok((status, length))
}

/// The path of a socket, short enough for the kernel.
fn short(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().len() < 100 {
        return Ok(path.to_owned());
    }
    bail!("the path of the socket is too long: name a shorter one with --folder")
}
