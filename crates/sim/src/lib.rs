//! A simulated fleet: the real decisions, the real commits and the real loops of the daemon, over the memory store, with
//! virtual time, crashes, pauses, lost messages, partitions and clocks that are off. Everything random comes from one
//! seed, so a story that goes wrong goes wrong again.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`story`] | one seed: a storm, then calm, and what is left; the file to read first |
//! | [`setting`] | what a story is set in |
//! | [`world`] | machines, processes, the store |
//! | [`process`] | clocks of their own, sudden death, standing still |
//! | [`link`] | the way to the store: delay, loss, partition |
//! | [`server`] | the store on its own machine |
//! | `daemon`, `run`, `locker`, `holding`, `outside` | who lives there |
//! | [`sink`] | what guarded writes go to |
//! | `faults` | what is done to them |
//! | [`state`], [`journal`], [`tally`], [`checker`] | what happened, in one order |
//! | [`invariants`] | what must hold, one file each |
//! | [`flaws`] | what is wrong on purpose, to see it caught |
//!
//! What is not simulated: processes of agents and their signals (that is `runner`), files, and engines other than memory
//! (that is `proofs`). A run here is its supervisor's part with the store, and a few acts.

pub mod chance;
pub mod checker;
mod daemon;
mod faults;
pub mod flaws;
mod holding;
pub mod invariants;
pub mod journal;
pub mod link;
mod locker;
mod outside;
pub mod process;
mod run;
pub mod server;
pub mod setting;
pub mod sink;
pub mod state;
pub mod story;
pub mod tally;
pub mod world;
