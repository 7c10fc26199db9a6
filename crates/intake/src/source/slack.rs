//! Slack: `X-Slack-Signature: v0=<hex>` over `v0:<time>:<body>`, the time in `X-Slack-Request-Timestamp`.
//!
//! Events come as JSON, slash commands as a form, interactions as a form that holds JSON. Before it sends anything, Slack
//! asks for a challenge back.

use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed};
use crate::delivery::Delivery;
use crate::event::Answer;
use crate::look::Look;
use crate::mac::{code, from_hex, is_made_by, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;
use crate::window;

const SIGNATURE: &str = "X-Slack-Signature";
const TIME: &str = "X-Slack-Request-Timestamp";
const VERSION: &str = "v0";

pub(super) struct Slack;

impl Scheme for Slack {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: Wall) -> Result<(), Refused> {
        let time = delivery.signature(TIME)?;
        let given = delivery.signature(SIGNATURE)?.strip_prefix("v0=").and_then(from_hex);
        let given = given.ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if !is_made_by(keys, &parts(time, delivery.body()), &[given]) {
            return Err(Refused::Forged);
        }
        window::check_seconds(time, now)
    }

    fn speaking(&self) -> Vec<&str> {
        Vec::new()
    }

    fn read(&self, _: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let reading = match body.text(&["type"]).as_deref() {
            Some("url_verification") => {
                let challenge = body.text(&["challenge"]).ok_or(Refused::Missing("challenge"))?;
                return Ok(Read::Question(Answer::text(&challenge)));
            }
            Some("event_callback") => event(body)?,
            Some(kind) => interaction(kind, body),
            None => command(body)?,
        };
        Ok(reading.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let (secret, time) = (to_hex(key), (draft.now.0 / 1_000).to_string());
        let code = code(secret.as_bytes(), &parts(&time, &draft.body));
        let signature = code.map(|code| format!("{VERSION}={}", to_hex(&code)));
        Signed::new(secret, draft.body, &[(SIGNATURE, signature.as_deref()), (TIME, Some(&time))])
    }
}

fn parts<'a>(time: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [VERSION.as_bytes(), b":", time.as_bytes(), b":", body]
}

fn event(body: Look<'_>) -> Result<Reading, Refused> {
    let author = body.text(&["event.user", "event.bot_id", "event.user.id"]);
    let context = Context {
        event: body.text(&["event.type"]).ok_or(Refused::Missing("event.type"))?,
        action: body.text(&["event.subtype", "event.reaction"]),
        organization: body.text(&["team_id"]),
        channel: body.text(&["event.channel", "event.item.channel", "event.channel.id"]),
        identifier: body.text(&["event.thread_ts", "event.ts", "event.item.ts", "event.event_ts"]),
        comment: body.long(&["event.text"]),
        sender: author.clone(),
        author,
        ..Context::default()
    };
    Ok(Reading { id: body.text(&["event_id"]), context, ..Reading::default() })
}

fn interaction(kind: &str, body: Look<'_>) -> Reading {
    let sender = body.text(&["user.username", "user.name", "user.id"]);
    let context = Context {
        event: kind.to_owned(),
        action: body.text(&["actions.0.action_id", "callback_id", "view.callback_id"]),
        organization: body.text(&["team.domain", "team.id"]),
        channel: body.text(&["channel.name", "channel.id"]),
        identifier: body.text(&["message.ts", "container.message_ts"]),
        comment: body.long(&["message.text", "actions.0.value"]),
        author: sender.clone(),
        sender,
        ..Context::default()
    };
    Reading { id: body.text(&["trigger_id"]), context, ..Reading::default() }
}

fn command(body: Look<'_>) -> Result<Reading, Refused> {
    let sender = body.text(&["user_name", "user_id"]);
    let context = Context {
        event: "slash_command".to_owned(),
        action: Some(body.text(&["command"]).ok_or(Refused::Missing("type or command"))?),
        organization: body.text(&["team_domain", "team_id"]),
        channel: body.text(&["channel_name", "channel_id"]),
        comment: body.long(&["text"]),
        author: sender.clone(),
        sender,
        ..Context::default()
    };
    Ok(Reading { id: body.text(&["trigger_id"]), context, ..Reading::default() })
}
