//! GitHub: `X-Hub-Signature-256: sha256=<hex>` over the body.
//!
//! The signature says neither when nor which delivery or event it is for: those are headers beside it. A redelivery keeps
//! its id.

use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::look::Look;
use crate::mac::{code, from_hex, is_made_by, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;

const SIGNATURE: &str = "X-Hub-Signature-256";
const EVENT: &str = "X-GitHub-Event";
const DELIVERY: &str = "X-GitHub-Delivery";
const PREFIX: &str = "sha256=";

pub(super) struct Github;

impl Scheme for Github {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], _: Wall) -> Result<(), Refused> {
        let given = delivery.signature(SIGNATURE)?.strip_prefix(PREFIX).and_then(from_hex);
        let given = given.ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if is_made_by(keys, &[delivery.body()], &[given]) { Ok(()) } else { Err(Refused::Forged) }
    }

    fn speaking(&self) -> Vec<&str> {
        vec![EVENT, DELIVERY]
    }

    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let event = delivery.required(EVENT)?.to_owned();
        let id = delivery.header(DELIVERY)?.map(str::to_owned);
        Ok(Reading { id, context: context(event, body), ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let secret = to_hex(key);
        let signature =
            code(secret.as_bytes(), &[&draft.body]).map(|code| format!("{PREFIX}{}", to_hex(&code)));
        let headers = [(SIGNATURE, signature.as_deref()), (EVENT, draft.event), (DELIVERY, Some(draft.id))];
        Signed::new(secret, draft.body, &headers)
    }
}

fn context(event: String, body: Look<'_>) -> Context {
    let labels = ["issue.labels", "pull_request.labels", "discussion.labels", "workflow_job.labels"];
    let assignees = body.texts(&["issue.assignees", "pull_request.assignees"], "login");
    let (branch, tag) = refs(&event, body);
    Context {
        action: body.text(&["action"]),
        repo: body.text(&["repository.full_name"]),
        organization: body.text(&[
            "organization.login",
            "repository.owner.login",
            "installation.account.login",
        ]),
        project: body.text(&["project.name", "projects_v2_item.project_node_id"]),
        number: body.number(NUMBER),
        title: body.text(TITLE),
        body: body.long(&[
            "issue.body",
            "pull_request.body",
            "discussion.body",
            "release.body",
            "milestone.description",
        ]),
        comment: body.long(&["comment.body", "review.body"]),
        author: body.text(AUTHOR),
        sender: body.text(&["sender.login"]),
        assignee: body.text(&["assignee.login"]).or_else(|| assignees.first().cloned()),
        assignees,
        labels: body.texts(&labels, "name"),
        changed: changed(&event, body),
        branch,
        base: body.text(&["pull_request.base.ref", "merge_group.base_ref"]).map(|name| short(&name)),
        tag,
        commit: body.text(COMMIT),
        conclusion: body.text(CONCLUSION),
        url: body.text(URL),
        event,
        ..Context::default()
    }
}

const NUMBER: &[&str] = &[
    "issue.number",
    "pull_request.number",
    "discussion.number",
    "number",
    "milestone.number",
    "alert.number",
    "check_run.pull_requests.0.number",
    "check_suite.pull_requests.0.number",
    "workflow_run.pull_requests.0.number",
];

const TITLE: &[&str] = &[
    "issue.title",
    "pull_request.title",
    "discussion.title",
    "release.name",
    "release.tag_name",
    "milestone.title",
    "workflow_run.display_title",
    "workflow_run.name",
    "workflow_job.name",
    "check_run.name",
    "head_commit.message",
    "alert.rule.description",
    "alert.security_advisory.summary",
    "security_advisory.summary",
    "project_card.note",
    "commit.commit.message",
];

const AUTHOR: &[&str] = &[
    "issue.user.login",
    "pull_request.user.login",
    "discussion.user.login",
    "release.author.login",
    "milestone.creator.login",
    "workflow_run.actor.login",
    "deployment.creator.login",
    "head_commit.author.username",
    "pusher.name",
    "comment.user.login",
];

const COMMIT: &[&str] = &[
    "pull_request.head.sha",
    "after",
    "workflow_run.head_sha",
    "workflow_job.head_sha",
    "check_run.head_sha",
    "check_suite.head_sha",
    "deployment.sha",
    "merge_group.head_sha",
    "comment.commit_id",
    "sha",
    "commit_oid",
];

const CONCLUSION: &[&str] = &[
    "workflow_run.conclusion",
    "workflow_job.conclusion",
    "check_run.conclusion",
    "check_suite.conclusion",
    "deployment_status.state",
    "review.state",
    "build.status",
    "state",
];

const URL: &[&str] = &[
    "comment.html_url",
    "review.html_url",
    "issue.html_url",
    "pull_request.html_url",
    "discussion.html_url",
    "release.html_url",
    "milestone.html_url",
    "workflow_run.html_url",
    "workflow_job.html_url",
    "check_run.html_url",
    "alert.html_url",
    "security_advisory.html_url",
    "compare",
    "target_url",
    "repository.html_url",
];

const BRANCH: &[&str] = &[
    "pull_request.head.ref",
    "workflow_run.head_branch",
    "workflow_job.head_branch",
    "check_suite.head_branch",
    "check_run.check_suite.head_branch",
    "merge_group.head_ref",
    "deployment.ref",
    "branch",
    "branches.0.name",
];

/// What was just put on or taken off. A label that is renamed or deleted for all is none of it.
fn changed(event: &str, body: Look<'_>) -> Option<String> {
    if event == "label" {
        return None;
    }
    body.text(&["label.name", "assignee.login", "requested_reviewer.login", "requested_team.slug"])
}

/// The branch and the tag. Some events name either of them in one field.
fn refs(event: &str, body: Look<'_>) -> (Option<String>, Option<String>) {
    let release = body.text(&["release.tag_name"]);
    let named = body.text(&["ref"]);
    let tag = named.as_deref().and_then(|name| name.strip_prefix("refs/tags/"));
    match (event, body.text(&["ref_type"]).as_deref()) {
        ("create" | "delete", Some("tag")) => (None, named),
        ("create" | "delete", _) => (named, None),
        _ if tag.is_some() => (None, tag.map(str::to_owned)),
        _ => (body.text(BRANCH).or(named).map(|name| short(&name)), release),
    }
}

fn short(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}
