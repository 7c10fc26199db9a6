//! Standard Webhooks: `webhook-signature: v1,<base64>` over `<id>.<time>.<body>`, several with spaces between them while one
//! secret replaces another. The secret is base64, mostly with `whsec_` in front.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed, by_name};
use crate::delivery::Delivery;
use crate::limits::SIGNATURES_MAX;
use crate::look::Look;
use crate::mac::{Code, code, from_base64, is_made_by, to_base64};
use crate::refused::Refused;
use crate::secret::Secret;
use crate::window;

const ID: &str = "webhook-id";
const TIME: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
const SECRET: &str = "whsec_";

pub(super) struct StandardWebhooks;

/// The key that a secret stands for.
pub(super) fn key(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.text();
    STANDARD.decode(text.strip_prefix(SECRET).unwrap_or(text)).ok().filter(|key| !key.is_empty())
}

impl Scheme for StandardWebhooks {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: Wall) -> Result<(), Refused> {
        let keys: Vec<Vec<u8>> = secrets.iter().filter_map(key).collect();
        if keys.is_empty() {
            return Err(Refused::NoSecret);
        }
        let (id, time) = (delivery.signature(ID)?, delivery.signature(TIME)?);
        let given = signatures(delivery.signature(SIGNATURE)?).ok_or(Refused::Forged)?;
        let keys = keys.iter().map(Vec::as_slice);
        // With a dot in the id, one text could be read as two different ids and times.
        if id.contains('.') || !is_made_by(keys, &parts(id, time, delivery.body()), &given) {
            return Err(Refused::Forged);
        }
        window::check_seconds(time, now)
    }

    fn speaking(&self) -> Vec<&str> {
        vec![ID]
    }

    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let mut context = Context::default();
        if let Some(data) = body.at("data") {
            by_name(Look(data), &mut context);
        }
        by_name(body, &mut context);
        context.event = body.text(&["type", "event"]).unwrap_or_default();
        let id = delivery.header(ID)?.map(str::to_owned);
        Ok(Reading { id, context, ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let time = (draft.now.0 / 1_000).to_string();
        let code = code(key, &parts(draft.id, &time, &draft.body));
        let signature = code.map(|code| format!("v1,{}", to_base64(&code)));
        let headers = [(ID, Some(draft.id)), (TIME, Some(&time)), (SIGNATURE, signature.as_deref())];
        Signed::new(format!("{SECRET}{}", to_base64(key)), draft.body, &headers)
    }
}

fn parts<'a>(id: &'a str, time: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [id.as_bytes(), b".", time.as_bytes(), b".", body]
}

/// The codes of version 1. Of another version one is let be, but it must look like one.
fn signatures(header: &str) -> Option<Vec<Code>> {
    let mut codes = Vec::new();
    for (at, entry) in header.split(' ').enumerate() {
        let (version, text) = entry.split_once(',')?;
        let number = version.strip_prefix('v')?;
        if at == SIGNATURES_MAX || !number.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        match version {
            "v1" => codes.push(from_base64(text)?),
            _ => drop(STANDARD.decode(text).ok()?),
        }
    }
    Some(codes)
}
