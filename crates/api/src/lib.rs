//! The words and wire types that CLI, HTTP and MCP share, so that each answer means the same everywhere.
//!
//! Nothing here decides or sends anything: `bell-core` decides, and the three front ends carry these types.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`outcome`] | how an act can end, in one table: word, HTTP status, exit code, MCP result, advice |
//! | [`exit`] | the exit codes |
//! | [`ask`] | what is asked of locks |
//! | [`lock`] | answers about locks |
//! | [`refused`] | a refusal as HTTP tells it |
//! | [`session`] | sessions of programs outside of any run |
//! | [`run`] | what a run says of itself |
//! | [`call`] | one agent calling another |
//! | [`control`] | what operators ask and do |
//! | [`token`] | the secret that proves a session, which only one answer may carry |
//! | [`rfc3339`](mod@rfc3339) | a moment as text |

pub mod ask;
pub mod call;
pub mod control;
pub mod exit;
pub mod lock;
pub mod outcome;
pub mod refused;
pub mod rfc3339;
pub mod run;
pub mod session;
pub mod token;
