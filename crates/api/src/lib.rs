//! The words and wire types that CLI, HTTP and MCP share, so that each answer means the same everywhere.
//!
//! Nothing here decides or sends anything: `bell-core` decides, and the three front ends carry these types.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`outcome`] | how an act can end, in one table: word, HTTP status, exit code, MCP result, advice |
//! | [`exit`] | the exit codes |
//! | [`lock`] | answers about locks |
//! | [`token`] | the secret that proves a session, which only one answer may carry |
//! | [`rfc3339`](mod@rfc3339) | a moment as text |

pub mod exit;
pub mod lock;
pub mod outcome;
pub mod rfc3339;
pub mod token;
