//! What changes are told under, so that an engine need not tell everybody of everything.
//!
//! Most records are written without anybody waiting for them. A store that pushes listens only to the topics in
//! which somebody has ever watched a record, and an engine that can tell tells nobody of the others. The topic of
//! a name is its first part, as in `session/`; what is in a scope (`@…/`) has those of the scope.

use std::collections::BTreeSet;

use crate::txn::Watch;

/// What somebody listens to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// The records of one topic.
    One(Box<str>),
    /// All of them: a prefix is watched that several topics have.
    Everything,
}

/// The topic that a record is in. It is what the name starts with, and is empty for a name of one part.
pub fn of(name: &str) -> &str {
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let end = name.match_indices('/').nth(parts - 1).map_or(0, |(slash, _)| slash + 1);
    &name[..end]
}

impl Watch {
    /// Everything that has to be listened to for this.
    pub fn topics(&self) -> BTreeSet<Topic> {
        match self {
            Self::Names(names) => {
                names.iter().map(|(name, _)| Topic::One(of(name.as_str()).into())).collect()
            }
            Self::Prefix(prefix, _) => [topic_of_prefix(prefix)].into(),
        }
    }
}

fn topic_of_prefix(prefix: &str) -> Topic {
    match of(prefix) {
        // More may follow that makes it any topic.
        "" => Topic::Everything,
        topic => Topic::One(topic.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_the_first_part_of_a_name() {
        for (name, topic) in [
            ("session/1", "session/"),
            ("held/1/file:///a", "held/"),
            ("alone", ""),
            ("@team/lock/a", "@team/lock/"),
            ("@team/a", ""),
            ("/a", "/"),
        ] {
            assert_eq!(of(name), topic, "{name}");
        }
    }

    #[test]
    fn whoever_watches_a_prefix_hears_of_every_name_under_it() {
        for name in ["session/1", "alone", "@team/lock/a", "@a/b/lock/c", "/a", "a"] {
            for (end, _) in name.char_indices().chain([(name.len(), ' ')]) {
                let heard = Watch::Prefix(name[..end].to_owned(), 0).topics();
                let is_heard =
                    heard.contains(&Topic::Everything) || heard.contains(&Topic::One(of(name).into()));
                assert!(is_heard, "{:?} of {name}: {heard:?}", &name[..end]);
            }
        }
    }

    #[test]
    fn whoever_watches_names_hears_of_each() {
        let watch = Watch::Names(vec![("a/1".into(), 0), ("b/1".into(), 0), ("a/2".into(), 3)]);
        assert_eq!(watch.topics(), [Topic::One("a/".into()), Topic::One("b/".into())].into());
    }
}
