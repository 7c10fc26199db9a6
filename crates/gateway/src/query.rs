//! Reading the query of an address: each name once, and none that nobody knows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{POLL_MAX, WAIT_MAX};
use crate::refusal::Refusal;

/// What stands behind the question mark.
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads a query that may have these names.
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut found = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let names = known.join(", ");
                return Err(wrong(format!(
                    "could not read the query: {name:?} is not known; it takes {names}"
                )));
            }
            if found.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(wrong(format!("could not read the query: {name} is there more than once")));
            }
        }
        Ok(Self(found))
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The number of a name.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let read = |text: &str| {
            text.parse().map_err(|_| wrong(format!("could not read the query: {name} is not a number")))
        };
        self.text(name).map(read).transpose()
    }

    /// How long this call may wait.
    pub(crate) fn wait(&self) -> Result<Duration, Refusal> {
        let wait = Duration::from_millis(self.number("wait_ms")?.unwrap_or(0));
        if wait > WAIT_MAX {
            return Err(wrong("could not wait so long: 7 days are the most".to_owned()));
        }
        Ok(wait.min(POLL_MAX))
    }
}

fn wrong(message: String) -> Refusal {
    Refusal::invalid(message, "Write the query as the reference has it, percent-encoded, each name once.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_there_once() {
        let read = |query| Query::read(Some(query), &["key", "wait_ms"]);
        let query = read("key=job%3Aa&wait_ms=90000").unwrap_or_else(|_| panic!("it is right"));
        assert_eq!(query.text("key"), Some("job:a"));
        assert_eq!(query.wait().ok(), Some(POLL_MAX));
        for wrong in ["colour=blue", "key=a&key=b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("wait_ms=soon").is_ok_and(|query| query.wait().is_err()));
    }
}
