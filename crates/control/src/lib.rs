//! What operators ask of a fleet, and what they do with it.
//!
//! Plain functions over the store, the project and the folders of its runs: the command line calls them directly, the
//! gateway for those who ask over HTTP, and MCP for models that look after a fleet. All of them answer with the types of
//! `bell_api`, so that each says the same. Nothing here prints, and nothing here starts or ends a process.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`control`] | what it works with |
//! | `status` | how the fleet stands |
//! | [`runs`], [`logs`] | what runs and ran, and what it printed |
//! | `jobs` | what waits; having agents run |
//! | `steer` | holding, ending, scaling |
//! | [`history`] | what happened, and why |
//! | [`feed`], [`follow`] | what happens and what a run prints, as it comes |
//! | [`locks`] | locks, and taking them from their holders |
//! | `deliveries` | what was told from outside, and telling it again |
//! | [`hooks`](mod@hooks) | which deliveries from outside are believed, and who wants them |
//! | [`who`] | who acts |
//! | [`refused`] | why not |
//! | [`answer`] | what the library says, as an answer |
//! | [`place`] | where a project keeps what is Bellwether's |
//! | [`known`] | what counts of a project, as its daemon has it |
//! | [`store_history`] | how far the store had come, and what is wrong with it |
//! | [`nodes`] | which daemons are there |
//! | [`limits`] | what an agent's settings mean for its queue and its runs |

pub mod answer;
pub mod control;
mod deliveries;
pub mod feed;
pub mod follow;
pub mod history;
pub mod hooks;
mod jobs;
pub mod known;
pub mod known_stores;
pub mod limits;
pub mod locks;
pub mod logs;
pub mod nodes;
pub mod place;
pub mod refused;
pub mod runs;
mod status;
mod steer;
pub mod store_history;
pub mod who;

pub use control::Control;
pub use refused::Refused;
pub use who::{Via, Who};
