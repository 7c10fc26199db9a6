//! Fences checked on the way into an HTTP service: a stale holder's request never reaches it.
//!
//! A client that holds a lock sends its fence with every request that changes something, as `X-Fence: 1234`.
//! [`FenceLayer`] goes around any tower service and lets a request through if and only if no higher fence
//! has been seen on the resource that it names (L19):
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use axum::{Router, routing::put};
//! use bell_fence_http::{FenceLayer, Register};
//!
//! let register = Register::open("memory:", "reports/").await?;   // in earnest: sqlite:PATH
//! let service: Router = Router::new()
//!     .route("/reports/{id}", put(async || "written"))
//!     .layer(FenceLayer::new(register));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # What it gives, and what it does not
//! The fence is remembered durably before the service is called, and requests about one resource are called
//! one after the other: while the service works on one, the next waits, also if the first one's client has gone. So
//! in **one process** an older write that was let in can't land after a newer one.
//!
//! **Several processes** that share one register refuse the same fences, but each orders only its own requests: a
//! write that one of them has let in, and is slow about, can land after a newer write of another one. Nor can a
//! layer know what a service leaves behind, such as a task that it did not wait for. Where that matters, the
//! service passes the fence, which it finds in the request's extensions, on to a guard of the database that it
//! writes to (`bell_locks::guard`). There the check and the write are one step.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`layer`] | the middleware |
//! | [`register`] | the highest fence of each resource, and whose turn it is |
//! | [`rule`] | which requests are guarded, and what they are about |
//! | [`header`] | reading `X-Fence` |
//! | `body` | reading a body whole |
//! | [`refusal`] | why a request was not let in, as an answer |
//! | [`sink`](mod@sink) | the reference: values that are stored with their fence in one commit |

mod body;
pub mod header;
pub mod layer;
pub mod refusal;
pub mod register;
pub mod rule;
pub mod sink;

pub use header::X_FENCE;
pub use layer::FenceLayer;
pub use register::Register;
pub use rule::Target;
pub use sink::{serve, sink};
