//! What is in a project folder, and when its agents are due.
//!
//! A project is a folder with agents in it, each a folder with a `SKILL.md`. This crate finds them, reads their
//! settings, says everything that is wrong with file, line and column, and notices changes. It knows no store
//! and starts no process: what is due is an answer, and what to do about it is somebody else's.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`locate`] | which project a command is about |
//! | [`trust`] | whether this user may use it |
//! | [`stores`] | which stores it uses |
//! | [`load`] | everything in a project, loaded at once and loaded again |
//! | [`watch`] | noticing that something changed |
//! | [`discover`] | which agents there are |
//! | [`agent`] | one agent, its files read and merged |
//! | [`skill`] | `SKILL.md` |
//! | [`settings`] | what can be set |
//! | [`cron`] | when an agent is due |
//! | [`template`] | keys with blanks that a trigger fills in |
//! | [`secret`] | secrets by name |
//! | [`check`](mod@check) | what is wrong around a project: programs, users, secrets |
//! | [`capacity`] | what runs in containers may use of a machine |
//! | [`effective`] | every setting with where it comes from |
//! | [`schema`] | the settings as JSON Schema and as a page |
//! | [`samples`] | a project to begin with |
//! | [`folder`] | reading files without leaving the project |
//! | [`node`] | values with the places where they stand |
//! | [`problem`] | what is wrong, and where |
//! | [`name`], [`nearest`](mod@nearest) | names, and which one was meant |

pub mod agent;
pub mod capacity;
pub mod check;
pub mod cron;
pub mod discover;
pub mod effective;
pub mod folder;
pub mod load;
pub mod locate;
pub mod name;
pub mod nearest;
pub mod newcomers;
pub mod node;
pub mod problem;
pub mod samples;
pub mod schema;
pub mod secret;
pub mod settings;
pub mod skill;
pub mod stores;
pub mod template;
pub mod trust;
pub mod watch;
