//! What is known about a delivery, in the same words for every source.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::field::Field;

/// What happened, where, to what and by whom. What a source does not say is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The name of the source in the settings.
    pub source: String,
    /// The kind of source: `github`, `slack` and so on.
    pub kind: String,
    /// What kind of thing happened, as the source calls it: `issues`, `push`, `app_mention`.
    pub event: String,
    /// What was done: `opened`, `labeled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The repository, `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The organisation, workspace or server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The project or team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The channel of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The number of the issue, pull request or discussion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What the source calls the thing, where that is no number: `ENG-42`, a message's time stamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
    /// Its title, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The comment, review or message that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Who wrote the thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Who caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Who is to do it; the first, if several are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// All who are to do it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
    /// The labels that it has now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What was just put on or taken off: a label, an assignee, a reviewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The branch that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The branch that it is to go into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The tag that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The commit that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How it came out: `success`, `failure`, `approved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
    /// Where a person can look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Context {
    /// What can be [set](Self::set) by name.
    pub const NAMES: &'static [&'static str] = &[
        "event",
        "action",
        "repo",
        "organization",
        "project",
        "channel",
        "number",
        "identifier",
        "title",
        "body",
        "comment",
        "author",
        "sender",
        "assignee",
        "assignees",
        "labels",
        "changed",
        "branch",
        "base",
        "tag",
        "commit",
        "conclusion",
        "url",
    ];

    /// Sets a field by its name; a field with one value takes the first. Whatever is no number is no `number`, and an
    /// unknown name sets nothing.
    pub fn set(&mut self, name: &str, values: Vec<String>) {
        let Some(first) = values.first().cloned() else { return };
        match name {
            "event" => self.event = first,
            "number" => self.number = first.parse().ok().or(self.number),
            "labels" => self.labels = values,
            "assignees" => self.assignees = values,
            _ => {
                if let Some(field) = self.by_name(name) {
                    *field = Some(first);
                }
            }
        }
    }

    fn by_name(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "action" => &mut self.action,
            "repo" => &mut self.repo,
            "organization" => &mut self.organization,
            "project" => &mut self.project,
            "channel" => &mut self.channel,
            "identifier" => &mut self.identifier,
            "title" => &mut self.title,
            "body" => &mut self.body,
            "comment" => &mut self.comment,
            "author" => &mut self.author,
            "sender" => &mut self.sender,
            "assignee" => &mut self.assignee,
            "changed" => &mut self.changed,
            "branch" => &mut self.branch,
            "base" => &mut self.base,
            "tag" => &mut self.tag,
            "commit" => &mut self.commit,
            "conclusion" => &mut self.conclusion,
            "url" => &mut self.url,
            _ => return None,
        })
    }

    /// What a filter on this field looks at: one value, several, or none.
    pub fn values(&self, field: Field) -> Vec<Cow<'_, str>> {
        match field {
            Field::Source => vec![Cow::Borrowed(&self.source)],
            Field::Events => vec![Cow::Borrowed(&self.event)],
            Field::Labels => borrowed(&self.labels),
            Field::Assignees if self.assignees.is_empty() => borrowed(self.assignee.as_slice()),
            Field::Assignees => borrowed(&self.assignees),
            Field::Numbers => self.number.iter().map(|number| Cow::Owned(number.to_string())).collect(),
            Field::Actions
            | Field::Repos
            | Field::Organizations
            | Field::Projects
            | Field::Channels
            | Field::Titles
            | Field::Comments
            | Field::Authors
            | Field::Senders
            | Field::Changed
            | Field::Branches
            | Field::Bases
            | Field::Tags
            | Field::Conclusions => borrowed(self.text(field).as_slice()),
        }
    }

    fn text(&self, field: Field) -> &Option<String> {
        match field {
            Field::Actions => &self.action,
            Field::Repos => &self.repo,
            Field::Organizations => &self.organization,
            Field::Projects => &self.project,
            Field::Channels => &self.channel,
            Field::Titles => &self.title,
            Field::Comments => &self.comment,
            Field::Authors => &self.author,
            Field::Senders => &self.sender,
            Field::Changed => &self.changed,
            Field::Branches => &self.branch,
            Field::Bases => &self.base,
            Field::Tags => &self.tag,
            Field::Conclusions => &self.conclusion,
            Field::Source | Field::Events | Field::Labels | Field::Assignees | Field::Numbers => &None,
        }
    }
}

fn borrowed(texts: &[String]) -> Vec<Cow<'_, str>> {
    texts.iter().map(|text| Cow::Borrowed(text.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_has_a_name_can_be_set_by_it() {
        for name in Context::NAMES {
            let mut context = Context::default();
            context.set(name, vec!["7".into()]);
            assert_ne!(context, Context::default(), "{name}");
        }
        let mut context = Context::default();
        context.set("source", vec!["x".into()]);
        context.set("number", vec!["x".into()]);
        context.set("title", Vec::new());
        assert_eq!(context, Context::default());
    }
}
