//! Every store under every fault, and the tables of what held.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`rules`] | the lock contract on every store, case by case |
//! | [`matrix`] | which stores, which faults, what is tried on what |
//! | [`cell`] | a store, its clients, a fault, and what came of it |
//! | [`stage`] | stores under test, and what can be done to them |
//! | [`fault`] | what is broken, and mended again |
//! | [`proxy`] | a network that can be broken |
//! | [`crew`], [`client`] | processes that take locks, from outside and from inside |
//! | [`sink`] | what the locks protect |
//! | [`dice`] | chance that can be repeated |
//! | [`history`], [`recording`] | what every client did, and when |
//! | [`check`] | whether that keeps the contract |
//! | [`flaw`] | backends that get it wrong, to show that the checker notices |
//! | [`result`], [`page`] | what came of it, for programs and for people |

pub mod cell;
pub mod check;
pub mod client;
pub mod crew;
pub mod dice;
pub mod fault;
pub mod flaw;
pub mod history;
pub mod matrix;
pub mod page;
pub mod proxy;
pub mod recording;
pub mod result;
pub mod rules;
pub mod sink;
pub mod stage;
