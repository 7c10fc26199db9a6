//! Answers that go on: server-sent events, as they come.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::failure::Failure;

/// A gateway says every 15 s that it is there; one that is silent for longer than this is not.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Bytes of one event: a part of a log has less.
const EVENT_BYTES_MAX: usize = 8 << 20;

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// What kind it is.
    pub name: String,
    /// Where to go on after it, if it says so.
    pub id: Option<String>,
    /// What it says, as JSON.
    pub data: String,
}

impl Said {
    /// What it says.
    ///
    /// # Errors
    /// [`Failure::Unusable`] if it says something else.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.data)
            .map_err(|error| Failure::Unusable(format!("could not read an event: {error}")))
    }
}

/// Events as they come.
#[derive(Debug)]
pub struct Stream {
    address: String,
    body: Incoming,
    lines: Lines,
    last_id: Option<String>,
    _connection: SendRequest<Full<Bytes>>,
}

impl Stream {
    pub(crate) fn new(address: String, connection: SendRequest<Full<Bytes>>, body: Incoming) -> Self {
        Self { address, body, lines: Lines::default(), last_id: None, _connection: connection }
    }

    /// Where to go on after what was given.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next event; `None` when the gateway has ended the stream.
    ///
    /// Dropped half-way, nothing is lost.
    ///
    /// # Errors
    /// [`Failure::Unknown`] if the connection broke or nobody is there any more.
    pub async fn next(&mut self) -> Result<Option<Said>, Failure> {
        loop {
            if let Some(said) = self.lines.said.pop_front() {
                if said.id.is_some() {
                    self.last_id.clone_from(&said.id);
                }
                // One without data only says where to go on.
                if !said.data.is_empty() {
                    return Ok(Some(said));
                }
                continue;
            }
            let broken = |why: String| Failure::Unknown { address: self.address.clone(), why };
            match timeout(SILENT_MAX, self.body.frame()).await {
                Err(_) => return Err(broken(format!("it was silent for {} s", SILENT_MAX.as_secs()))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(broken(error.to_string())),
                Ok(Some(Ok(frame))) => {
                    let bytes = frame.into_data().unwrap_or_default();
                    if self.lines.take(&bytes).is_err() {
                        return Err(broken("an event is too large".to_owned()));
                    }
                }
            }
        }
    }
}

/// Puts bytes together to events.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    event: Said,
    said: VecDeque<Said>,
}

struct TooLarge;

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.end_line(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            } else {
                self.line.push(*byte);
            }
            if self.line.len() + self.event.data.len() > EVENT_BYTES_MAX {
                return Err(TooLarge);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, line: &str) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if !event.data.is_empty() || event.id.is_some() {
                self.said.push_back(event);
            }
            return;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event.name),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments begin with the colon, and other fields say nothing here.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_however_they_are_cut() {
        let text =
            ": still here\n\nevent: run\nid: 7.1.2\ndata: {\"a\":1}\n\nid: 8\n\ndata: x\r\ndata: y\n\n";
        for size in [1, 2, 7, 1_000] {
            let mut lines = Lines::default();
            for piece in text.as_bytes().chunks(size) {
                assert!(lines.take(piece).is_ok());
            }
            let run =
                Said { name: "run".to_owned(), id: Some("7.1.2".to_owned()), data: "{\"a\":1}".to_owned() };
            let mark = Said { id: Some("8".to_owned()), ..Said::default() };
            let plain = Said { data: "x\ny".to_owned(), ..Said::default() };
            assert_eq!(Vec::from(lines.said), [run, mark, plain], "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_read_for_ever() {
        let mut lines = Lines::default();
        assert!(lines.take(&vec![b'a'; EVENT_BYTES_MAX + 1]).is_err());
    }
}
