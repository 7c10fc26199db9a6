//! Bellwether's MCP server: what an agent can do from inside its run, and what an operator's model can do with the fleet.
//!
//! | who asks | what there is |
//! | --- | --- |
//! | a run, with its token | locks, calls of other agents, what the run says of itself; its own record and log |
//! | an operator, with an API key or on the machine itself | looking at the fleet; with full rights also steering it |
//!
//! A run's tools ask the supervisor of the run, over [`bell_client`]; an operator's call [`bell_control`]. Both answer in the
//! words of `bell-api`, as `bell --json` does. Nothing here holds a lock: clients drop their connections and handshakes at
//! will, so a lock belongs to the run and not to who speaks MCP for it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`run`] | the tools and resources of a run |
//! | [`operator`] | the tools and resources of operators |
//! | `shape` | what a program is told about a tool |
//! | `result` | answers and refusals as tool results |
//! | `resource` | names of resources |
//! | `habit` | the prompt that teaches to lock |
//! | `server` | the protocol |
//! | [`stdio`], [`http`] | the two ways to speak it |

mod habit;
pub mod http;
pub mod operator;
mod resource;
mod result;
pub mod run;
mod server;
mod shape;
pub mod stdio;

pub use operator::{Operator, Rights};
pub use run::RunSide;
pub use server::Side;
