//! What the server pushes: which records a commit wrote, and that the connection is gone.

use std::fmt::Write;

use bell_store::Name;
use redis::{PushInfo, PushKind, Value};

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
            PushKind::Message | PushKind::PMessage => {
                let Some(Value::BulkString(message)) = push.data.last() else { return Some(Self::Anything) };
                Some(names(message).filter(|names| !names.is_empty()).map_or(Self::Anything, Self::Written))
            }
            _ => None,
        }
    }
}

/// Adds a name to a message: its length in bytes, a colon and itself.
pub(crate) fn tell(message: &mut String, name: &str) {
    // Writing to a string does not fail.
    let _ = write!(message, "{}:{name}", name.len());
}

/// The names in a message.
fn names(message: &[u8]) -> Option<Vec<Name>> {
    let mut rest = std::str::from_utf8(message).ok()?;
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
        let mut told = String::new();
        ["a:1", "ä"].into_iter().for_each(|name| tell(&mut told, name));
        assert_eq!(told, "3:a:12:ä");
        assert_eq!(message(&told), Some(Notice::Written(vec!["a:1".into(), "ä".into()])));
    }

    #[test]
    fn a_message_without_names_or_one_that_makes_no_sense_means_anything() {
        for text in ["12", "x", "9:a", "1:", ""] {
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
