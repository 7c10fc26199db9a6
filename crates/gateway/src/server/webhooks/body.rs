//! Bodies, and how much memory all of them may take: whoever sends one has proved nothing yet.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Bytes;
use bell_api::outcome::Outcome;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::body::Sent;
use crate::limits::BODY_WITHIN;
use crate::patience::Patience;
use crate::refusal::Refusal;

/// Bytes that are reserved at a time.
const UNIT_BYTES: usize = 4 << 10;
/// Units of all bodies together: 256 MiB, ten of the largest, or tens of thousands of common ones.
const UNITS: usize = (256 << 20) / UNIT_BYTES;

/// The memory for bodies.
pub(super) struct Memory(Arc<Semaphore>);

impl Default for Memory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNITS)))
    }
}

/// A body, and the memory that it takes until this is dropped.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) reserved: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// The whole body, of so many bytes at the most. One that says beforehand that it is larger is not read at all.
    pub(super) async fn whole(
        &self,
        body: impl Sent,
        most: usize,
        patience: &Patience,
    ) -> Result<Whole, Refusal> {
        let announced = body.size_hint().lower();
        if usize::try_from(announced).map_or(true, |bytes| bytes > most) {
            return Err(too_large(most));
        }
        let read = pin!(self.read(body, most));
        patience.within(BODY_WITHIN, read).await.unwrap_or_else(|| Err(too_slow()))
    }

    async fn read(&self, mut body: impl Sent, most: usize) -> Result<Whole, Refusal> {
        let (mut all, mut reserved) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let error = error.into();
                Refusal::invalid(format!("could not read the body: {error}"), "Send it again, whole.")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let bytes = all.len() + data.len();
            if bytes > most {
                return Err(too_large(most));
            }
            self.reserve(&mut reserved, bytes)?;
            if all.is_empty() && body.is_end_stream() {
                // As nearly always: it came in one piece, which is used as it is.
                return Ok(Whole { bytes: data, reserved });
            }
            all.extend_from_slice(&data);
        }
        Ok(Whole { bytes: all.into(), reserved })
    }

    /// Reserves what is missing for so many bytes.
    fn reserve(&self, reserved: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Refusal> {
        let has = reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needs = bytes.div_ceil(UNIT_BYTES);
        let Some(missing) = needs.checked_sub(has).filter(|missing| *missing > 0) else { return Ok(()) };
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let got = Arc::clone(&self.0).try_acquire_many_owned(missing).map_err(|_| crowded())?;
        match reserved {
            Some(reserved) => reserved.merge(got),
            none => *none = Some(got),
        }
        Ok(())
    }
}

fn too_large(most: usize) -> Refusal {
    Refusal::invalid(
        format!("could not take it: the body has more than {most} bytes"),
        "Have the source send fewer events, or smaller ones.",
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

fn crowded() -> Refusal {
    Refusal::new(
        Outcome::Unavailable,
        "could not take it: too much is being sent at this moment",
        "Send it again in a while.",
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::Body;
    use http_body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_gives_its_memory_back() {
        let memory = Memory::default();
        let whole = memory
            .whole(Body::from(vec![7; 10_000]), 10_000, &Patience::default())
            .await
            .unwrap_or_else(|_| panic!("it fits"));
        assert_eq!((whole.bytes.len(), memory.0.available_permits()), (10_000, UNITS - 3));
        drop(whole);
        assert_eq!(memory.0.available_permits(), UNITS);
        let refusal = memory.whole(Body::from(vec![7; 10_001]), 10_000, &Patience::default()).await.err();
        assert_eq!(refusal.map(|refusal| refusal.status), Some(StatusCode::PAYLOAD_TOO_LARGE));
    }

    /// A body that never ends.
    struct Endless;

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 4_096])))))
        }
    }

    #[tokio::test]
    async fn an_endless_body_is_given_up_at_its_limit() {
        let memory = Memory::default();
        let refusal = memory.whole(Body::new(Endless), 100_000, &Patience::default()).await.err();
        assert_eq!(refusal.map(|refusal| refusal.status), Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(memory.0.available_permits(), UNITS);
    }

    #[tokio::test]
    async fn when_all_memory_is_taken_a_sender_is_told_to_come_again() {
        let memory = Memory::default();
        let all = u32::try_from(UNITS).unwrap();
        let _taken = memory.0.try_acquire_many(all).unwrap();
        let refusal = memory.whole(Body::from("x"), 10, &Patience::default()).await.err();
        assert_eq!(refusal.map(|refusal| refusal.status), Some(StatusCode::SERVICE_UNAVAILABLE));
    }
}
