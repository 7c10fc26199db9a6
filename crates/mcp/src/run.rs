//! The tools and resources of a run: what an agent can do from inside it.
//!
//! All of it is asked of the supervisor of the run, which judges the run's token; nothing here has rights over the run.

mod act;
mod arguments;
mod tools;

use bell_api::outcome::Outcome;
use bell_client::{Client, Failure};
use bell_control::logs::ANY;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, ReadResourceResult, Resource};

use crate::operator::look;
use crate::resource::Named;

pub(crate) use arguments::List;
pub(crate) use tools::all as tools;

pub(crate) const INSTRUCTIONS: &str = "You are an agent in a fleet. Before you change something that other agents could \
    change too, take its lock with acquire_lock, and release_lock it afterwards; skip what is busy. Report with \
    set_status, and give your result with return_value.";

/// A run, and the way to its supervisor. Cheap to clone.
#[derive(Clone)]
pub struct RunSide {
    client: Client,
}

impl RunSide {
    /// The run that this client acts for.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Does what a tool is asked; `None`: there is no such tool. `given_up` is ready when nobody wants the answer any more.
    pub(crate) async fn act(
        &self,
        name: &str,
        arguments: JsonObject,
        given_up: impl Future<Output = ()>,
    ) -> Option<CallToolResult> {
        act::act(&self.client, name, arguments, given_up).await
    }

    /// Its record and its log.
    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, ErrorData> {
        let run = self.client.run(ANY).await.map_err(refused)?.run.to_string();
        Ok(vec![
            Named::Run(run.clone()).listed("This run, as it stands on record"),
            Named::Log(run).listed("What this run has printed"),
        ])
    }

    /// What is asked for, if it is the run's own: of others its supervisor knows nothing.
    pub(crate) async fn read(&self, named: &Named) -> Result<Option<ReadResourceResult>, ErrorData> {
        let read = match named {
            Named::Agent(_) => return Ok(None),
            Named::Run(run) => self.client.run(run).await.map(|run| named.holding(&run)),
            Named::Log(run) => {
                let log = self.client.logs(run, &look::end_of_log()).await;
                log.map(|log| Ok(named.saying(look::text(&log).0)))
            }
        };
        match read {
            Ok(read) => read.map(Some),
            Err(Failure::Refused(answer)) if answer.outcome == Outcome::NotFound => Ok(None),
            Err(failure) => Err(refused(failure)),
        }
    }
}

fn refused(failure: Failure) -> ErrorData {
    ErrorData::invalid_request(failure.to_string(), None)
}
