//! Why a text is not a key, and what to write instead.

use std::error::Error;
use std::fmt;

use super::KEY_BYTES_MAX;

/// Why a text is not a key. Positions are bytes from the start of the given text.
///
/// Neither the words nor the hint repeat the text: it may hold a password.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyError {
    /// No colon, or a slash before it: `api-prod`, `/srv/index`.
    NoScheme,
    /// The scheme does not begin with a letter, or holds something else than letters, digits, `+`, `-`, `.`.
    BadScheme {
        /// Where the first wrong character is.
        at: usize,
    },
    /// Nothing is named: `deploy:`, `file:///`.
    EmptyRest,
    /// More than [`KEY_BYTES_MAX`] bytes, as given or in canonical form.
    TooLong {
        /// How many there are.
        bytes: usize,
    },
    /// A control character, plain or escaped.
    Control {
        /// Where it is.
        at: usize,
    },
    /// A space of any kind that is not escaped.
    Space {
        /// Where it is.
        at: usize,
    },
    /// A character that can't be seen or turns the direction of writing, plain or escaped.
    Invisible {
        /// Where it is.
        at: usize,
    },
    /// A `%` without two hexadecimal digits after it.
    BadEscape {
        /// Where the `%` is.
        at: usize,
    },
    /// A user or a password before the host.
    Credentials,
    /// A host that is empty or holds what a host can't hold.
    BadHost,
    /// A port that is not a number from 0 to 65535.
    BadPort,
}

impl KeyError {
    /// What to write instead: one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoScheme => "write it as scheme://name, for example deploy://api-prod",
            Self::BadScheme { .. } => {
                "begin the scheme with a letter and use only letters, digits, +, - and ."
            }
            Self::EmptyRest => "name something after the scheme, for example deploy://api-prod",
            Self::TooLong { .. } => {
                "use a shorter name, or a hash of it; letters outside ASCII count three bytes for each of theirs"
            }
            Self::Control { .. } => {
                "take the control character out; a line break at the end is a common cause"
            }
            Self::Space { .. } => "write a space inside a name as %20, and take it out at the ends",
            Self::Invisible { .. } => {
                "type the key anew: copied text often carries characters that can't be seen"
            }
            Self::BadEscape { .. } => "write two hexadecimal digits after %, and a plain percent sign as %25",
            Self::Credentials => "leave out what stands before the @: everybody can see a key",
            Self::BadHost => {
                "use letters, digits, - and . for the host, IPv6 in brackets, an international name in its xn-- form"
            }
            Self::BadPort => "use a port from 0 to 65535, and put an IPv6 address in brackets",
        }
    }
}

/// A fragment that reads after «could not».
impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("read the key: ")?;
        match self {
            Self::NoScheme => f.write_str("it has no scheme"),
            Self::BadScheme { at } => write!(f, "its scheme has a wrong character at byte {at}"),
            Self::EmptyRest => f.write_str("it names nothing"),
            Self::TooLong { bytes } => write!(f, "it has {bytes} bytes of at most {KEY_BYTES_MAX}"),
            Self::Control { at } => write!(f, "it has a control character at byte {at}"),
            Self::Space { at } => write!(f, "it has a space at byte {at}"),
            Self::Invisible { at } => write!(f, "it has an invisible character at byte {at}"),
            Self::BadEscape { at } => write!(f, "its % at byte {at} begins no escape"),
            Self::Credentials => f.write_str("it has a user or a password in it"),
            Self::BadHost => f.write_str("its host is not a host"),
            Self::BadPort => f.write_str("its port is not a port"),
        }
    }
}

impl Error for KeyError {}
