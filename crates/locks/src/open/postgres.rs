//! Stores on PostgreSQL, where this was built with them.

use std::sync::Arc;

use bell_coord::Denied;
use bell_store::{Revision, Store};

/// Whether this is the scheme of a store on PostgreSQL.
pub(super) fn is_scheme(scheme: &str) -> bool {
    matches!(scheme, "postgres" | "postgresql")
}

#[cfg(feature = "postgres")]
pub(super) async fn open(url: &str) -> Result<Arc<dyn Store>, Denied> {
    Ok(Arc::new(bell_store_postgres::Postgres::open(url).await?))
}

#[cfg(feature = "postgres")]
pub(super) async fn raise_epoch(url: &str) -> Result<Revision, Denied> {
    Ok(bell_store_postgres::Postgres::open(url).await?.raise_epoch().await?)
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn open(_url: &str) -> Result<Arc<dyn Store>, Denied> {
    Err(built_without())
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn raise_epoch(_url: &str) -> Result<Revision, Denied> {
    Err(built_without())
}

#[cfg(not(feature = "postgres"))]
fn built_without() -> Denied {
    Denied::Invalid("built without PostgreSQL: build it with the feature postgres".to_owned())
}
