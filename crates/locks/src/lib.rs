//! Resource locks for programs that must not step on each other: leases with fences, on any store.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use bell_locks::{Ask, Key, Locks};
//!
//! let locks = Locks::open("memory:").await?;
//! let held = locks.lock(Ask::new(Key::parse("deploy://api-prod")?)).await?;
//! held.check()?;                       // before every act that the lock protects
//! let _fence = held.fence();           // goes with every guarded write
//! held.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`backend`] | the trait that anything that keeps locks implements |
//! | [`locks`] | locks over any store, and the handle most programs need |
//! | [`held`] | a lease that is kept alive, and told when it is lost |
//! | [`open`](mod@open) | backends by URL, with room for others' |
//! | [`patterns`] | the four ways to use a lock |
//! | [`guard`] | what refuses a stale writer at the write boundary |
//! | [`blocking`] | the same without async |
//! | [`folder`] | coordination on a shared folder, with no server and no lock |
//! | [`conformance`] | the lock contract as cases that any backend can be tried on |

pub mod backend;
pub mod blocking;
pub mod conformance;
pub mod guard;
pub mod held;
pub mod locks;
pub mod open;
pub mod patterns;

pub use backend::{Capabilities, LockBackend};
pub use bell_coord::{Ask, Broken, Denied, Keep, Lease, Session, Token, new_request};
pub use bell_core::acquire::{Busy, PublicHolder};
pub use bell_core::deadlock::Cycle;
pub use bell_core::inspect::{LockState, PublicWaiter};
pub use bell_core::key::{Key, KeyError};
pub use bell_core::lock::{Fence, Mode, Ttl};
pub use bell_core::session::{Identity, RequestId, SessionId};
pub use bell_folder as folder;
pub use bell_store::info::{Clock, Durability, Push, Scope};
pub use held::{Held, Loss};
pub use locks::Locks;
pub use open::{open, register};
