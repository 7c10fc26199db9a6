//! What proves a sender.

use std::fmt;

/// A secret that a source signs with. It can't be compared or shown; only [`Delivery::verify`](crate::Delivery::verify)
/// uses it.
///
/// ```compile_fail,E0369
/// let (a, b) = (bell_intake::Secret::new("a").unwrap(), bell_intake::Secret::new("b").unwrap());
/// assert!(a == b);
/// ```
#[derive(Clone)]
pub struct Secret(Box<str>);

/// The secret is empty: everybody could sign with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("use an empty secret")]
pub struct EmptySecret;

impl Secret {
    /// The secret as the source shows it: text, `whsec_…`, or for Discord its public key in hex.
    ///
    /// # Errors
    /// If it is empty.
    pub fn new(text: &str) -> Result<Self, EmptySecret> {
        if text.trim().is_empty() { Err(EmptySecret) } else { Ok(Self(text.into())) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Whom a source believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Whoever signs with one of these: several while one replaces another. With none, every delivery is refused.
    Signed(Vec<Secret>),
    /// Anybody who can reach the address, because the settings say so in as many words.
    Anyone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let trust = Trust::Signed(vec![Secret::new("hunter2").unwrap()]);
        assert_eq!(format!("{trust:?}"), "Signed([…])");
    }

    #[test]
    fn an_empty_secret_is_none() {
        for text in ["", " ", "\n"] {
            assert!(Secret::new(text).is_err());
        }
    }
}
