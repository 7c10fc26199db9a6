//! The header that carries a fence.

use bell_core::lock::Fence;
use http::{HeaderMap, HeaderName};

/// The header that carries a fence: a decimal number.
pub const X_FENCE: HeaderName = HeaderName::from_static("x-fence");

/// Bytes in the header. The largest fence, 18446744073709551615, has 20.
pub const FENCE_BYTES_MAX: usize = 20;

/// Why a request carries no fence that could be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// It is not there.
    Missing,
    /// It is there more than once, and whoever comes later may look at another one of them.
    Repeated,
    /// It is not a number of at most [`FENCE_BYTES_MAX`] digits that fits 64 bits.
    Unreadable,
}

/// The fence that a request carries.
///
/// # Errors
/// If it carries none, several, or something else.
pub fn fence(headers: &HeaderMap) -> Result<Fence, HeaderError> {
    let mut values = headers.get_all(&X_FENCE).iter();
    let value = values.next().ok_or(HeaderError::Missing)?;
    if values.next().is_some() {
        return Err(HeaderError::Repeated);
    }
    read(value.as_bytes()).ok_or(HeaderError::Unreadable)
}

fn read(text: &[u8]) -> Option<Fence> {
    // Digits only: the parser of numbers would take a sign as well.
    let plain = text.len() <= FENCE_BYTES_MAX && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| plain)?;
    text.parse().ok().map(Fence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(values: &[&'static str]) -> Result<Fence, HeaderError> {
        let values = values.iter().map(|value| (X_FENCE, HeaderValue::from_static(value)));
        fence(&values.fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        }))
    }

    #[test]
    fn a_fence_is_a_number_of_64_bits() {
        assert_eq!(of(&["0"]), Ok(Fence(0)));
        assert_eq!(of(&["18446744073709551615"]), Ok(Fence(u64::MAX)));
        assert_eq!(of(&["00000000000000000012"]), Ok(Fence(12)));
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in ["", "+1", "-1", "1.0", "0x1", "1 2", "1,2", "18446744073709551616"] {
            assert_eq!(of(&[wrong]), Err(HeaderError::Unreadable), "{wrong:?}");
        }
        assert_eq!(of(&["000000000000000000012"]), Err(HeaderError::Unreadable));
    }

    #[test]
    fn none_and_several_are_told_apart() {
        assert_eq!(of(&[]), Err(HeaderError::Missing));
        assert_eq!(of(&["1", "1"]), Err(HeaderError::Repeated));
    }
}
