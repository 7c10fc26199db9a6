//! Locks, runs and calls over HTTP: what an agent talks to from inside its run, and what the daemon serves to everybody
//! else ([`server`]).
//!
//! The supervisor of a run serves these routes on a socket of its own, so that an agent's commands go on while no
//! daemon runs, and no password of a store reaches an agent. Whoever has the run's token may act for that run and for
//! nothing else, and only while the run lives.
//!
//! | request | what it does |
//! | --- | --- |
//! | `POST /v1/locks/acquire`, `/leave`, `/renew`, `/release` | takes locks, gives up waiting, keeps, gives back |
//! | `GET /v1/locks?prefix=&after=&limit=`, `/v1/locks/show?key=` | looks |
//! | `GET /v1/locks/changes?prefix=&after=&wait_ms=` | waits for changes after a revision |
//! | `POST /v1/sessions`, `/v1/sessions/end` | a session of its own, whose locks exclude the run's |
//! | `POST /v1/run/status`, `/return`, `/rerun`, `/exit` | what a run says of itself |
//! | `POST /v1/calls`, `GET /v1/calls/{job}?wait_ms=` | calls an agent; where the call stands |
//!
//! Every answer has `outcome`; every refusal has `outcome`, `message` and `hint`, with the status of the table of
//! outcomes, or a more exact one where HTTP has it (403, 405, 413, 415, 429).
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`answer`] | what the library says, as an answer |
//! | [`refusal`] | why a request was not carried out, as a response |
//! | [`desk`] | what the routes act on |
//! | `counter` | what the routes of locks act on, here and at the daemon |
//! | [`limits`] | how much of everything |
//! | `auth` | who asks |
//! | `body`, `query` | reading what is asked, and nothing else |
//! | [`metrics`] | the numbers that operators watch |
//! | `waits` | requests that wait for their turn, over several calls |
//! | `quota` | how many locks a session may hold |
//! | `recent` | leases that can be given back without a read |
//! | `locks`, `sessions`, `run`, `calls` | the routes |
//! | `acts` | taking, keeping and giving back locks |
//! | [`routes`] | the router |
//! | [`serve`](mod@serve) | connections: how many, and until when |
//! | `connection`, `parking` | one of them; the same while its request waits |
//! | `visit`, `patience` | what each of its requests gets of it: among others, time |
//! | `framing`, `wire` | their bytes: what could be read in two ways is refused |
//! | [`server`] | the port and the socket of the daemon |

mod acts;
mod auth;
mod body;
mod calls;
mod connection;
mod counter;
pub mod desk;
mod framing;
pub mod limits;
mod locks;
pub mod metrics;
mod parking;
mod patience;
mod query;
mod quota;
mod recent;
pub mod refusal;
pub mod routes;
mod run;
pub mod serve;
pub mod server;
mod sessions;
mod visit;
mod waits;
mod wire;

pub use bell_control::answer;
pub use desk::{Callee, Callees, Desk};
pub use refusal::Refusal;
