//! Names of resources: `bell://agents/NAME`, `bell://runs/ID`, `bell://runs/ID/log`.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain";

/// What a resource is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// An agent: what it is for, and how it stands.
    Agent(String),
    /// Everything on record of a run.
    Run(String),
    /// The end of what a run printed.
    Log(String),
}

impl Named {
    /// Reads a URI.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix("bell://")?.split('/');
        let (kind, name, rest, end) = (parts.next()?, parts.next()?, parts.next(), parts.next());
        if name.is_empty() || end.is_some() {
            return None;
        }
        match (kind, rest) {
            ("agents", None) => Some(Self::Agent(name.to_owned())),
            ("runs", None) => Some(Self::Run(name.to_owned())),
            ("runs", Some("log")) => Some(Self::Log(name.to_owned())),
            _ => None,
        }
    }

    fn uri(&self) -> String {
        match self {
            Self::Agent(name) => format!("bell://agents/{name}"),
            Self::Run(run) => format!("bell://runs/{run}"),
            Self::Log(run) => format!("bell://runs/{run}/log"),
        }
    }

    /// As a line in a list.
    pub(crate) fn listed(&self, about: impl Into<String>) -> Resource {
        let (name, mime) = match self {
            Self::Agent(name) => (format!("agent {name}"), JSON),
            Self::Run(run) => (format!("run {run}"), JSON),
            Self::Log(run) => (format!("log of run {run}"), TEXT),
        };
        Resource::new(self.uri(), name).with_description(about).with_mime_type(mime)
    }

    /// With this content.
    pub(crate) fn holding(&self, content: &impl Serialize) -> Result<ReadResourceResult, ErrorData> {
        let text = serde_json::to_string_pretty(content).map_err(|error| {
            ErrorData::internal_error(format!("could not write the answer: {error}"), None)
        })?;
        Ok(self.contents(text, JSON))
    }

    /// With this text.
    pub(crate) fn saying(&self, text: String) -> ReadResourceResult {
        self.contents(text, TEXT)
    }

    fn contents(&self, text: String, mime: &str) -> ReadResourceResult {
        ReadResourceResult::new(vec![ResourceContents::text(text, self.uri()).with_mime_type(mime)])
    }
}

/// How the names of runs and their logs are made.
pub(crate) fn templates_of_runs() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("bell://runs/{id}", "run")
            .with_description(
                "Everything on record of a run: agent, state, how it ended, what it returned, its locks",
            )
            .with_mime_type(JSON),
        ResourceTemplate::new("bell://runs/{id}/log", "log")
            .with_description("The end of what a run printed")
            .with_mime_type(TEXT),
    ]
}

/// How the names of agents are made.
pub(crate) fn template_of_agents() -> ResourceTemplate {
    ResourceTemplate::new("bell://agents/{name}", "agent")
        .with_description("An agent: what it is for, its schedule, what runs and what waits")
        .with_mime_type(JSON)
}

/// There is no such resource.
pub(crate) fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(
        format!(
            "there is no resource {uri}; there are bell://agents/NAME, bell://runs/ID and bell://runs/ID/log"
        ),
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is_one() {
        for named in [Named::Agent("a-1".into()), Named::Run("r".into()), Named::Log("r".into())] {
            assert_eq!(Named::parse(&named.uri()), Some(named));
        }
        for wrong in [
            "",
            "bell://",
            "bell://agents",
            "bell://agents/",
            "bell://runs//log",
            "bell://runs/r/x",
            "bell://agents/a/log",
            "bell://runs/r/log/x",
            "file:///etc/passwd",
        ] {
            assert_eq!(Named::parse(wrong), None, "{wrong}");
        }
    }
}
