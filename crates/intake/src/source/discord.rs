//! Discord: `X-Signature-Ed25519: <hex>` over `<time><body>`, the time in `X-Signature-Timestamp`. What is configured as the
//! secret is the application's public key, which is no secret: with it signatures can be checked and not made.
//!
//! Interactions and webhook events both come here. Before it sends anything, and now and then later, Discord asks whether
//! signatures are checked: with right ones and with wrong ones.

use bell_core::webhook::Context;
use bell_core::work::Wall;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::json;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::event::Answer;
use crate::look::Look;
use crate::mac::{from_hex, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;
use crate::window;

const SIGNATURE: &str = "X-Signature-Ed25519";
const TIME: &str = "X-Signature-Timestamp";

pub(super) struct Discord;

/// The key that a secret holds.
pub(super) fn public_key(secret: &Secret) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(&from_hex(secret.text())?).ok().filter(|key| !key.is_weak())
}

impl Scheme for Discord {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: Wall) -> Result<(), Refused> {
        let keys: Vec<VerifyingKey> = secrets.iter().filter_map(public_key).collect();
        if keys.is_empty() {
            return Err(Refused::NoSecret);
        }
        let time = delivery.signature(TIME)?;
        let given = from_hex(delivery.signature(SIGNATURE)?).ok_or(Refused::Forged)?;
        let (given, message) = (Signature::from_bytes(&given), message(time, delivery.body()));
        if !keys.iter().any(|key| key.verify_strict(&message, &given).is_ok()) {
            return Err(Refused::Forged);
        }
        window::check_seconds(time, now)
    }

    fn speaking(&self) -> Vec<&str> {
        Vec::new()
    }

    fn read(&self, _: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let kind = body.number(&["type"]).ok_or(Refused::Missing("type"))?;
        // An event has a version, an interaction a token; both count their types from the question.
        let is_event = body.at("event").is_some() || (body.at("token").is_none() && kind == 0);
        match (is_event, kind) {
            (true, 0) => Ok(Read::Question(Answer::empty())),
            (true, _) => Ok(event(body)?.into_read()),
            (false, 1) => Ok(Read::Question(Answer::json(&json!({"type": 1})))),
            (false, kind) => Ok(interaction(kind, body).into_read()),
        }
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let (key, time) = (SigningKey::from_bytes(key), (draft.now.0 / 1_000).to_string());
        let signature = to_hex(&key.sign(&message(&time, &draft.body)).to_bytes());
        let headers = [(SIGNATURE, Some(signature.as_str())), (TIME, Some(time.as_str()))];
        Signed::new(to_hex(key.verifying_key().as_bytes()), draft.body, &headers)
    }
}

fn message(time: &str, body: &[u8]) -> Vec<u8> {
    [time.as_bytes(), body].concat()
}

fn event(body: Look<'_>) -> Result<Reading, Refused> {
    let sender = body.text(&["event.data.user.username", "event.data.user.id", "event.data.user_id"]);
    let context = Context {
        event: body.text(&["event.type"]).ok_or(Refused::Missing("event.type"))?,
        organization: body.text(&["event.data.guild.id", "event.data.guild_id"]),
        channel: body.text(&["event.data.channel_id"]),
        identifier: body.text(&["event.data.id"]),
        comment: body.long(&["event.data.content"]),
        author: sender.clone(),
        sender,
        ..Context::default()
    };
    Ok(Reading { context, ..Reading::default() })
}

fn interaction(kind: u64, body: Look<'_>) -> Reading {
    let event = match kind {
        2 => "application_command",
        3 => "message_component",
        4 => "autocomplete",
        5 => "modal_submit",
        _ => "interaction",
    };
    let sender = body.text(&["member.user.username", "user.username", "member.user.id", "user.id"]);
    let context = Context {
        event: event.to_owned(),
        action: body.text(&["data.name", "data.custom_id"]),
        organization: body.text(&["guild_id"]),
        channel: body.text(&["channel.name", "channel_id"]),
        identifier: body.text(&["message.id", "id"]),
        title: body.text(&["data.options.0.name"]),
        comment: body.long(&["data.options.0.value", "message.content"]),
        author: sender.clone(),
        sender,
        ..Context::default()
    };
    // Without a message within three seconds people see that the interaction failed; 64: only they see it.
    let answer = matches!(kind, 2 | 3 | 5)
        .then(|| Answer::json(&json!({"type": 4, "data": {"content": "Received.", "flags": 64}})));
    Reading { id: body.text(&["id"]), context, answer }
}
