//! Stores on Redis, if this library was built with them.

use std::sync::Arc;

use bell_coord::Denied;
use bell_store::{Revision, Store};

/// Whether URLs of this scheme are Redis's: `redis`, `rediss`, and these with `+sentinel` or `+cluster`.
pub(super) fn is_scheme(scheme: &str) -> bool {
    matches!(scheme.split('+').next(), Some("redis" | "rediss"))
}

/// Opens the store.
#[cfg(feature = "redis")]
pub(super) async fn open(url: &str) -> Result<Arc<dyn Store>, Denied> {
    Ok(Arc::new(bell_store_redis::RedisStore::open(url).await?))
}

/// Begins a new epoch of the store.
#[cfg(feature = "redis")]
pub(super) async fn raise_epoch(url: &str) -> Result<Revision, Denied> {
    Ok(bell_store_redis::RedisStore::open(url).await?.raise_epoch().await?)
}

#[cfg(not(feature = "redis"))]
pub(super) async fn open(_url: &str) -> Result<Arc<dyn Store>, Denied> {
    Err(absent())
}

#[cfg(not(feature = "redis"))]
pub(super) async fn raise_epoch(_url: &str) -> Result<Revision, Denied> {
    Err(absent())
}

#[cfg(not(feature = "redis"))]
fn absent() -> Denied {
    Denied::Invalid("built without Redis: build it with the feature redis".to_owned())
}
