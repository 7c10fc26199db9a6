//! Jobs, queues and runs, decided over a map of records.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deliveries;
mod desk;
mod lock_waits;
mod rules;
mod walk;
