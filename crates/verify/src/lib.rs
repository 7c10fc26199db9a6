//! What a store can promise, proved on the store itself.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`checks`] | what is proved, one file each |
//! | [`run`] | a run of the checks, within a limit of time |
//! | [`report`], [`verdict`] | what was found, for programs and for people |
//! | [`peer`] | a run from two machines at once |
//! | `site`, `tidy` | the place of a run in the store, and leaving it as it was |
//! | `ground` | what a check stands on |
//! | `process`, `orders`, `worker` | other processes: seen from here, what they are told, from the inside |
//! | [`open`] | opening the store, in every process in the same way |
//! | `figures` | figures for sentences |
//! | [`doctor`] | what the store says of itself, and what to do about it |
//! | [`drill`] | a stale writer, step by step |

pub mod checks;
pub mod doctor;
pub mod drill;
mod figures;
mod ground;
pub mod open;
mod orders;
pub mod peer;
mod process;
pub mod report;
pub mod run;
mod site;
mod tidy;
pub mod verdict;
mod worker;

pub use checks::{CHECKS, Check};
pub use open::{BuiltIn, Open, Opened};
pub use process::Program;
pub use report::{Report, Strictness};
pub use run::{Effort, Event, Setting, verify};
pub use site::Cleaning;
pub use verdict::{Finding, Verdict};
pub use worker::work;
