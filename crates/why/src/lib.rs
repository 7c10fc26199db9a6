//! Why something happened, or did not: answered from the records, with or without a daemon.
//!
//! [`ask`](ask::Asker::ask) finds out what a name means (an agent, a run, a job, a lock's key, a tick of a schedule) and reads
//! what is on record about it; [`explain`] turns what was read into sentences and asks nothing. Who is to print
//! or serve the answer is somebody else's.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`ask`] | what a name means, and reading about it |
//! | `read` | reading what an explanation needs |
//! | [`explain`] | from records to reasons: pure |
//! | [`history`] | what happened, in order |
//! | [`answer`] | an answer: what is so, and because of what |
//! | [`words`] | moments, lengths and triggers as people read them |

pub mod answer;
pub mod ask;
pub mod explain;
pub mod history;
mod read;
pub mod words;
