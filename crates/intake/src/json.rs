//! Reading bodies: JSON, or a form that holds it, both measured before they are read.

use std::borrow::Cow;

use crate::delivery::Delivery;
use crate::limits::{FORM_FIELDS_MAX, JSON_DEPTH_MAX, JSON_VALUES_MAX};
use crate::part::Part;
use crate::refused::Refused;

/// The body of a delivery. A form is a table of its fields, or what its field `payload` holds: GitHub and Slack put
/// their JSON there.
pub(crate) fn body_of<'a>(delivery: &'a Delivery<'_>) -> Result<Part<'a>, Refused> {
    let content = delivery.header("Content-Type")?.unwrap_or_default();
    if !content.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return parse(delivery.body());
    }
    let fields: Vec<(String, String)> =
        form_urlencoded::parse(delivery.body()).into_owned().take(FORM_FIELDS_MAX + 1).collect();
    if fields.len() > FORM_FIELDS_MAX {
        return Err(Refused::Unreadable(format!("the form has more than {FORM_FIELDS_MAX} fields")));
    }
    match fields.iter().find(|(name, _)| name == "payload") {
        Some((_, payload)) => parse(payload.as_bytes()).map(Part::into_owned),
        None => Ok(Part::Table(
            fields
                .into_iter()
                .map(|(name, value)| (Cow::Owned(name), Part::Text(Cow::Owned(value))))
                .collect(),
        )),
    }
}

/// Reads JSON that is neither too deep nor of too many values.
pub(crate) fn parse(bytes: &[u8]) -> Result<Part<'_>, Refused> {
    measure(bytes)?;
    serde_json::from_slice(bytes)
        .map_err(|error| Refused::Unreadable(format!("the body is not JSON: {error}")))
}

/// One pass over the bytes, without keeping anything. What is no JSON is found out later.
fn measure(bytes: &[u8]) -> Result<(), Refused> {
    let (mut depth, mut values, mut rest) = (0_usize, 1_usize, bytes);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_text(rest),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return Err(Refused::Unreadable(format!("the body is nested more than {JSON_DEPTH_MAX} deep")));
        }
        if values > JSON_VALUES_MAX {
            return Err(Refused::Unreadable(format!("the body has more than {JSON_VALUES_MAX} values")));
        }
    }
    Ok(())
}

/// What stands behind a text that has begun. Most of a body is in texts, so they are passed over quickly.
fn after_text(mut bytes: &[u8]) -> &[u8] {
    while let Some(at) = first_special(bytes) {
        if bytes[at] == b'"' {
            return &bytes[at + 1..];
        }
        // What is escaped ends nothing.
        bytes = bytes.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// Where the first quote or backslash is. Most pieces have none, which takes little time to see of a whole piece.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
    let has_one = |piece: &&[u8]| piece.iter().fold(false, |found, byte| found | is_special(byte));
    let plain: usize = bytes.chunks(PIECE).take_while(|piece| !has_one(piece)).map(<[u8]>::len).sum();
    let at = bytes[plain..].iter().position(is_special)?;
    Some(plain + at)
}

/// Bytes that are looked at together.
const PIECE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_too_deep_or_of_too_many_values_is_refused() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(deep(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse(deep(JSON_DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(parse("[".repeat(1 << 20).as_bytes()).is_err());
        let wide = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX));
        assert!(parse(wide.as_bytes()).is_err());
    }

    #[test]
    fn brackets_in_texts_do_not_count() {
        let text = format!(r#"{{"a\"[": "{}\\"}}"#, "[{,".repeat(1_000));
        assert!(parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn the_first_quote_or_backslash_is_found_wherever_it_is() {
        for length in 0..3 * PIECE {
            let mut bytes = vec![b'x'; length];
            assert_eq!(first_special(&bytes), None);
            for at in (0..length).rev() {
                bytes[at] = if at % 2 == 0 { b'"' } else { b'\\' };
                assert_eq!(first_special(&bytes), Some(at));
            }
        }
    }

    fn form(body: &[u8]) -> Result<serde_json::Value, Refused> {
        let headers: [(&str, &[u8]); 1] =
            [("content-type", b"application/x-www-form-urlencoded; charset=utf-8")];
        body_of(&Delivery::new(headers, body.to_vec())?).map(Part::into_value)
    }

    #[test]
    fn a_form_is_its_fields_or_the_payload_that_it_holds() {
        let fields = form(b"command=%2Fbell&text=do+it%21").unwrap();
        assert_eq!(fields, serde_json::json!({"command": "/bell", "text": "do it!"}));
        assert_eq!(form(b"payload=%7B%22a%22%3A1%7D").unwrap(), serde_json::json!({"a": 1}));
        assert_eq!(form(b"payload=hunter2").unwrap_err().status(), 400);
        assert_eq!(form(&b"a&".repeat(FORM_FIELDS_MAX + 1)).unwrap_err().status(), 400);
    }

    #[test]
    fn what_is_no_json_is_refused_without_repeating_it() {
        for bytes in [&b""[..], b"hunter2", b"{\"a\":hunter2}", b"\xff\xfe", b"{} {}", b"{\"a\":1"] {
            let refused = parse(bytes).unwrap_err();
            assert_eq!(refused.status(), 400);
            assert!(!refused.to_string().contains("hunter2"));
        }
    }
}
