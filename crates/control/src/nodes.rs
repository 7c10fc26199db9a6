//! Which daemons are there. Every daemon holds one key, shared, for as long as it lives: who holds it is who is there.

use bell_coord::{Coord, Denied};
use bell_core::key::Key;

/// The key that every daemon holds.
///
/// # Errors
/// Never: it is a key.
pub fn key() -> Result<Key, Denied> {
    Key::parse("bell://fleet/nodes").map_err(|error| Denied::Invalid(error.to_string()))
}

/// How many daemons are there, on any machine.
///
/// # Errors
/// If the store can't be read.
pub async fn count(coord: &Coord) -> Result<usize, Denied> {
    Ok(coord.show(&key()?).await?.holders.len())
}
