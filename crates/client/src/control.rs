//! What operators ask of a fleet and do with it, over HTTP: each method is one of `bell_control`, with the same answer.
//!
//! A question can be repeated. An act is sent once: what [`Failure::Unknown`] may have done is for the caller to look at.

use std::time::Duration;

use bell_api::ask::Nothing;
use bell_api::control::acts::{
    BreakRequest, DoneAnswer, KillRequest, PauseRequest, ResumeRequest, ScaleRequest, SimpleRequest,
    StopRequest, TriggerAnswer, TriggerRequest,
};
use bell_api::control::feed::EventsQuery;
use bell_api::control::history::{HistoryAnswer, HistoryQuery};
use bell_api::control::jobs::{
    JobAnswer, QueuesAnswer, ReplayAnswer, ReplayRequest, UndoneAnswer, UndoneQuery,
};
use bell_api::control::logs::{LogAnswer, LogQuery};
use bell_api::control::runs::{RunShown, RunsAnswer, RunsQuery};
use bell_api::control::status::{AgentAnswer, AgentsAnswer, StatusAnswer, StatusQuery};
use bell_api::control::why::{WhyAnswer, WhyQuery};
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::client::{Client, POLL};
use crate::failure::Failure;
use crate::stream::Stream;

impl Client {
    /// Whether a gateway answers within this time, and knows the key.
    pub async fn admits_me(&self, within: Duration) -> bool {
        // No agent can have this name, so whoever is let in hears so, and no store is asked.
        let asked = self.get::<Value>("/v1/agents/-", &[]);
        let invalid =
            |failure: &Failure| matches!(failure, Failure::Refused(no) if no.outcome == Outcome::Invalid);
        timeout(within, asked).await.is_ok_and(|answer| answer.is_err_and(|failure| invalid(&failure)))
    }

