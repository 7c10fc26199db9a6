//! One line of the table: what an address is for, what it takes and what it answers.

use std::collections::BTreeMap;

use bell_api::outcome::Outcome;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// How a type is written down.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

fn of<T: JsonSchema>(types: &mut SchemaGenerator) -> Schema {
    types.subschema_for::<T>()
}

/// What a caller must show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// Nothing.
    Nothing,
    /// A signature over the body.
    Signature,
    /// Any API key.
    Key,
    /// An API key that may act.
    FullKey,
    /// The token of a session.
    Session,
    /// Either.
    KeyOrSession,
    /// An API key or the token of a run, which is that of a session too.
    KeyOrRun,
}

impl Needs {
    /// In words, for a page.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Signature => "a signature",
            Self::Key => "a key",
            Self::FullKey => "a full key",
            Self::Session => "a session",
            Self::KeyOrSession => "a key or a session",
            Self::KeyOrRun => "a key or a run's token",
        }
    }
}

/// What an operation answers when it is not refused.
#[derive(Clone, Copy)]
pub(super) enum Answers {
    /// One object.
    Json(Shape),
    /// A stream of events.
    Events(Shape),
    /// One object; or a stream of events, where that is asked for.
    Both(Shape, Shape),
    /// An object that is described elsewhere.
    Object,
    /// Text of this kind.
    Text(&'static str),
    /// Nothing but its status.
    Nothing,
}

/// What an address is for.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) topic: &'static str,
    pub(super) summary: &'static str,
    pub(super) details: &'static str,
    pub(super) needs: Needs,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answers: Answers,
    /// How it may end well.
    outcomes: &'static [Outcome],
    /// How it may be refused, beside what any request may be refused for.
    refused: &'static [Outcome],
    /// Statuses beside those of the outcomes.
    also: &'static [(u16, &'static str)],
    /// Statuses of answers with nothing in them.
    pub(super) bare: &'static [(u16, &'static str)],
    /// Whether its body is whatever a sender sends.
    pub(super) takes_bytes: bool,
}

/// Looks, and changes nothing.
pub(super) const fn look(topic: &'static str, path: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "get",
        path,
        topic,
        summary,
        details: "",
        needs: Needs::Key,
        query: None,
        body: None,
        answers: Answers::Nothing,
        outcomes: &[Outcome::Listed],
        refused: &[],
        also: &[],
        bare: &[],
        takes_bytes: false,
    }
}

/// Acts.
pub(super) const fn act(topic: &'static str, path: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "post",
        needs: Needs::FullKey,
        outcomes: &[Outcome::Written],
        ..look(topic, path, summary)
    }
}

impl Operation {
    pub(super) const fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }

    pub(super) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(super) fn asks<T: JsonSchema>(self) -> Self {
        Self { query: Some(of::<T>), ..self }
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(of::<T>), ..self }
    }

    pub(super) fn answers<T: JsonSchema>(self) -> Self {
        Self { answers: Answers::Json(of::<T>), ..self }
    }

    pub(super) fn streams<T: JsonSchema>(self) -> Self {
        Self { answers: Answers::Events(of::<T>), ..self }
    }

    pub(super) fn answers_or_streams<T: JsonSchema>(self) -> Self {
        Self { answers: Answers::Both(of::<T>, of::<T>), ..self }
    }

    pub(super) const fn answers_object(self) -> Self {
        Self { answers: Answers::Object, ..self }
    }

    pub(super) const fn text(self, kind: &'static str) -> Self {
        Self { answers: Answers::Text(kind), ..self }
    }

    pub(super) const fn ends(self, outcomes: &'static [Outcome]) -> Self {
        Self { outcomes, ..self }
    }

    pub(super) const fn refused(self, refused: &'static [Outcome]) -> Self {
        Self { refused, ..self }
    }

    pub(super) const fn also(self, also: &'static [(u16, &'static str)]) -> Self {
        Self { also, ..self }
    }

    pub(super) const fn bare(self, bare: &'static [(u16, &'static str)]) -> Self {
        Self { bare, ..self }
    }

    pub(super) const fn takes_bytes(self) -> Self {
        Self { takes_bytes: true, ..self }
    }

    /// A name that stays: the method and the words of the path.
    pub(super) fn id(&self) -> String {
        let words = self
            .path
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty() && *word != "v1");
        std::iter::once(self.method).chain(words).collect::<Vec<_>>().join("_")
    }

    /// Statuses of answers, with what they mean.
    pub(super) fn successes(&self) -> BTreeMap<u16, String> {
        let mut all = by_status(self.outcomes);
        all.extend(
            self.also
                .iter()
                .filter(|(status, _)| *status < 400)
                .map(|(status, words)| (*status, (*words).to_owned())),
        );
        all
    }

    /// Statuses of refusals, with what they mean.
    pub(super) fn refusals(&self) -> BTreeMap<u16, String> {
        let mut all = by_status(&[Outcome::Invalid]);
        all.insert(421, "The request is for a host that this server is not.".to_owned());
        if self.needs != Needs::Nothing {
            all.extend(by_status(&[Outcome::Unauthorized, Outcome::Unavailable]));
            all.insert(
                429,
                "The caller has too many of something open, or tried too many wrong keys.".to_owned(),
            );
        }
        if matches!(
            self.needs,
            Needs::Key | Needs::FullKey | Needs::Session | Needs::KeyOrSession | Needs::KeyOrRun
        ) {
            all.insert(403, "The caller is known and may not do this.".to_owned());
        }
        if self.method != "get" {
            all.insert(403, "The caller may not do this, or acts from a page of another site.".to_owned());
        }
        if self.body.is_some() || self.takes_bytes {
            all.insert(408, "The body did not arrive in time.".to_owned());
            all.insert(413, "The body is too large.".to_owned());
            all.insert(415, "The body is not JSON.".to_owned());
        }
        for (status, words) in by_status(self.refused) {
            all.entry(status).and_modify(|all| *all = format!("{all} Or: {words}")).or_insert(words);
        }
        let also = self.also.iter().filter(|(status, _)| *status >= 400);
        all.extend(also.map(|(status, words)| (*status, (*words).to_owned())));
        all
    }
}

fn by_status(outcomes: &[Outcome]) -> BTreeMap<u16, String> {
    let mut all: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for row in outcomes.iter().map(|outcome| outcome.row()) {
        all.entry(row.http).or_default().push(row.word);
    }
    let words = |words: Vec<&str>| format!("`{}`", words.join("`, `"));
    all.into_iter().map(|(status, said)| (status, words(said))).collect()
}
