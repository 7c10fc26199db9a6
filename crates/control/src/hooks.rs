//! From a project's settings to what is needed to judge a delivery: sources with their secrets, and the agents that want
//! something.

use std::collections::BTreeMap;

use bell_intake::{Encoding, HmacScheme, Hooks, Kind, Secret, Source, Subscriber, Trust};
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::secret::SecretRef;
use bell_project::settings::{SignatureEncoding, Unsigned, WebhookKind, WebhookSource};

use crate::limits::{room, rules};

/// A secret that can't be used. Deliveries signed with it are refused until it can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unusable {
    /// The source.
    pub source: String,
    /// Why: words that read after «could not», and hold no value.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

/// What a project expects from outside, and the secrets that can't be used. `variable` looks into the daemon's environment.
///
/// Secrets are read each time, so that a new one counts without a restart. An agent that is disabled wants nothing.
pub fn hooks(
    folder: &Folder,
    loaded: &Loaded,
    variable: &dyn Fn(&str) -> Option<String>,
) -> (Hooks, Vec<Unusable>) {
    let mut unusable = Vec::new();
    let mut sources = BTreeMap::new();
    for (name, settings) in &loaded.settings.webhooks {
        let kind = kind(settings);
        let trust = trust(name, &kind, settings, &mut unusable, &|secret| {
            secret.resolve(folder, variable).map_err(|error| (error.to_string(), error.hint()))
        });
        let source = Source { fields: settings.fields.clone(), ..Source::new(name, kind, trust) };
        sources.insert(name.clone(), source);
    }
    let wanting =
        loaded.agents.values().filter(|agent| agent.is_enabled() && !agent.settings.webhooks.is_empty());
    let agents = wanting.map(|agent| Subscriber {
        agent: agent.name.clone(),
        filters: agent.settings.webhooks.iter().map(|rule| rule.0.clone()).collect(),
        rules: rules(agent),
        room: room(agent),
    });
    (Hooks { sources, agents: agents.collect() }, unusable)
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Gets a secret, or says why not and what to do.
type Resolve<'a> = &'a dyn Fn(&SecretRef) -> Result<bell_project::secret::Secret, (String, String)>;

fn trust(
    source: &str,
    kind: &Kind,
    settings: &WebhookSource,
    unusable: &mut Vec<Unusable>,
    resolve: Resolve<'_>,
) -> Trust {
    // With both, settings are refused; should they get here, the signature counts.
    if let (None, Some(Unsigned::AnyoneMayStartMyAgents)) = (&settings.secret, settings.unsigned) {
        return Trust::Anyone;
    }
    let mut secrets = Vec::new();
    for reference in settings.secret.iter().flat_map(|secrets| &secrets.0) {
        match resolve(reference).and_then(|secret| usable(reference, kind, secret.expose())) {
            Ok(secret) => secrets.push(secret),
            Err((why, hint)) => unusable.push(Unusable { source: source.to_owned(), why, hint }),
        }
    }
    Trust::Signed(secrets)
}

fn usable(reference: &SecretRef, kind: &Kind, text: &str) -> Result<Secret, (String, String)> {
    let secret = Secret::new(text)
        .map_err(|_| (format!("use the secret {reference}: it is empty"), "Give it a value.".to_owned()))?;
    kind.check_secret(&secret).map_err(|form| {
        (
            format!("use the secret {reference}: it is not of the form that {} has", kind.word()),
            format!("It must be {form}."),
        )
    })?;
    Ok(secret)
}

fn kind(settings: &WebhookSource) -> Kind {
    match settings.kind {
        WebhookKind::Github => Kind::Github,
        WebhookKind::Sentry => Kind::Sentry,
        WebhookKind::Linear => Kind::Linear,
        WebhookKind::Mintlify => Kind::Mintlify,
        WebhookKind::Slack => Kind::Slack,
        WebhookKind::Discord => Kind::Discord,
        WebhookKind::StandardWebhooks => Kind::StandardWebhooks,
        WebhookKind::Hmac => Kind::Hmac(hmac(settings)),
    }
}

fn hmac(settings: &WebhookSource) -> HmacScheme {
    let default = HmacScheme::default();
    HmacScheme {
        header: settings.header.clone().unwrap_or(default.header),
        prefix: settings.prefix.clone().unwrap_or(default.prefix),
        encoding: match settings.encoding.unwrap_or_default() {
            SignatureEncoding::Hex => Encoding::Hex,
            SignatureEncoding::Base64 => Encoding::Base64,
        },
        id_header: settings.id_header.clone(),
        event_header: settings.event_header.clone(),
    }
}
