//! Talking to a gateway: HTTP/1.1 over a unix socket or TCP, with the words of `bell-api`.
//!
//! A call is never taken for done unless the gateway said so. Three ways to get no answer are kept apart: nobody was
//! there ([`Failure::Unreachable`], nothing was done), nobody answered after the request had left
//! ([`Failure::Unknown`], it may have been done), and a refusal ([`Failure::Refused`]).
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`address`] | where a gateway is |
//! | [`socket`] | unix sockets in folders of any depth |
//! | `exchange` | one request and its answer |
//! | [`stream`] | answers that go on |
//! | [`failure`] | why there is no answer, or not the one that was hoped for |
//! | [`client`] | what can be asked |
//! | `control` | what operators can ask and do |
//! | `sessions` | sessions of programs outside of any run |

pub mod address;
pub mod client;
mod control;
mod deliveries;
mod exchange;
pub mod failure;
mod sessions;
pub mod socket;
pub mod stream;

pub use address::Address;
pub use client::Client;
pub use failure::Failure;