    /// How the fleet stands.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn fleet_status(&self, query: &StatusQuery) -> Result<StatusAnswer, Failure> {
        self.look("/v1/status", query).await
    }

    /// The agents that can be run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn agents(&self) -> Result<AgentsAnswer, Failure> {
        self.look("/v1/agents", &Nothing {}).await
    }

    /// One agent.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn agent(&self, name: &str) -> Result<AgentAnswer, Failure> {
        self.look(&format!("/v1/agents/{}", segment(name)), &Nothing {}).await
    }

    /// Runs, the latest first.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn runs(&self, query: &RunsQuery) -> Result<RunsAnswer, Failure> {
        self.look("/v1/runs", query).await
    }

    /// Everything that is on record of a run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn run(&self, name: &str) -> Result<RunShown, Failure> {
        self.look(&format!("/v1/runs/{}", segment(name)), &Nothing {}).await
    }

    /// A part of what a run printed: the run, an agent (its last run), or `-` (the last run of all).
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn logs(&self, name: &str, query: &LogQuery) -> Result<LogAnswer, Failure> {
        self.look(&format!("/v1/runs/{}/logs", segment(name)), query).await
    }

    /// What waits, agent by agent.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn jobs(&self) -> Result<QueuesAnswer, Failure> {
        self.look("/v1/jobs", &Nothing {}).await
    }

    /// Where a job stands: at once, or when it is over or `wait` is, 55 s at the most.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn job(&self, name: &str, wait: Duration) -> Result<JobAnswer, Failure> {
        let wait_ms = wait.min(POLL).as_millis().to_string();
        self.get(&format!("/v1/jobs/{}", segment(name)), &[("wait_ms", &wait_ms)]).await
    }

    /// Jobs that were not done, the latest first.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn undone(&self, query: &UndoneQuery) -> Result<UndoneAnswer, Failure> {
        self.look("/v1/undone", query).await
    }

    /// What happened, the latest last.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn history(&self, query: &HistoryQuery) -> Result<HistoryAnswer, Failure> {
        self.look("/v1/history", query).await
    }

    /// Why something is as it is.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn why(&self, of: &str) -> Result<WhyAnswer, Failure> {
        self.look("/v1/why", &WhyQuery { of: of.to_owned() }).await
    }

    /// Lets nothing new start.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn pause(&self, request: &PauseRequest) -> Result<DoneAnswer, Failure> {
        self.post("/v1/pause", request).await
    }

    /// Lets a paused fleet or agent go on.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<DoneAnswer, Failure> {
        self.post("/v1/resume", request).await
    }

    /// Ends a run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn kill(&self, run: &str, request: &KillRequest) -> Result<DoneAnswer, Failure> {
        self.post(&format!("/v1/runs/{}/kill", segment(run)), request).await
    }

    /// Has an agent run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn trigger(&self, agent: &str, request: &TriggerRequest) -> Result<TriggerAnswer, Failure> {
        self.post(&format!("/v1/agents/{}/run", segment(agent)), request).await
    }

    /// Says how many of an agent may run.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn scale(&self, agent: &str, request: &ScaleRequest) -> Result<DoneAnswer, Failure> {
        self.post(&format!("/v1/agents/{}/scale", segment(agent)), request).await
    }

    /// Takes every job of an agent out of its queue.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn clear(&self, agent: &str, request: &SimpleRequest) -> Result<DoneAnswer, Failure> {
        self.post(&format!("/v1/agents/{}/clear", segment(agent)), request).await
    }

    /// Takes a job out of the queue.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn cancel(&self, job: &str, request: &SimpleRequest) -> Result<DoneAnswer, Failure> {
        self.post(&format!("/v1/jobs/{}/cancel", segment(job)), request).await
    }

    /// Queues a job again that is over.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn replay(&self, job: &str, request: &SimpleRequest) -> Result<DoneAnswer, Failure> {
        self.post(&format!("/v1/jobs/{}/replay", segment(job)), request).await
    }

    /// Replays dead letters.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn replay_all(&self, request: &ReplayRequest) -> Result<ReplayAnswer, Failure> {
        self.post("/v1/undone/replay", request).await
    }

    /// Takes a lock from whoever holds it.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn break_lock(&self, request: &BreakRequest) -> Result<LockAnswer, Failure> {
        self.post("/v1/locks/break", request).await
    }

    /// What happens, as it happens.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn events(&self, query: &EventsQuery) -> Result<Stream, Failure> {
        let pairs = pairs(query)?;
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.open_stream("/v1/events", &pairs).await
    }

    /// What a run printed, and goes on printing: each event has a part of it, and is the last one if it says so.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn follow_logs(&self, name: &str, query: &LogQuery) -> Result<Stream, Failure> {
        let query = LogQuery { follow: true, ..query.clone() };
        let pairs = pairs(&query)?;
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.open_stream(&format!("/v1/runs/{}/logs", segment(name)), &pairs).await
    }

    /// Has the daemon read its project again.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn reload(&self, request: &SimpleRequest) -> Result<DoneAnswer, Failure> {
        self.post("/v1/reload", request).await
    }

    /// Has the daemon stop. It answers before it does.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn stop(&self, request: &StopRequest) -> Result<DoneAnswer, Failure> {
        self.post("/v1/stop", request).await
    }

    /// Asks with what the query has set in the address.
    pub(crate) async fn look<A: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<A, Failure> {
        let pairs = pairs(query)?;
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.get(path, &pairs).await
    }
}

/// The fields of a question as the names of a query.
fn pairs(query: &impl Serialize) -> Result<Vec<(String, String)>, Failure> {
    let unusable = |why: String| Failure::Unusable(format!("could not write the question: {why}"));
    match serde_json::to_value(query).map_err(|error| unusable(error.to_string()))? {
        Value::Object(fields) => {
            let text = |value: Value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Ok(fields.into_iter().map(|(name, value)| (name, text(value))).collect())
        }
        other => Err(unusable(format!("{other} has no fields"))),
    }
}

/// One part of a path. Names are plain; whatever else is given must not change the path.
pub(crate) fn segment(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_only_what_is_set() {
        let query = LogQuery { from: 7, grep: Some("a&b".to_owned()), ..LogQuery::default() };
        let expected = [("from", "7"), ("grep", "a&b")];
        assert_eq!(pairs(&query).unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(pairs(&Nothing {}).unwrap(), []);
    }

    #[test]
    fn no_name_leaves_its_place_in_the_path() {
        assert_eq!(segment("triage-1"), "triage-1");
        assert_eq!(segment("../x?y"), "%2E%2E%2Fx%3Fy");
    }
}
