//! One way to find a project and its store. With the real binary.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `folders` | every command, from every folder of a project, from above it, and from a stranger's |
//! | `stores` | which store it is, and when there is none |
//! | `trust` | which projects are refused; what git sees |
//! | `fixture` | a project and a stranger's |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod folders;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod trust;
