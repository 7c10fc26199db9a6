//! Reading what is asked: JSON of a known shape, of bounded size and depth, and nothing else.

use std::error::Error;
use std::pin::pin;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::limits::{BODY_BYTES_MAX, BODY_WITHIN, FORM_BYTES_MAX, JSON_DEPTH_MAX};
use crate::patience::Patience;
use crate::refusal::Refusal;

/// What is asked, from the body of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let (head, body) = request.into_parts();
        read(asked_bytes(&head.headers, body, &Patience::default()).await?).map(Self)
    }
}

/// What is asked, still to be read, from the head and the body of a request.
pub(crate) async fn asked_bytes(
    headers: &HeaderMap,
    body: impl Sent,
    patience: &Patience,
) -> Result<Bytes, Refusal> {
    check_type(headers)?;
    json(body, patience).await
}

/// A body on its way here.
pub(crate) trait Sent:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin
{
}
impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin> Sent for B {}

/// Reads what is asked. The bytes are given back.
pub(crate) fn read<T: DeserializeOwned>(bytes: Bytes) -> Result<T, Refusal> {
    let wrong = |why: String| {
        Refusal::invalid(
            format!("could not read the request: {why}"),
            "Send one JSON object with the fields of the reference, and no others.",
        )
    };
    // A list of values would be taken for the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(wrong("it is no object".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

/// The bytes of a form that a page has sent, which is small and came in time.
pub(crate) async fn form(request: Request) -> Result<Bytes, Refusal> {
    let mut types = request.headers().get_all(CONTENT_TYPE).iter();
    let kind = types.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if types.next().is_some() || !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Refusal::invalid("could not read the request: it is no form", "Send it from the page.")
            .with(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let read = tokio::time::timeout(BODY_WITHIN, whole(request.into_body(), FORM_BYTES_MAX)).await;
    read.map_err(|_| too_slow())?
}

/// The bytes of a body that is JSON, of bounded size and depth, and came in time.
pub(crate) async fn json(body: impl Sent, patience: &Patience) -> Result<Bytes, Refusal> {
    let whole = pin!(whole(body, BODY_BYTES_MAX));
    let read = patience.within(BODY_WITHIN, whole).await;
    let bytes = read.ok_or_else(too_slow)??;
    if depth(&bytes) > JSON_DEPTH_MAX {
        return Err(Refusal::invalid(
            format!("could not read the request: it is nested more than {JSON_DEPTH_MAX} deep"),
            "Send flatter JSON.",
        ));
    }
    Ok(bytes)
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (first, second) = (types.next(), types.next());
    let text = first.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
    let parameters = parameters.trim().to_ascii_lowercase();
    let is_json = kind.trim().eq_ignore_ascii_case("application/json");
    if second.is_none()
        && is_json
        && matches!(parameters.as_str(), "" | "charset=utf-8" | "charset=\"utf-8\"")
    {
        return Ok(());
    }
    Err(Refusal::invalid(
        "could not read the request: it is not JSON",
        "Send Content-Type: application/json, once.",
    )
    .with(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// The whole body. One that says beforehand that it is too large is not read at all.
async fn whole(body: impl Sent, most: usize) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |bytes| bytes > most) {
        return Err(too_large(most));
    }
    let mut body = Limited::new(body, most);
    let first = next(&mut body, most).await?.unwrap_or_default();
    // Most come in one piece, which is used as it is.
    let Some(second) = next(&mut body, most).await? else { return Ok(first) };
    let mut all = [first, second].concat();
    while let Some(more) = next(&mut body, most).await? {
        all.extend_from_slice(&more);
    }
    Ok(all.into())
}

/// The next piece of a body.
async fn next(body: &mut Limited<impl Sent>, most: usize) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => return Ok(Some(data)),
            // Fields after the body say nothing here.
            Ok(Err(_)) => {}
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large(most)),
            Err(error) => return Err(cut_off(&*error)),
        }
    }
    Ok(None)
}

fn cut_off(error: &(dyn Error + Send + Sync)) -> Refusal {
    Refusal::invalid(format!("could not read the body: {error}"), "Send it again, whole.")
}

fn too_large(most: usize) -> Refusal {
    Refusal::invalid(
        format!("could not take the body: it has more than {most} bytes"),
        "Send less at a time, or store the content elsewhere and send its name.",
    )
    .with(StatusCode::PAYLOAD_TOO_LARGE)
}

fn too_slow() -> Refusal {
    Refusal::invalid(
        format!("could not read the body: it did not arrive within {} s", BODY_WITHIN.as_secs()),
        "Send it whole and at once.",
    )
    .with(StatusCode::REQUEST_TIMEOUT)
}

/// How deep objects and lists stand inside each other; of text that is no JSON, at least as deep as a reader would go.
fn depth(json: &[u8]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings() {
        assert_eq!(depth(br#"{"a":[[1],{"b":2}]}"#), 3);
        assert_eq!(depth(br#""[[[[""#), 0);
        assert_eq!(depth(br#"["\"[[["]"#), 1);
        assert_eq!(depth(&b"[".repeat(1_000)), 1_000);
    }

    #[test]
    fn a_request_is_an_object_and_no_list_of_values() {
        let read = |json: &[u8]| read::<bell_api::ask::LeaveRequest>(Bytes::copy_from_slice(json)).ok();
        assert!(read(b" {\"request_id\":\"a\"}").is_some());
        for wrong in [&b"[\"a\"]"[..], b"\"a\"", b"", b"null", b"{\"request_id\":\"a\"} {}"] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn only_json_is_taken_for_json() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_TYPE, http::HeaderValue::from_static(value));
            }
            check_type(&headers).is_ok()
        };
        assert!(of(&["application/json"]) && of(&["Application/JSON; charset=utf-8"]));
        for wrong in [&[][..], &["text/plain"], &["application/json", "application/json"]] {
            assert!(!of(wrong), "{wrong:?}");
        }
        assert!(!of(&["application/json; charset=latin1"]));
    }
}
