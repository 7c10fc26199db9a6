//! What operators ask of a fleet and do with it, as JSON: questions, acts, and their answers.
//!
//! Moments that end in `_ms` are in milliseconds since 1970, on the wall clock of whoever wrote them down. A question's
//! fields are the names in its query; an act's fields are its body. A reader must ignore fields of an answer that it does
//! not know; a field of a question or an act that nobody knows is refused.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`status`] | how a fleet stands, agent by agent |
//! | [`runs`] | what runs and what ran |
//! | [`logs`] | what a run printed |
//! | [`jobs`] | what waits, and what was not done |
//! | [`history`] | what happened |
//! | [`deliveries`] | what was told from outside |
//! | [`feed`] | what happens, as it happens |
//! | [`why`] | why something is as it is |
//! | [`acts`] | what operators do |
//! | [`shape`] | how records that are stored look in an answer |

pub mod acts;
pub mod deliveries;
pub mod feed;
pub mod history;
pub mod jobs;
pub mod logs;
pub mod runs;
pub mod shape;
pub mod status;
pub mod why;

pub use acts::{
    BreakRequest, DoneAnswer, KillRequest, PauseRequest, ResumeRequest, ScaleRequest, SimpleRequest,
    StopRequest, TriggerAnswer, TriggerRequest,
};
pub use feed::{EventsQuery, FeedEvent};
pub use history::{HistoryAnswer, HistoryQuery};
pub use jobs::{
    JobAnswer, JobQuery, JobState, QueuesAnswer, ReplayAnswer, ReplayRequest, UndoneAnswer, UndoneQuery,
};
pub use logs::{LogAnswer, LogQuery};
pub use runs::{RunShown, RunsAnswer, RunsQuery};
pub use status::{AgentAnswer, AgentStatus, AgentsAnswer, StatusAnswer, StatusQuery};
pub use why::{WhyAnswer, WhyQuery};
