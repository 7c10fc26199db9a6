//! What is listened to, by anybody who has the store open.
//!
//! Most commits write nothing that anybody listens to, and tell nobody. The store has a list of the topics that are
//! listened to, and its hash in the head (`listen.lua`). Whoever commits says which list it knows; if that is not the
//! one of the store, nothing is written, and the client learns the list and asks again. So the list is never behind.

use bell_store::topic::Topic;
use redis::Value;

/// What all topics are called in the list. No topic has this name: each is empty or ends in a slash.
const EVERYTHING: &str = "*";

/// As many characters of a hash as the head has.
const HASH_BYTES: usize = 16;

/// The list as this process knows it. One that was never learned has a hash that no list has.
#[derive(Default, Debug)]
pub(crate) struct Listened {
    hash: [u8; HASH_BYTES],
    topics: Vec<String>,
}

impl Listened {
    /// What `listen.lua` says: the hash, then the topics.
    pub(crate) fn parse(said: &[Value]) -> Option<Self> {
        let (hash, topics) = said.split_first()?;
        let Value::BulkString(hash) = hash else { return None };
        let topics = topics.iter().map(|topic| match topic {
            Value::BulkString(topic) => String::from_utf8(topic.clone()).ok(),
            _ => None,
        });
        Some(Self { hash: hash.as_slice().try_into().ok()?, topics: topics.collect::<Option<_>>()? })
    }

    /// What the store calls this list.
    pub(crate) fn hash(&self) -> &[u8] {
        &self.hash
    }

    /// Whether somebody listens to this topic.
    pub(crate) fn includes(&self, topic: &str) -> bool {
        self.topics.iter().any(|listened| listened == topic || listened == EVERYTHING)
    }
}

/// A topic as it stands in the list.
pub(crate) fn word(topic: &Topic) -> &str {
    match topic {
        Topic::One(topic) => topic,
        Topic::Everything => EVERYTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Listened {
        let said: Vec<_> = words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect();
        Listened::parse(&said).unwrap()
    }

    #[test]
    fn what_is_listed_is_listened_to() {
        let listened = parsed(&["0123456789abcdef", "a/", ""]);
        assert_eq!(listened.hash(), b"0123456789abcdef");
        assert_eq!(["a/", "", "b/"].map(|topic| listened.includes(topic)), [true, true, false]);
        assert!(parsed(&["0123456789abcdef", "*"]).includes("b/"));
        assert!(!Listened::default().includes("a/"));
    }

    #[test]
    fn a_list_without_a_hash_is_none() {
        assert!(Listened::parse(&[]).is_none());
        assert!(Listened::parse(&[Value::Nil]).is_none());
        assert!(Listened::parse(&[Value::BulkString(b"short".to_vec())]).is_none());
    }
}
