//! Linear: `Linear-Signature: <hex>` over the body, which says when it was sent.

use std::time::Duration;

use bell_core::webhook::Context;
use bell_core::work::Wall;
use serde_json::Value;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::look::Look;
use crate::mac::{code, from_hex, is_made_by, to_hex};
use crate::part::Part;
use crate::refused::Refused;
use crate::secret::Secret;
use crate::window;

const SIGNATURE: &str = "Linear-Signature";
const EVENT: &str = "Linear-Event";
const DELIVERY: &str = "Linear-Delivery";
/// In milliseconds, in the body.
const TIME: &str = "webhookTimestamp";
/// What Linear's documentation names; each retry is signed again.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) struct Linear;

impl Scheme for Linear {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], _: Wall) -> Result<(), Refused> {
        let given = from_hex(delivery.signature(SIGNATURE)?).ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if is_made_by(keys, &[delivery.body()], &[given]) { Ok(()) } else { Err(Refused::Forged) }
    }

    fn check_body(&self, body: &Part<'_>, now: Wall) -> Result<(), Refused> {
        let sent = body.get(TIME).and_then(Part::as_u64).ok_or(Refused::Stale(WINDOW))?;
        window::check(Wall(sent), now, WINDOW)
    }

    fn speaking(&self) -> Vec<&str> {
        vec![EVENT, DELIVERY]
    }

    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let event = body.text(&["type"]).or(delivery.header(EVENT)?.map(str::to_owned));
        let id = delivery.header(DELIVERY)?.map(str::to_owned);
        let context = Context {
            event: event.ok_or(Refused::Missing("type"))?,
            action: body.text(&["action"]),
            organization: body.text(&["organizationId"]),
            project: body.text(&["data.team.key", "data.issue.team.key", "data.project.name", "data.name"]),
            number: body.number(&["data.number", "data.issue.number"]),
            identifier: body.text(&["data.identifier", "data.issue.identifier", "data.id"]),
            title: body.text(&["data.title", "data.issue.title", "data.name"]),
            body: body.long(&["data.description"]),
            comment: body.long(&["data.body"]),
            author: body.text(&["data.creator.name", "data.user.name", "data.creatorId", "data.userId"]),
            sender: body.text(&["actor.name", "actor.email", "data.user.name"]),
            assignee: body.text(&["data.assignee.name", "data.assignee.email", "data.assigneeId"]),
            labels: body.texts(&["data.labels"], "name"),
            branch: body.text(&["data.branchName"]),
            conclusion: body.text(&["data.state.name", "data.status"]),
            url: body.text(&["url", "data.url"]),
            ..Context::default()
        };
        Ok(Reading { id, context, ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        // A payload at hand is old: it gets the time of now.
        let body = match serde_json::from_slice(&draft.body) {
            Ok(Value::Object(mut fields)) => {
                fields.insert(TIME.to_owned(), Value::from(draft.now.0));
                Value::Object(fields).to_string().into_bytes()
            }
            Ok(_) | Err(_) => draft.body,
        };
        let secret = to_hex(key);
        let signature = code(secret.as_bytes(), &[&body]).map(|code| to_hex(&code));
        let headers = [(SIGNATURE, signature.as_deref()), (EVENT, draft.event), (DELIVERY, Some(draft.id))];
        Signed::new(secret, body, &headers)
    }
}
