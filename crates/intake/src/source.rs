//! The kinds of sources, one file each: how deliveries are signed, and what is in them.

mod discord;
mod generic_hmac;
mod github;
mod linear;
mod mintlify;
mod sentry;
mod slack;
mod standard_webhooks;

use std::collections::BTreeMap;

use crate::delivery::Delivery;
use crate::event::Answer;
use crate::look::Look;
use crate::part::Part;
use crate::refused::Refused;
use crate::secret::{Secret, Trust};
use bell_core::webhook::Context;
use bell_core::work::Wall;

pub use generic_hmac::{Encoding, HmacScheme};

/// Where deliveries come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in the settings, and in the address.
    pub name: String,
    /// What kind of source it is.
    pub kind: Kind,
    /// Whom it believes.
    pub trust: Trust,
    /// Where in the body things are, for payloads of no known shape: from a name of [`Context::NAMES`] to a path, names with
    /// dots between them.
    pub fields: BTreeMap<String, String>,
}

impl Source {
    /// A source whose payloads are as they are known to be.
    pub fn new(name: impl Into<String>, kind: Kind, trust: Trust) -> Self {
        Self { name: name.into(), kind, trust, fields: BTreeMap::new() }
    }
}

/// A kind of source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// GitHub
    Github,
    /// Sentry
    Sentry,
    /// Linear
    Linear,
    /// Mintlify
    Mintlify,
    /// Slack: events, slash commands, interactions
    Slack,
    /// Discord: interactions and webhook events
    Discord,
    /// Standard Webhooks
    StandardWebhooks,
    /// Any service that signs the body with HMAC-SHA256.
    Hmac(HmacScheme),
}

impl Kind {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Sentry => "sentry",
            Self::Linear => "linear",
            Self::Mintlify => "mintlify",
            Self::Slack => "slack",
            Self::Discord => "discord",
            Self::StandardWebhooks => "standard-webhooks",
            Self::Hmac(_) => "hmac",
        }
    }

    /// Whether a secret is of the form that the kind needs; if not, what form that is.
    ///
    /// # Errors
    /// What it must look like.
    pub fn check_secret(&self, secret: &Secret) -> Result<(), &'static str> {
        match self {
            Self::Discord if discord::public_key(secret).is_none() => {
                Err("the public key of the application: 64 hex digits in small letters")
            }
            Self::StandardWebhooks if standard_webhooks::key(secret).is_none() => {
                Err("whsec_ and then base64, as the service shows it")
            }
            _ => Ok(()),
        }
    }

    /// Whether payloads have no known shape, so that agents get them whole.
    pub(crate) fn is_shapeless(&self) -> bool {
        matches!(self, Self::StandardWebhooks | Self::Hmac(_))
    }

    pub(crate) fn scheme(&self) -> &dyn Scheme {
        match self {
            Self::Github => &github::Github,
            Self::Sentry => &sentry::Sentry,
            Self::Linear => &linear::Linear,
            Self::Mintlify => &mintlify::Mintlify,
            Self::Slack => &slack::Slack,
            Self::Discord => &discord::Discord,
            Self::StandardWebhooks => &standard_webhooks::StandardWebhooks,
            Self::Hmac(scheme) => scheme,
        }
    }
}

/// What is different from one kind of source to another.
pub(crate) trait Scheme {
    /// Whether one of the secrets signed the raw bytes, and recently where the signature says when.
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: Wall) -> Result<(), Refused>;

    /// Whether it was sent recently, where the signed body says when.
    fn check_body(&self, _body: &Part<'_>, _now: Wall) -> Result<(), Refused> {
        Ok(())
    }

    /// The headers that say something beside the body. They are kept with an event; what proves it is not.
    fn speaking(&self) -> Vec<&str>;

    /// What it says. Called for verified deliveries only.
    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused>;

    /// A delivery as the source would send it, for rehearsals.
    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed;
}

/// What a delivery says.
pub(crate) enum Read {
    Event(Box<Reading>),
    Question(Answer),
}

/// Something that happened.
#[derive(Default)]
pub(crate) struct Reading {
    /// The id that the source gave.
    pub(crate) id: Option<String>,
    pub(crate) context: Context,
    pub(crate) answer: Option<Answer>,
}

impl Reading {
    fn into_read(self) -> Read {
        Read::Event(Box::new(self))
    }
}

/// A delivery that is to be signed.
pub(crate) struct Draft<'a> {
    pub(crate) id: &'a str,
    pub(crate) event: Option<&'a str>,
    pub(crate) now: Wall,
    pub(crate) body: Vec<u8>,
}

/// A delivery that was signed, and the secret that a receiver needs.
pub(crate) struct Signed {
    pub(crate) secret: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Signed {
    fn new(secret: String, body: Vec<u8>, headers: &[(&str, Option<&str>)]) -> Self {
        let set = headers.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
        Self { secret, headers: set.collect(), body }
    }
}

/// The parts of a table that [`Context`] has names for.
fn by_name(body: Look<'_>, context: &mut Context) {
    for name in Context::NAMES.iter().filter(|name| body.0.get(name).is_some()) {
        context.set(name, body.values(name, name));
    }
}
