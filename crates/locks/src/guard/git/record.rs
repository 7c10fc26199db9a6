//! Where a fence is kept on a remote, and what is written there.

use std::fmt;

use bell_core::key::Key;
use bell_core::lock::Fence;
use uuid::Uuid;

/// Refs of fences start with this.
pub(super) const PREFIX: &str = "refs/bell/fences/";

/// The first line of what a ref points at. The number rises when an old reader could get it wrong.
const FORMAT: &str = "bell fence 1";

/// Bytes in a part of a ref's name. A file system takes 255, and git puts `.lock` behind it.
const PART_BYTES: usize = 200;

/// What the ref of a resource points at: a blob of a few lines.
pub(super) struct Mark<'a> {
    resource: &'a Key,
    fence: Fence,
    /// Makes each push another object, so that the ref always moves.
    push: Uuid,
}

impl<'a> Mark<'a> {
    pub(super) fn new(resource: &'a Key, fence: Fence) -> Self {
        Self { resource, fence, push: Uuid::now_v7() }
    }
}

impl fmt::Display for Mark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, fence, push } = self;
        write!(f, "{FORMAT}\nresource {resource}\nfence {fence}\npush {push}\n")
    }
}

/// The fence in a mark, or what is wrong with it.
pub(super) fn fence(text: &str, resource: &Key) -> Result<Fence, &'static str> {
    let mut lines = text.lines();
    match lines.next() {
        Some(FORMAT) => {}
        Some(line) if line.starts_with("bell fence ") => return Err("a newer bell wrote it"),
        _ => return Err("it is not the mark of a fence"),
    }
    if lines.next().and_then(|line| line.strip_prefix("resource ")) != Some(resource.as_str()) {
        return Err("it is about another resource");
    }
    let fence = lines.next().and_then(|line| line.strip_prefix("fence ")?.parse().ok());
    fence.map(Fence).ok_or("its fence is not a number")
}

/// The ref of a resource.
///
/// Whatever a ref or some file system can't hold is escaped, upper case included, so that two keys never share a
/// file. A long name has several parts; all but the last end in `+`, so none is both a file and a folder.
pub(super) fn ref_name(resource: &Key) -> String {
    let mut name = PREFIX.to_owned();
    let mut part = 0;
    for byte in resource.as_str().bytes() {
        if part >= PART_BYTES {
            name.push_str("+/");
            part = 0;
        }
        let before = name.len();
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
        part += name.len() - before;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let resource = key("git://acme/site");
        let mark = Mark::new(&resource, Fence(u64::MAX));
        assert_eq!(fence(&mark.to_string(), &resource), Ok(Fence(u64::MAX)));
        assert_ne!(mark.to_string(), Mark::new(&resource, Fence(u64::MAX)).to_string());
    }

    #[test]
    fn anything_else_is_not_taken_for_a_mark() {
        let resource = key("git://acme/site");
        let mark = Mark::new(&resource, Fence(7)).to_string();
        for wrong in [
            "",
            "hello",
            &mark.replace("fence 1", "fence 2"),
            &mark.replace("acme", "other"),
            &mark.replace("fence 7", "fence seven"),
            &mark[..30],
        ] {
            assert!(fence(wrong, &resource).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_is_readable_in_the_name_of_its_ref() {
        assert_eq!(ref_name(&key("git://acme/site-1")), "refs/bell/fences/git%3A%2F%2Facme%2Fsite-1");
        assert_eq!(ref_name(&key("job:A.lock")), "refs/bell/fences/job%3A%41%2Elock");
    }

    #[test]
    fn a_long_key_has_parts_that_are_never_both_file_and_folder() {
        let long = key(&format!("job:{}", "a.".repeat(250)));
        let longer = key(&format!("job:{}", "a.".repeat(254)));
        let (long, longer) = (ref_name(&long), ref_name(&longer));
        assert!(long.split('/').all(|part| part.len() < 250), "{long}");
        assert!(!longer.starts_with(&format!("{long}/")));
        let parts: Vec<&str> = long.strip_prefix(PREFIX).unwrap().split('/').collect();
        let (last, folders) = parts.split_last().unwrap();
        assert!(!last.ends_with('+') && folders.iter().all(|part| part.ends_with('+')), "{parts:?}");
    }
}
