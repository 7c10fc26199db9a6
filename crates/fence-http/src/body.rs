//! Reading a body whole, up to a limit.

use axum::body::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::refusal::Refusal;

/// What the body of a service's requests may fail with.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The whole body. One that says beforehand that it is too large is not read at all.
pub(crate) async fn whole<B>(body: B, bytes_max: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if usize::try_from(body.size_hint().lower()).is_ok_and(|bytes| bytes <= bytes_max) {
        let read = Limited::new(body, bytes_max).collect().await;
        return read.map(|body| body.to_bytes()).map_err(|error| refused(error.as_ref(), bytes_max));
    }
    Err(Refusal::too_large(bytes_max))
}

fn refused(error: &(dyn std::error::Error + Send + Sync + 'static), bytes_max: usize) -> Refusal {
    if error.is::<LengthLimitError>() {
        return Refusal::too_large(bytes_max);
    }
    let message = format!("could not read the body: {error}");
    Refusal::invalid(StatusCode::BAD_REQUEST, message, "Send it again, whole.")
}
