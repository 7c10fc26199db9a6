//! One request and its answer, on a connection of its own: a command asks once or twice and is gone.

use std::time::Duration;

use bell_api::lock::LockAnswer;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::Address;
use crate::failure::Failure;
use crate::socket;

/// Somebody who is there takes a connection at once; a machine that stalls takes a few seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Bytes in an answer: a list of a thousand locks has less.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Sends one request and reads its answer.
///
/// Dropped half-way, the gateway may have carried it out.
pub(crate) async fn exchange<A: DeserializeOwned>(
    address: &Address,
    bearer: &HeaderValue,
    asked: Asked<'_>,
) -> Result<A, Failure> {
    let unreachable = |why: String| Failure::Unreachable { address: address.to_string(), why };
    let unknown = |why: String| Failure::Unknown { address: address.to_string(), why };
    let connected = timeout(CONNECT_WITHIN, connect(address)).await;
    let mut sender = match connected {
        Ok(connected) => connected.map_err(unreachable)?,
        Err(_) => return Err(unreachable("nobody took the connection".to_owned())),
    };
    let patience = asked.patience;
    let request = asked.request(address, bearer).map_err(|error| unreachable(error.to_string()))?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    match timeout(patience, answered).await {
        Ok(Ok((status, body))) => read(status, &body).map_err(unknown)?,
        Ok(Err(why)) => Err(unknown(why)),
        Err(_) => Err(unknown(format!("no answer within {} s", patience.as_secs()))),
    }
}

/// Sends one request, and answers with the beginning of an answer that goes on.
///
/// Dropped half-way, nothing is left behind.
pub(crate) async fn open(
    address: &Address,
    bearer: &HeaderValue,
    asked: Asked<'_>,
) -> Result<(SendRequest<Full<Bytes>>, Incoming), Failure> {
    let unreachable = |why: String| Failure::Unreachable { address: address.to_string(), why };
    let unknown = |why: String| Failure::Unknown { address: address.to_string(), why };
    let connected = timeout(CONNECT_WITHIN, connect(address)).await;
    let mut sender = match connected {
        Ok(connected) => connected.map_err(unreachable)?,
        Err(_) => return Err(unreachable("nobody took the connection".to_owned())),
    };
    let patience = asked.patience;
    let request = asked.request(address, bearer).map_err(|error| unreachable(error.to_string()))?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| unknown(error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unknown(error.to_string()))?.to_bytes();
        let refused = read::<()>(status, &body).map_err(unknown)?.err();
        Err(refused.unwrap_or_else(|| unknown(format!("it answered with status {}", status.as_u16()))))
    };
    let answered = timeout(patience, answered).await;
    let body =
        answered.unwrap_or_else(|_| Err(unknown(format!("no answer within {} s", patience.as_secs()))))?;
    // The connection lives as long as the sender does.
    Ok((sender, body))
}

/// What is asked.
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    /// The path, with its query.
    pub(crate) path: &'a str,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) patience: Duration,
}

impl Asked<'_> {
    fn request(self, address: &Address, bearer: &HeaderValue) -> http::Result<Request<Full<Bytes>>> {
        let host = match address {
            Address::Unix(_) => "localhost",
            Address::Tcp(host) => host,
        };
        let mut request = Request::builder().method(self.method).uri(self.path).header(HOST, host);
        request = request.header(AUTHORIZATION, bearer);
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::from(self.body.unwrap_or_default()))
    }
}

/// The answer, or the refusal; the words of a failure if it is neither.
fn read<A: DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<Result<A, Failure>, String> {
    if status.is_success() {
        return serde_json::from_slice(body)
            .map(Ok)
            .map_err(|error| format!("its answer can't be read: {error}"));
    }
    let refusal: LockAnswer = serde_json::from_slice(body)
        .map_err(|_| format!("it answered with status {} and no reason", status.as_u16()))?;
    if refusal.outcome.row().exit == bell_api::exit::OK {
        return Err(format!("it answered {} with status {}", refusal.outcome, status.as_u16()));
    }
    Ok(Err(Failure::Refused(Box::new(refusal))))
}

async fn connect(address: &Address) -> Result<SendRequest<Full<Bytes>>, String> {
    match address {
        Address::Unix(path) => {
            let stream = socket::connect(path).await.map_err(|error| error.to_string())?;
            begin(TokioIo::new(stream)).await
        }
        Address::Tcp(host) => {
            let stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
            begin(TokioIo::new(stream)).await
        }
    }
}

async fn begin<I>(io: I) -> Result<SendRequest<Full<Bytes>>, String>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(io).await.map_err(|error| error.to_string())?;
    // It ends with the sender; what goes wrong shows there.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_sense_is_no_answer() {
        for (status, body) in
            [(200, "<html>"), (502, "bad gateway"), (409, r#"{"outcome":"granted","key":null}"#)]
        {
            let status = StatusCode::from_u16(status).unwrap();
            assert!(read::<LockAnswer>(status, body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_refusal_is_read_whatever_was_hoped_for() {
        let body = br#"{"outcome":"busy","key":"job:a","fence":1,"holder":null,"ttl_ms":null}"#;
        let read = read::<bell_api::run::RunAnswer>(StatusCode::CONFLICT, body).unwrap();
        assert!(matches!(read, Err(Failure::Refused(_))));
    }
}
