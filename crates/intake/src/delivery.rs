//! What was sent: headers and bytes, not yet believed.

use std::borrow::Cow;
use std::sync::Arc;

use bell_core::work::delivery::MAX_KEPT_BYTES;

use crate::limits::{BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX};
use crate::refused::Refused;

/// A request to a webhook address, as it came. Nothing in it is believed before [`Delivery::verify`].
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    headers: Vec<(&'a str, Cow<'a, str>)>,
    body: Cow<'a, [u8]>,
}

impl<'a> Delivery<'a> {
    /// A delivery with these headers, several of one name if there were, and the raw bytes of the body.
    ///
    /// # Errors
    /// If it is larger than it may be.
    pub fn new(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        body: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Self, Refused> {
        let body = body.into();
        if body.len() > BODY_BYTES_MAX {
            return Err(Refused::BodyTooLarge { bytes: body.len(), most: BODY_BYTES_MAX });
        }
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for (name, value) in headers {
            bytes += name.len() + value.len();
            if kept.len() == HEADERS_MAX || bytes > HEADER_BYTES_MAX {
                return Err(Refused::HeadersTooLarge);
            }
            // What is no text becomes a text that nothing compares equal to.
            kept.push((name, String::from_utf8_lossy(value)));
        }
        Ok(Self { headers: kept, body })
    }

    /// The raw bytes of the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// What is to be kept of it: the headers of these names, and the body unless it is large.
    pub(crate) fn kept(&self, speaking: &[&str]) -> Kept {
        let speaks = |name: &str| {
            name.eq_ignore_ascii_case("content-type")
                || speaking.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let speaking = self.headers.iter().filter(|(name, _)| speaks(name));
        let headers = speaking.map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).collect();
        let body = (self.body.len() <= MAX_KEPT_BYTES).then(|| Arc::from(&*self.body));
        Kept { headers, body, bytes: self.body.len() }
    }

    /// A header that may be there once.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Refused> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Refused::Twice(name.to_owned())),
            (first, None) => Ok(first.map(|(_, value)| &**value)),
        }
    }

    /// A header without which nothing is believed.
    pub(crate) fn signature(&self, name: &str) -> Result<&str, Refused> {
        self.header(name)?.ok_or_else(|| Refused::Unsigned(name.to_owned()))
    }

    /// A header that must be there.
    pub(crate) fn required(&self, name: &'static str) -> Result<&str, Refused> {
        self.header(name)?.filter(|value| !value.is_empty()).ok_or(Refused::Missing(name))
    }
}

/// What is kept of a delivery, for looking at it and for telling it again. Nothing of it proves anything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// The headers that its source reads.
    pub headers: Vec<(String, String)>,
    /// The body; `None`: it is too large to be kept.
    pub body: Option<Arc<[u8]>>,
    /// How large the body was.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(headers: &[(&'a str, &'a [u8])]) -> Result<Delivery<'a>, Refused> {
        Delivery::new(headers.iter().copied(), Vec::new())
    }

    #[test]
    fn names_of_headers_have_no_case_and_two_of_one_name_are_refused() {
        let delivery = with(&[("X-One", b"1"), ("X-Two", b"a"), ("x-two", b"b")]).unwrap();
        assert_eq!(delivery.header("x-oNe"), Ok(Some("1")));
        assert_eq!(delivery.header("X-Two"), Err(Refused::Twice("X-Two".into())));
        assert_eq!(delivery.signature("X-Three"), Err(Refused::Unsigned("X-Three".into())));
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_size() {
        let many: Vec<(&str, &[u8])> = vec![("a", b""); HEADERS_MAX + 1];
        assert_eq!(with(&many).unwrap_err().status(), 431);
        let long = vec![b'x'; HEADER_BYTES_MAX];
        assert_eq!(with(&[("a", &long)]).unwrap_err().status(), 431);
        let large = Delivery::new([], vec![0; BODY_BYTES_MAX + 1]);
        assert_eq!(large.unwrap_err().status(), 413);
        assert!(Delivery::new([], vec![0; BODY_BYTES_MAX]).is_ok());
    }
}
