//! Sentry (integration platform): `Sentry-Hook-Signature: <hex>` over the body, with the client secret.

use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::look::Look;
use crate::mac::{code, from_hex, is_made_by, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;

const SIGNATURE: &str = "Sentry-Hook-Signature";
const RESOURCE: &str = "Sentry-Hook-Resource";
const REQUEST: &str = "Request-ID";

pub(super) struct Sentry;

impl Scheme for Sentry {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], _: Wall) -> Result<(), Refused> {
        let given = from_hex(delivery.signature(SIGNATURE)?).ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if is_made_by(keys, &[delivery.body()], &[given]) { Ok(()) } else { Err(Refused::Forged) }
    }

    fn speaking(&self) -> Vec<&str> {
        vec![RESOURCE, REQUEST]
    }

    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let event = delivery.required(RESOURCE)?.to_owned();
        let id = delivery.header(REQUEST)?.map(str::to_owned);
        let assignee = body.text(&["data.issue.assignedTo.email", "data.issue.assignedTo.name"]);
        let context = Context {
            event,
            action: body.text(&["action"]),
            organization: body.text(&["data.installation.organization.slug", "installation.uuid"]),
            project: body.text(&[
                "data.issue.project.slug",
                "data.project_slug",
                "data.error.project",
                "data.event.project",
            ]),
            number: body.number(&[
                "data.issue.id",
                "data.error.issue_id",
                "data.event.issue_id",
                "data.issue_id",
            ]),
            identifier: body.text(&["data.issue.shortId", "data.metric_alert.id"]),
            title: body.text(&[
                "data.issue.title",
                "data.error.title",
                "data.event.title",
                "data.metric_alert.title",
                "data.description_title",
            ]),
            body: body.long(&[
                "data.issue.culprit",
                "data.error.message",
                "data.event.message",
                "data.description_text",
            ]),
            comment: body.long(&["data.comment"]),
            sender: body.text(&["actor.name", "actor.id"]),
            assignee,
            conclusion: body.text(&[
                "data.issue.status",
                "data.issue.level",
                "data.error.level",
                "data.event.level",
            ]),
            url: body.text(&[
                "data.issue.web_url",
                "data.error.web_url",
                "data.event.web_url",
                "data.web_url",
                "data.issue.permalink",
            ]),
            ..Context::default()
        };
        Ok(Reading { id, context, ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let secret = to_hex(key);
        let signature = code(secret.as_bytes(), &[&draft.body]).map(|code| to_hex(&code));
        let headers = [(SIGNATURE, signature.as_deref()), (RESOURCE, draft.event), (REQUEST, Some(draft.id))];
        Signed::new(secret, draft.body, &headers)
    }
}
