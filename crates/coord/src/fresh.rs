//! Names and secrets that nobody had before.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bell_core::session::{RequestId, Secret};
use uuid::Uuid;

use crate::denied::Denied;

/// A name. Later ones come later in byte order.
pub(crate) fn uuid() -> Uuid {
    #[cfg(feature = "simulated")]
    if let Some(machine) = bell_store::simulated::here() {
        let mut random = [0; 10];
        machine.fill(&mut random);
        let ms = u64::try_from(machine.wall().as_millis()).unwrap_or(u64::MAX);
        return uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid();
    }
    Uuid::now_v7()
}

/// A name for a request. It has to differ from those of its session alone, which several processes may act for: so it is
/// drawn at random once, and counted on from there. To ask the system each time is a system call in every request.
pub(crate) fn request() -> RequestId {
    static FIRST: LazyLock<u128> = LazyLock::new(|| Uuid::now_v7().as_u128());
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    #[cfg(feature = "simulated")]
    if bell_store::simulated::here().is_some() {
        return request_of(uuid());
    }
    let number = u128::from(GIVEN.fetch_add(1, Ordering::Relaxed));
    request_of(Uuid::from_u128(FIRST.wrapping_add(number)))
}

fn request_of(name: Uuid) -> RequestId {
    RequestId::from(&*name.simple().encode_lower(&mut Uuid::encode_buffer()))
}

/// A number from 0 up to 1, to scatter what would come together.
pub(crate) fn fraction() -> f64 {
    const STEPS: u16 = 1_000;
    let drawn = uuid().as_u128() % u128::from(STEPS);
    f64::from(u16::try_from(drawn).unwrap_or(0)) / f64::from(STEPS)
}

/// A secret.
pub(crate) fn secret() -> Result<Secret, Denied> {
    let mut bytes = [0; 32];
    #[cfg(feature = "simulated")]
    if let Some(machine) = bell_store::simulated::here() {
        machine.fill(&mut bytes);
        return Ok(Secret::from_bytes(bytes));
    }
    getrandom::fill(&mut bytes)
        .map_err(|error| Denied::Invalid(format!("the system gives no randomness: {error}")))?;
    Ok(Secret::from_bytes(bytes))
}
