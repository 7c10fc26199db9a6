//! Any service that signs the body with HMAC-SHA256: which header, what stands in front of it and how it is written are
//! settings.

use bell_core::webhook::Context;
use bell_core::work::Wall;

use super::{Draft, Read, Reading, Scheme, Signed, by_name};
use crate::delivery::Delivery;
use crate::look::Look;
use crate::mac::{Code, code, from_base64, from_hex, is_made_by, to_base64, to_hex};
use crate::refused::Refused;
use crate::secret::Secret;

/// How a service signs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HmacScheme {
    /// The header that has the signature.
    pub header: String,
    /// What stands before it there, such as `sha256=`.
    pub prefix: String,
    /// How it is written.
    pub encoding: Encoding,
    /// The header that has the id of the delivery. Without one, the digest of the body is its id.
    pub id_header: Option<String>,
    /// The header that says what happened. Without one, the body says so in `event` or `type`.
    pub event_header: Option<String>,
}

/// How bytes are written as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// Two digits for each byte, in small letters.
    #[default]
    Hex,
    /// Four characters for three bytes, padded.
    Base64,
}

impl Default for HmacScheme {
    fn default() -> Self {
        Self {
            header: "X-Signature-256".to_owned(),
            prefix: String::new(),
            encoding: Encoding::Hex,
            id_header: None,
            event_header: None,
        }
    }
}

impl HmacScheme {
    fn decode(&self, header: &str) -> Option<Code> {
        let text = header.strip_prefix(self.prefix.as_str())?;
        match self.encoding {
            Encoding::Hex => from_hex(text),
            Encoding::Base64 => from_base64(text),
        }
    }

    fn encode(&self, code: &Code) -> String {
        let text = match self.encoding {
            Encoding::Hex => to_hex(code),
            Encoding::Base64 => to_base64(code),
        };
        format!("{}{text}", self.prefix)
    }
}

impl Scheme for HmacScheme {
    fn check(&self, delivery: &Delivery<'_>, secrets: &[Secret], _: Wall) -> Result<(), Refused> {
        let given = self.decode(delivery.signature(&self.header)?).ok_or(Refused::Forged)?;
        let keys = secrets.iter().map(Secret::bytes);
        if is_made_by(keys, &[delivery.body()], &[given]) { Ok(()) } else { Err(Refused::Forged) }
    }

    fn speaking(&self) -> Vec<&str> {
        [&self.id_header, &self.event_header].into_iter().filter_map(Option::as_deref).collect()
    }

    fn read(&self, delivery: &Delivery<'_>, body: Look<'_>) -> Result<Read, Refused> {
        let header = |name: &Option<String>| match name {
            Some(name) => delivery.header(name).map(|value| value.map(str::to_owned)),
            None => Ok(None),
        };
        let mut context = Context::default();
        by_name(body, &mut context);
        let event = header(&self.event_header)?.or_else(|| body.text(&["event", "type"]));
        context.event = event.unwrap_or_default();
        Ok(Reading { id: header(&self.id_header)?, context, ..Reading::default() }.into_read())
    }

    fn sign(&self, draft: Draft<'_>, key: &[u8; 32]) -> Signed {
        let secret = to_hex(key);
        let signature = code(secret.as_bytes(), &[&draft.body]).map(|code| self.encode(&code));
        let mut headers = vec![(self.header.as_str(), signature.as_deref())];
        headers.extend(self.id_header.as_deref().map(|name| (name, Some(draft.id))));
        headers.extend(self.event_header.as_deref().map(|name| (name, draft.event)));
        Signed::new(secret, draft.body, &headers)
    }
}
