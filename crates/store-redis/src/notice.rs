//! What the server pushes: which records a commit wrote, and that the connection is gone.

use bell_store::Name;
use redis::{PushInfo, PushKind, Value};

/// Digits of the revision that a message starts with.
const REVISION_DIGITS: usize = 16;

/// Something that happened without being asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// A commit wrote these records.
    Written(Vec<Name>),
    /// Anything may have changed.
    Anything,
    /// The connection is gone.
    Disconnected,
}

impl Notice {
    /// What a push says; `None`: nothing of interest.
    pub(crate) fn of(push: &PushInfo) -> Option<Self> {
        match push.kind {
            PushKind::Disconnection => Some(Self::Disconnected),
            PushKind::Message => {
                let Some(Value::BulkString(message)) = push.data.last() else { return Some(Self::Anything) };
                Some(names(message).filter(|names| !names.is_empty()).map_or(Self::Anything, Self::Written))
            }
            _ => None,
        }
    }
}

/// The names in a message: the revision, then for each its length, a colon and itself.
fn names(message: &[u8]) -> Option<Vec<Name>> {
    let mut rest = std::str::from_utf8(message).ok()?.get(REVISION_DIGITS..)?;
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_once(':')?;
        let (name, tail) = tail.split_at_checked(length.parse().ok()?)?;
        names.push(name.into());
        rest = tail;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Option<Notice> {
        let data = vec![Value::BulkString(b"channel".to_vec()), Value::BulkString(text.as_bytes().to_vec())];
        Notice::of(&PushInfo { kind: PushKind::Message, data })
    }

    #[test]
    fn written_names_are_read_whatever_is_in_them() {
        let names = vec!["a:1".into(), "ä".into()];
        assert_eq!(message("00000000000000123:a:12:ä"), Some(Notice::Written(names)));
    }

    #[test]
    fn a_message_without_names_or_one_that_makes_no_sense_means_anything() {
        for text in ["0000000000000012", "12", "0000000000000012x", "00000000000000129:a", ""] {
            assert_eq!(message(text), Some(Notice::Anything), "{text}");
        }
    }

    #[test]
    fn a_lost_connection_is_noticed_and_a_subscription_is_nothing_new() {
        let push = |kind| PushInfo { kind, data: Vec::new() };
        assert_eq!(Notice::of(&push(PushKind::Disconnection)), Some(Notice::Disconnected));
        assert_eq!(Notice::of(&push(PushKind::Subscribe)), None);
    }
}
