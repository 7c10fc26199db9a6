//! A store in a folder, on this machine's disk or on a network file system that several machines share.
//!
//! All state is a journal of batches and an image of it in memory. A commit takes the folder's lock, reads
//! what others have appended, decides, appends one batch for all who wait, syncs once, and writes the head, which vouches
//! for everything before it. Reads look at the head and what is new. There is no server.
//!
//! | file | what it is |
//! | --- | --- |
//! | `bell-store` | marks the folder, is what locks are taken on, keeps the head |
//! | `turn` | who commits next, when several processes want to |
//! | `journal.<n>` | the batches; `n` rises when a shorter journal takes over |
//! | `clock/` | touched to learn the file server's time; over a network only |
//! | `bells/`, `live/` | see [`bell_store::doorbell`]; on one machine only |
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`folder`] | the store itself |
//! | `suitability` | what the file system is good for |
//! | `dir`, `lock` | opening files without being led elsewhere; one commit at a time |
//! | `codec`, `batch`, `journal`, `head` | what is stored, byte by byte |
//! | `image`, `view`, `draft` | the state in memory; what becomes of transactions |
//! | `append`, `compact`, `set_up`, `epoch` | what is done under the lock |
//! | `writer`, `reader` | the two threads |
//! | `timekeeper` | the store's clock |
//! | `fault` | failures in words |

mod append;
mod batch;
mod codec;
mod compact;
mod dir;
mod draft;
mod epoch;
mod fault;
pub mod folder;
mod head;
mod image;
mod journal;
mod lock;
mod reader;
mod set_up;
mod suitability;
mod timekeeper;
mod view;
mod writer;

pub use dir::MARKER;
pub use folder::{Folder, Options, Sharing};
