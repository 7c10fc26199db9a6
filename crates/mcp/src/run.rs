//! The tools and resources of a run: what an agent can do from inside it.
//!
//! Every tool asks the supervisor of the run, which judges the run's token; nothing here has rights over the run. A daemon
//! can also show the run its own record and log.

mod act;
mod arguments;
mod tools;

use bell_client::Client;
use bell_control::Control;
use bell_core::work::run::RunId;
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
    own: Option<Own>,
}

/// What a daemon can show a run of itself.
#[derive(Clone)]
struct Own {
    control: Control,
    run: RunId,
}

impl RunSide {
    /// The run that this client acts for.
    pub fn new(client: Client) -> Self {
        Self { client, own: None }
    }

    /// The same, with its record and its log.
    #[must_use]
    pub fn with_record(self, control: Control, run: RunId) -> Self {
        Self { own: Some(Own { control, run }), ..self }
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

    pub(crate) fn has_resources(&self) -> bool {
        self.own.is_some()
    }

    pub(crate) fn resources(&self) -> Vec<Resource> {
        let Some(Own { run, .. }) = &self.own else { return Vec::new() };
        vec![
            Named::Run(run.to_string()).listed("This run, as it stands on record"),
            Named::Log(run.to_string()).listed("What this run has printed"),
        ]
    }

    /// What is asked for, if it is the run's own.
    pub(crate) async fn read(&self, named: &Named) -> Result<Option<ReadResourceResult>, ErrorData> {
        let Some(Own { control, run }) = &self.own else { return Ok(None) };
        let is_own = matches!(named, Named::Run(name) | Named::Log(name) if name == run.as_str());
        if !is_own {
            return Ok(None);
        }
        // The supervisor judges the token here too: any question will do.
        if let Err(failure) = self.client.revision().await {
            return Err(ErrorData::invalid_request(failure.to_string(), None));
        }
        look::read(control, named).await
    }
}
