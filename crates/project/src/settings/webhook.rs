//! Where deliveries come from, and which of them are for an agent.

mod rule;

use std::collections::BTreeMap;

use bell_core::webhook::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;
use crate::node::Node;
use crate::problem::{Place, Problem};
use crate::secret::SecretRefs;

pub use rule::WebhookRule;

/// Where deliveries come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSource {
    /// How deliveries are signed, and what is in them.
    #[serde(rename = "type")]
    pub kind: WebhookKind,
    /// The secret that they are signed with: `env:NAME`, `file:PATH`, or a name in `.bell/secrets`. Several are
    /// accepted while one replaces the other. For Discord: the public key of the application.
    pub secret: Option<SecretRefs>,
    /// Instead of a secret: deliveries are believed whoever sends them.
    pub unsigned: Option<Unsigned>,
    /// For `hmac`: the header that has the signature. Default: `X-Signature-256`.
    pub header: Option<String>,
    /// For `hmac`: what stands before the signature, such as `sha256=`. Default: nothing.
    pub prefix: Option<String>,
    /// For `hmac`: how the signature is written. Default: `hex`.
    pub encoding: Option<SignatureEncoding>,
    /// For `hmac`: the header that has the id of a delivery. Default: none; the same body is the same delivery.
    pub id_header: Option<String>,
    /// For `hmac`: the header that says what happened. Default: none; the body says so in `event` or `type`.
    pub event_header: Option<String>,
    /// Where in the body things are, for payloads of no known shape: `{ number = "ticket.id", title = "ticket.subject" }`.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// A kind of webhook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookKind {
    /// GitHub
    Github,
    /// Sentry
    Sentry,
    /// Linear
    Linear,
    /// Mintlify
    Mintlify,
    /// Slack
    Slack,
    /// Discord
    Discord,
    /// Standard Webhooks
    StandardWebhooks,
    /// Any service that signs the body with HMAC-SHA256.
    Hmac,
}

/// That deliveries need no signature. It takes these words, because nobody should write them without thinking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unsigned {
    /// Whoever can reach the address can start agents, with any words.
    AnyoneMayStartMyAgents,
}

/// How a signature is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SignatureEncoding {
    /// Hexadecimal digits, in small letters.
    #[default]
    Hex,
    /// Base64, padded.
    Base64,
}

/// What each setting of a source allows, but not together with the others. `sources` is what was written: a key that can't be
/// read has been told, and is not missing.
pub(crate) fn check(name: &str, source: &WebhookSource, sources: &Node, problems: &mut Vec<Problem>) {
    let table = sources.get(name);
    let place_of = |key: &str| {
        let found = table.and_then(|table| table.get(key)).or(table);
        found.map_or_else(|| sources.place.clone(), |node| node.place.clone())
    };
    let is_written = |key: &str| table.is_some_and(|table| table.get(key).is_some());
    match (&source.secret, source.unsigned) {
        (None, None) if is_written("secret") || is_written("unsigned") => {}
        (None, None) => {
            let problem = Problem::error(place_of(""), format!("webhooks.{name}: \"secret\" is missing"));
            problems.push(problem.hint("Add secret: without one every delivery is refused."));
        }
        (Some(_), Some(_)) => {
            let message = format!("webhooks.{name}: with a secret, deliveries must be signed");
            problems
                .push(Problem::error(place_of("unsigned"), message).hint("Keep one of secret and unsigned."));
        }
        (None, Some(Unsigned::AnyoneMayStartMyAgents)) => {
            let message = format!("webhooks.{name}: whoever can reach /webhooks/{name} can start agents");
            let problem = Problem::warning(place_of("unsigned"), message);
            problems.push(problem.hint("Set a secret instead, if the source can sign."));
        }
        (Some(_), None) => {}
    }
    check_hmac(name, source, &place_of, problems);
    check_fields(name, source, table.and_then(|table| table.get("fields")), problems);
}

fn check_hmac(
    name: &str,
    source: &WebhookSource,
    place_of: &dyn Fn(&str) -> Place,
    problems: &mut Vec<Problem>,
) {
    let headers = [
        ("header", &source.header),
        ("id_header", &source.id_header),
        ("event_header", &source.event_header),
    ];
    for (key, header) in headers {
        let is_name = |text: &String| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if header.as_ref().is_some_and(|text| !is_name(text)) {
            let message = format!("webhooks.{name}.{key}: not the name of a header");
            problems.push(Problem::error(place_of(key), message).hint("Write it like X-Signature-256."));
        }
    }
    let others = [("prefix", source.prefix.is_some()), ("encoding", source.encoding.is_some())];
    let set = headers.iter().map(|(key, header)| (*key, header.is_some())).chain(others);
    for (key, _) in set.filter(|(_, is_set)| *is_set && source.kind != WebhookKind::Hmac) {
        let message = format!("webhooks.{name}.{key}: only the type hmac has it");
        problems.push(
            Problem::error(place_of(key), message).hint("Take it out: the type says how it is signed."),
        );
    }
}

fn check_fields(name: &str, source: &WebhookSource, table: Option<&Node>, problems: &mut Vec<Problem>) {
    for field in source.fields.keys().filter(|field| !Context::NAMES.contains(&field.as_str())) {
        let place = table.and_then(|table| table.entries().iter().find(|entry| entry.key == *field));
        let place = place.map_or_else(|| Place::file(crate::load::CONFIG_FILE), |entry| entry.place.clone());
        let problem = Problem::error(place, format!("webhooks.{name}.fields: nothing is called {field:?}"));
        let problem = problem.hint(format!("Use {}.", Context::NAMES.join(", ")));
        let nearest = nearest(field, Context::NAMES.iter().copied()).map(str::to_owned);
        problems.push(Problem { nearest, ..problem });
    }
}
