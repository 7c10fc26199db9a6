//! Why a delivery is refused. Nothing of a refused delivery is kept.

use std::time::Duration;

/// Why a delivery is refused. The words read after «could not», and hold nothing of what was sent but header names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The source has no secret that can be used.
    #[error("verify it: the source has no usable secret")]
    NoSecret,
    /// It is not signed.
    #[error("verify it: there is no {0} header")]
    Unsigned(String),
    /// The signature is not one of this body by one of the secrets.
    #[error("verify it: the signature is wrong")]
    Forged,
    /// It was signed too long ago, or for a time to come, or does not say when.
    #[error("accept it: it was not signed within the last {} seconds", .0.as_secs())]
    Stale(Duration),
    /// A header that must be there once is there twice: nobody could say which one counts.
    #[error("read it: there is more than one {0} header")]
    Twice(String),
    /// Something is missing.
    #[error("read it: there is no {0}")]
    Missing(&'static str),
    /// It is not what the source sends.
    #[error("read it: {0}")]
    Unreadable(String),
    /// The body is larger than it may be.
    #[error("take it: it has {bytes} bytes, and {most} is the most")]
    BodyTooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        most: usize,
    },
    /// There are more headers, or larger ones, than there may be.
    #[error("take it: its headers are too many or too large")]
    HeadersTooLarge,
}

impl Refused {
    /// The status of an HTTP answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::NoSecret | Self::Unsigned(_) | Self::Forged | Self::Stale(_) => 401,
            Self::Twice(_) | Self::Missing(_) | Self::Unreadable(_) => 400,
            Self::BodyTooLarge { .. } => 413,
            Self::HeadersTooLarge => 431,
        }
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::Unsigned(_) => "unsigned",
            Self::Forged => "bad_signature",
            Self::Stale(_) => "stale",
            Self::Twice(_) | Self::Missing(_) | Self::Unreadable(_) => "unreadable",
            Self::BodyTooLarge { .. } | Self::HeadersTooLarge => "too_large",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoSecret => {
                "Set the secret of [webhooks.<source>] in config.toml; bell check says whether it can be read."
            }
            Self::Unsigned(_) => "Set the same secret where the source is configured.",
            Self::Forged => {
                "Compare the secret with the source's; whatever stands in between must not change the body."
            }
            Self::Stale(_) => "Look at the clocks of both machines; a replay by hand must be signed again.",
            Self::Twice(_) => "Look at what stands in between: it must not add headers of the source.",
            Self::Missing(_) | Self::Unreadable(_) => "Compare the type of the source with who sends this.",
            Self::BodyTooLarge { .. } => "Have the source send fewer events, or smaller ones.",
            Self::HeadersTooLarge => "Look at what stands in between: it must not add this much.",
        }
    }
}
