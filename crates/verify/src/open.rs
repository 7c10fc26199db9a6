//! Opening the store that is looked at, here and in the other processes that take part.

use std::sync::Arc;

use async_trait::async_trait;
use bell_coord::Denied;
use bell_locks::LockBackend;
use bell_locks::locks::StoreLocks;
use bell_store::Store;

/// Opens stores by URL. Every process of a run opens in the same way.
#[async_trait]
pub trait Open: Send + Sync + 'static {
    /// A further handle on the store at `url`, as another program would have.
    ///
    /// # Errors
    /// If it can't be opened.
    async fn open(&self, url: &str) -> Result<Opened, Denied>;
}

/// A store, and the locks on it.
#[derive(Clone)]
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Locks on it, in its root space.
    pub locks: Arc<dyn LockBackend>,
}

impl Opened {
    /// This store with the locks that every program has on it.
    pub fn over(store: Arc<dyn Store>) -> Self {
        let locks = Arc::new(StoreLocks::new(Arc::clone(&store)));
        Self { store, locks }
    }
}

/// The stores that come with Bellwether.
pub struct BuiltIn;

#[async_trait]
impl Open for BuiltIn {
    async fn open(&self, url: &str) -> Result<Opened, Denied> {
        Ok(Opened::over(bell_locks::open::open_store(url).await?))
    }
}
