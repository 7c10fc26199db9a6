//! The store on servers of its own: what it survives, what it refuses, what fits.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[cfg(feature = "tls")]
mod encrypted;
mod faults;
mod largest;
mod refusals;
mod support;
mod together;
