//! Mintlify: `X-Mintlify-Signature: sha256=<hex>`, or the hex alone, over the body.
//!
//! Mintlify gives no id that is known of: the digest of the body is one, so two deliveries of the same bytes are one.

use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::look::Look;
use crate::mac::{code, from_hex, is_made_by, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;

const SIGNATURE: &str = "X-Mintlify-Signature";

pub(super) struct Mintlify;

impl Scheme for Mintlify {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], _: Wall) -> Result<(), Refused> {
        let given = delivery.signature(SIGNATURE)?;
        let given = from_hex(given.strip_prefix("sha256=").unwrap_or(given)).ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if is_made_by(keys, &[delivery.body()], &[given]) { Ok(()) } else { Err(Refused::Forged) }
    }

    fn speaking(&self) -> Vec<&str> {
        Vec::new()
    }

    fn read(&self, _: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let context = Context {
            event: body.text(&["event", "type"]).unwrap_or_else(|| "build".to_owned()),
            action: body.text(&["action", "status"]),
            repo: body.text(&["repository.full_name", "repo"]),
            organization: body.text(&["organization", "organization.name"]),
            project: body.text(&["project", "project.name"]),
            identifier: body.text(&["id", "buildId"]),
            title: body.text(&["title", "page.title", "page.slug"]),
            body: body.long(&["error", "message"]),
            author: body.text(&["user.email", "user.name"]),
            sender: body.text(&["user.email", "user.name"]),
            branch: body.text(&["branch"]),
            commit: body.text(&["commit", "commit.sha"]),
            conclusion: body.text(&["conclusion", "status", "action"]),
            url: body.text(&["url"]),
            ..Context::default()
        };
        Ok(Reading { context, ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let secret = to_hex(key);
        let signature =
            code(secret.as_bytes(), &[&draft.body]).map(|code| format!("sha256={}", to_hex(&code)));
        Signed::new(secret, draft.body, &[(SIGNATURE, signature.as_deref())])
    }
}
