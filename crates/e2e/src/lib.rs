//! The real servers that tests start, each on a free port and in a folder of its own. The tests of the
//! workspace itself are in `tests/`.
//!
//! A server ends with the value that started it, and with the test's process however that ends. A test that
//! needs one which is not installed fails with the command that installs it.

mod etcd;
mod postgres;
mod redis;
mod server;

pub use etcd::{Etcd, SharedEtcd};
pub use postgres::{PgBouncer, Postgres};
pub use redis::{Redis, Sentinel};
pub use server::{Server, free_port};
