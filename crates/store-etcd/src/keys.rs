//! Where things are under the store's prefix, and how names become keys.
//!
//! | key | what it holds |
//! | --- | --- |
//! | `format` | that this prefix is a store, and of which format |
//! | `m/head` | put by every transaction that commits something: its revision is the store's (see [`crate::revision`]), its value tells the time |
//! | `m/line` | who counts the time (see [`crate::line`]) |
//! | `ask`, `answer` | the question for the time, and the answer |
//! | `r/<name>` | a record: the place of the commit that put it, one byte, and the value; its revision of change is the version |
//! | `r/<name>␀` | a place; its revision of change is the stamp. Absent if that is the record's creation, at place zero |
//!
//! A zero byte in a name becomes `␀\xff`. So the keys of a record stand side by side with nothing between
//! them, one operation reads or deletes both, and keys sort as names do.

use bell_store::Name;
use bell_store::topic::Topic;

const ESCAPED: u8 = 0xff;

/// The keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// With the slash that ends it.
    prefix: Vec<u8>,
}

/// Keys from the first to before the second.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

/// Which of a record's two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Value,
    Stamp,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}/").into_bytes() }
    }

    /// Everything of the store.
    pub(crate) fn all(&self) -> Range {
        (self.prefix.clone(), after_prefix(&self.prefix))
    }

    pub(crate) fn format(&self) -> Vec<u8> {
        self.key("format")
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.key("m/head")
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        self.key("m/line")
    }

    /// Head and line, in one range.
    pub(crate) fn meta(&self) -> Range {
        (self.key("m/"), self.key("m0"))
    }

    /// The question for the time and the answer to it, in one range.
    pub(crate) fn talk(&self) -> Range {
        (self.key("a"), self.key("b"))
    }

    /// The records of a topic.
    pub(crate) fn topic(&self, topic: &Topic) -> Range {
        let start = match topic {
            Topic::One(topic) => self.value(topic),
            Topic::Everything => self.value(""),
        };
        let end = after_prefix(&start);
        (start, end)
    }

    pub(crate) fn ask(&self) -> Vec<u8> {
        self.key("ask")
    }

    pub(crate) fn answer(&self) -> Vec<u8> {
        self.key("answer")
    }

    pub(crate) fn value(&self, name: &str) -> Vec<u8> {
        let mut key = self.key("r/");
        for byte in name.bytes() {
            key.push(byte);
            if byte == 0 {
                key.push(ESCAPED);
            }
        }
        key
    }

    pub(crate) fn stamp(&self, name: &str) -> Vec<u8> {
        let mut key = self.value(name);
        key.push(0);
        key
    }

    /// Both keys of a record, and nothing else.
    pub(crate) fn record(&self, name: &str) -> Range {
        let mut end = self.stamp(name);
        end.push(0);
        (self.value(name), end)
    }

    /// The records whose names start with `prefix` and are not less than `from`; `None` if there can't be any.
    pub(crate) fn scan(&self, prefix: &str, from: &str) -> Option<Range> {
        let (start, end) = (self.value(prefix.max(from)), after_prefix(&self.value(prefix)));
        (start < end).then_some((start, end))
    }

    /// The name of the record that a key belongs to; `None` if it belongs to none.
    pub(crate) fn name(&self, key: &[u8]) -> Option<(Name, Part)> {
        let mut rest = key.strip_prefix(self.key("r/").as_slice())?.iter();
        let mut name = Vec::with_capacity(rest.len());
        let mut part = Part::Value;
        while let Some(byte) = rest.next() {
            match (byte, rest.clone().next()) {
                (0, None) => part = Part::Stamp,
                (0, Some(&ESCAPED)) => {
                    rest.next();
                    name.push(0);
                }
                (0, Some(_)) => return None,
                (byte, _) => name.push(*byte),
            }
        }
        Some((String::from_utf8(name).ok()?.into(), part))
    }

    fn key(&self, rest: &str) -> Vec<u8> {
        [&self.prefix, rest.as_bytes()].concat()
    }
}

/// The first key that does not start so. Every prefix here has a byte that can be raised.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).unwrap_or(0);
    let mut end = prefix[..=kept].to_vec();
    end[kept] = end[kept].saturating_add(1);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 9] = ["a", "a\0", "a\0\0", "a\0b", "a\u{1}", "a/b", "ab", "a\u{fffd}", "b"];

    fn keys() -> Keys {
        Keys::new("bell")
    }

    #[test]
    fn a_key_tells_the_name_it_was_made_of() {
        for name in NAMES {
            assert_eq!(keys().name(&keys().value(name)), Some((name.into(), Part::Value)));
            assert_eq!(keys().name(&keys().stamp(name)), Some((name.into(), Part::Stamp)));
        }
    }

    #[test]
    fn keys_sort_as_names_do() {
        let mut sorted = NAMES;
        sorted.sort_unstable();
        let mut by_key = NAMES;
        by_key.sort_by_key(|name| keys().value(name));
        assert_eq!(by_key, sorted);
    }

    #[test]
    fn the_range_of_a_record_holds_its_two_keys_and_no_other() {
        for name in NAMES {
            let (start, end) = keys().record(name);
            let range = start..end;
            for other in NAMES {
                for key in [keys().value(other), keys().stamp(other)] {
                    assert_eq!(range.contains(&key), other == name, "{name:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_scan_covers_what_has_its_prefix_and_nothing_else() {
        for prefix in ["", "a", "a\0", "ab", "c"] {
            let (start, end) = keys().scan(prefix, "").unwrap();
            let range = start..end;
            for name in NAMES {
                let covered = range.contains(&keys().value(name));
                assert_eq!(covered, name.starts_with(prefix), "{prefix:?} {name:?}");
            }
        }
    }

    #[test]
    fn a_scan_from_behind_its_prefix_covers_nothing() {
        assert_eq!(keys().scan("a", "b"), None);
    }

    #[test]
    fn what_is_no_record_has_no_name() {
        for key in [keys().head(), keys().line(), keys().ask(), keys().format(), b"other/r/a".to_vec()] {
            assert_eq!(keys().name(&key), None);
        }
        assert_eq!(keys().name(b"bell/r/a\0b"), None, "nobody writes such a key");
        assert_eq!(keys().name(b"bell/r/\xff"), None);
    }

    #[test]
    fn what_is_listened_to_is_the_time_and_topics_that_somebody_watches() {
        let (start, end) = keys().talk();
        let range = start..end;
        assert!(range.contains(&keys().ask()) && range.contains(&keys().answer()));
        for key in [keys().head(), keys().line(), keys().format(), keys().value("a/1")] {
            assert!(!range.contains(&key));
        }
        let (start, end) = keys().topic(&Topic::One("a/".into()));
        let range = start..end;
        assert!(range.contains(&keys().value("a/1")) && range.contains(&keys().stamp("a/1")));
        assert!(!range.contains(&keys().value("b/1")) && !range.contains(&keys().head()));
        let (start, end) = keys().topic(&Topic::Everything);
        let range = start..end;
        assert!(NAMES.iter().all(|name| range.contains(&keys().stamp(name))));
        assert!(!range.contains(&keys().head()));
    }

    #[test]
    fn the_meta_range_holds_head_and_line_alone() {
        let (start, end) = keys().meta();
        let range = start..end;
        assert!(range.contains(&keys().head()) && range.contains(&keys().line()));
        for key in [keys().ask(), keys().answer(), keys().format(), keys().value("a")] {
            assert!(!range.contains(&key));
        }
    }
}
