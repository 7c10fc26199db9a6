//! What was verified. There is no other way to one than [`Delivery::verify`](crate::Delivery::verify).

use std::fmt;

use bell_core::webhook::{Context, Filter, Verdict, matches};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::delivery::Kept;
use crate::limits::{ID_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::mac::to_hex;
use crate::refused::Refused;

/// Something that happened outside, told by whom it says.
///
/// ```compile_fail,E0451
/// let id = unimplemented!();
/// let forged = bell_intake::Event { id, context: Default::default(), data: None, answer: None, kept: Default::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Event {
    id: DeliveryId,
    context: Context,
    data: Option<Value>,
    answer: Option<Answer>,
    kept: Kept,
}

impl Event {
    pub(crate) fn new(
        id: DeliveryId,
        context: Context,
        data: Option<Value>,
        answer: Option<Answer>,
        kept: Kept,
    ) -> Self {
        Self { id, context, data, answer, kept }
    }

    /// The same, as another delivery.
    pub(crate) fn renamed(self, id: DeliveryId) -> Self {
        Self { id, ..self }
    }

    /// What is kept of how it came.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Which delivery of its source this is.
    pub fn id(&self) -> &DeliveryId {
        &self.id
    }

    /// What happened.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What the source wants to hear at once; nothing in particular, mostly.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Whether it is what a filter wants, and why or why not.
    pub fn matches<'a>(&'a self, filter: &'a Filter) -> Verdict<'a> {
        matches(&self.context, filter)
    }

    /// What an agent gets of it, as JSON: the context, and from sources whose payloads have no known shape also `data`,
    /// the body as it came, unless it is large.
    pub fn payload(&self) -> String {
        let whole = self.data.as_ref().map(|data| as_json(&Payload { context: &self.context, data }));
        whole.filter(|whole| whole.len() <= PAYLOAD_BYTES_MAX).unwrap_or_else(|| as_json(&self.context))
    }
}

/// A context, with the body as it came behind it.
#[derive(Serialize)]
struct Payload<'a> {
    #[serde(flatten)]
    context: &'a Context,
    data: &'a Value,
}

/// Bytes that nearly every payload fits into: a text that grows is copied each time.
const USUAL_BYTES: usize = 2 << 10;

fn as_json(payload: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(USUAL_BYTES);
    // Texts and numbers always have a JSON form, which is a text.
    serde_json::to_writer(&mut text, payload)
        .map_or_else(|_| String::new(), |()| String::from_utf8(text).unwrap_or_default())
}

/// Which delivery of a source something is: the same id again is the same delivery again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryId {
    text: String,
    origin: Origin,
}

/// Where the id of a delivery comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The source gave it.
    Given,
    /// The source gives none: it is the digest of the body, so the same body is the same delivery.
    Derived,
}

impl DeliveryId {
    /// The id that the source gave.
    pub(crate) fn given(text: &str) -> Result<Self, Refused> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > ID_BYTES_MAX || !is_plain {
            let why = format!("the id of the delivery is not 1 to {ID_BYTES_MAX} plain characters");
            return Err(Refused::Unreadable(why));
        }
        Ok(Self { text: text.to_owned(), origin: Origin::Given })
    }

    /// The id of a delivery whose source gives none.
    pub(crate) fn derived(body: &[u8]) -> Self {
        let text = format!("sha256-{}", to_hex(&Sha256::digest(body)));
        Self { text, origin: Origin::Derived }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// What a source wants to hear.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status of the HTTP answer.
    pub status: u16,
    /// What kind of body it has.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    pub(crate) fn json(body: &Value) -> Self {
        Self { status: 200, content_type: "application/json", body: body.to_string() }
    }

    pub(crate) fn text(body: &str) -> Self {
        Self { status: 200, content_type: "text/plain; charset=utf-8", body: body.to_owned() }
    }

    pub(crate) fn empty() -> Self {
        Self { status: 204, content_type: "text/plain; charset=utf-8", body: String::new() }
    }
}
