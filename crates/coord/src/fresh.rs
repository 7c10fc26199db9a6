//! Names and secrets that nobody had before.

use bell_core::session::Secret;
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
