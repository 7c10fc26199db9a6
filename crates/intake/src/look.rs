//! Looking into a payload: the first of several places that has something, cut to what is kept of it.

use std::borrow::Cow;

use crate::limits::{ITEM_BYTES_MAX, LIST_MAX, LONG_BYTES_MAX, SHORT_BYTES_MAX};
use crate::part::Part;

/// A payload to look into. A path is names with dots between them; a number is a place in a list.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a>(pub(crate) &'a Part<'a>);

impl<'a> Look<'a> {
    /// What is at this path.
    pub(crate) fn at(self, path: &str) -> Option<&'a Part<'a>> {
        let step = |part: &'a Part<'a>, name: &str| match part {
            Part::List(parts) => parts.get(name.parse::<usize>().ok()?),
            other => other.get(name),
        };
        names(path).try_fold(self.0, step).filter(|part| **part != Part::Null)
    }

    /// The first of these that has text, in one line.
    pub(crate) fn text(self, paths: &[&str]) -> Option<String> {
        self.first(paths, |text| one_line(text, SHORT_BYTES_MAX))
    }

    /// The first of these that has text, with its lines.
    pub(crate) fn long(self, paths: &[&str]) -> Option<String> {
        self.first(paths, |text| lines(text, LONG_BYTES_MAX))
    }

    fn first(self, paths: &[&str], cut: impl Fn(&str) -> String) -> Option<String> {
        let texts = paths.iter().filter_map(|path| plain(self.at(path)?));
        texts.map(|text| cut(&text)).find(|text| !text.is_empty())
    }

    /// The first of these that has a number, also as text.
    pub(crate) fn number(self, paths: &[&str]) -> Option<u64> {
        paths.iter().find_map(|path| match self.at(path)? {
            Part::Number(number) => number.as_u64(),
            Part::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    /// The texts of the first of these that is a list, or what its tables have under `key`.
    pub(crate) fn texts(self, paths: &[&str], key: &str) -> Vec<String> {
        let list = paths.iter().find_map(|path| self.at(path)?.list());
        let items = list.into_iter().flatten().filter_map(|item| plain(item.get(key).unwrap_or(item)));
        items.map(|text| one_line(&text, ITEM_BYTES_MAX)).take(LIST_MAX).collect()
    }

    /// What is there for the field `name` of a context: a text, a number, or the texts of a list.
    pub(crate) fn values(self, name: &str, path: &str) -> Vec<String> {
        match (self.at(path), name) {
            (Some(Part::List(_)), _) => self.texts(&[path], "name"),
            (Some(_), "body" | "comment") => self.long(&[path]).into_iter().collect(),
            (Some(_), _) => self.text(&[path]).into_iter().collect(),
            (None, _) => Vec::new(),
        }
    }
}

/// The names of a path. A hundred paths are looked for in each payload, and a search that is made for long texts takes most
/// of its time to begin.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let dot = path.bytes().position(|byte| byte == b'.');
        let (name, behind) = dot.map_or((path, None), |dot| (&path[..dot], Some(&path[dot + 1..])));
        rest = behind;
        Some(name)
    })
}

fn plain<'a>(part: &'a Part<'_>) -> Option<Cow<'a, str>> {
    match part {
        Part::Text(text) => Some(Cow::Borrowed(text)),
        Part::Number(number) => Some(Cow::Owned(number.to_string())),
        Part::Bool(value) => Some(Cow::Owned(value.to_string())),
        Part::Null | Part::List(_) | Part::Table(_) => None,
    }
}

/// Control characters move cursors and hide text, and have no place in a title or a name.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let text = text.trim();
    if is_fine(text, most) {
        return text.to_owned();
    }
    cut(text.chars().map(|c| if c.is_control() { ' ' } else { c }), most)
}

fn lines(text: &str, most: usize) -> String {
    if is_fine(text, most) {
        return text.to_owned();
    }
    cut(text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')), most)
}

/// Whether a text can be kept as it is: most are plain, and need not be looked at letter by letter.
fn is_fine(text: &str, most: usize) -> bool {
    let is_plain =
        |letters: &[u8]| letters.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    text.len() + '…'.len_utf8() <= most && text.as_bytes().chunks(TOGETHER).all(is_plain)
}

/// Letters that are looked at together, which takes hardly longer than looking at one.
const TOGETHER: usize = 64;

fn cut(text: impl Iterator<Item = char>, most: usize) -> String {
    let mut kept = String::new();
    for c in text {
        if kept.len() + c.len_utf8() + '…'.len_utf8() > most {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Part<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_first_place_that_has_something_counts() {
        let payload =
            json!({"a": null, "b": {"c": ["x", "y"]}, "n": "42", "empty": "", "l": [{"name": "p"}, "q", 3]})
                .to_string();
        let part = read(&payload);
        let look = Look(&part);
        assert_eq!(look.text(&["a", "missing.x", "empty", "b.c.1"]).as_deref(), Some("y"));
        assert_eq!(look.text(&["b", "b.c", "b.c.9"]), None);
        assert_eq!(look.number(&["b", "n"]), Some(42));
        assert_eq!(look.texts(&["b.d", "l"], "name"), ["p", "q", "3"]);
    }

    #[test]
    fn a_path_is_names_with_dots_between_them() {
        for path in ["", ".", "a", "a.", ".a", "issue.user.login", "branches.0.name", "a..b"] {
            assert_eq!(names(path).collect::<Vec<_>>(), path.split('.').collect::<Vec<_>>(), "{path:?}");
        }
    }

    #[test]
    fn a_text_is_plain_only_if_every_letter_is() {
        for length in 0..3 * TOGETHER {
            let plain = "x".repeat(length);
            assert!(is_fine(&plain, LONG_BYTES_MAX));
            for at in 0..length {
                let odd = format!("{}\u{7f}{}", &plain[..at], &plain[at + 1..]);
                assert!(!is_fine(&odd, LONG_BYTES_MAX), "{at} of {length}");
            }
        }
    }

    #[test]
    fn texts_are_cut_and_have_no_control_characters() {
        let payload = json!({"t": "a\u{1b}[2Jb\nc", "long": "é".repeat(LONG_BYTES_MAX)}).to_string();
        let part = read(&payload);
        let look = Look(&part);
        assert_eq!(look.text(&["t"]).as_deref(), Some("a [2Jb c"));
        assert_eq!(look.long(&["t"]).as_deref(), Some("a[2Jb\nc"));
        let long = look.long(&["long"]).unwrap();
        assert!(long.len() <= LONG_BYTES_MAX && long.ends_with("é…"), "{}", long.len());
    }
}
