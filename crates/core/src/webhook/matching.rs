//! Whether a delivery is what somebody wants, and why or why not: filter by filter, also after the first that fails.

use std::fmt;

use serde::Serialize;

use super::context::Context;
use super::field::Field;
use super::filter::{Filter, Pattern};

/// Characters shown of a value: enough to know it by, and a long comment does not flood a list of reasons.
const SHOWN_CHARS: usize = 80;
/// Values and patterns shown of a field: there may be a hundred labels and a thousand patterns, and the first few tell.
const SHOWN_VALUES: usize = 20;

/// What came of a filter, with the reason for each of its fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Whether the delivery is wanted.
    pub matched: bool,
    /// Each field of the filter.
    pub checks: Vec<Check>,
}

/// What came of one field of a filter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// Which field.
    pub field: Field,
    /// Whether it matched.
    pub passed: bool,
    /// What the filter says.
    pub wanted: Vec<String>,
    /// What the delivery has.
    pub found: Vec<String>,
    /// Why it did or did not match.
    pub why: Why,
}

/// Why a field matched or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Why {
    /// This value is wanted.
    Named {
        /// What the delivery has.
        value: String,
        /// What named it.
        pattern: String,
    },
    /// Nothing of it was excluded, and nothing else was asked for.
    NotExcluded,
    /// This value is not wanted.
    Excluded {
        /// What the delivery has.
        value: String,
        /// What excluded it.
        pattern: String,
    },
    /// None of the alternatives is what the delivery has.
    NoneOf,
    /// The delivery says nothing of this.
    Absent,
}

impl Why {
    fn passes(&self) -> bool {
        match self {
            Self::Named { .. } | Self::NotExcluded => true,
            Self::Excluded { .. } | Self::NoneOf | Self::Absent => false,
        }
    }
}

/// Whether the delivery is what the filter wants.
pub fn matches(context: &Context, filter: &Filter) -> Verdict {
    let mut checks = vec![check_source(context, &filter.source)];
    checks.extend(filter.fields.iter().map(|(field, patterns)| check(context, *field, patterns)));
    Verdict { matched: checks.iter().all(|check| check.passed), checks }
}

/// The name of a source is a name, not a pattern.
fn check_source(context: &Context, wanted: &str) -> Check {
    let why = if context.source == wanted {
        Why::Named { value: wanted.to_owned(), pattern: wanted.to_owned() }
    } else {
        Why::NoneOf
    };
    let found = vec![context.source.clone()];
    Check { field: Field::Source, passed: why.passes(), wanted: vec![wanted.to_owned()], found, why }
}

fn check(context: &Context, field: Field, patterns: &[Pattern]) -> Check {
    let values = context.values(field);
    let why = why(field, patterns, &values);
    Check {
        field,
        passed: why.passes(),
        wanted: patterns.iter().take(SHOWN_VALUES).map(ToString::to_string).collect(),
        found: values.iter().take(SHOWN_VALUES).map(|value| shown(value)).collect(),
        why,
    }
}

/// An exclusion counts before any alternative: whoever writes one means it.
fn why(field: Field, patterns: &[Pattern], values: &[String]) -> Why {
    let (excluded, wanted): (Vec<&Pattern>, Vec<&Pattern>) =
        patterns.iter().partition(|pattern| pattern.is_exclusion());
    let first = |patterns: &[&Pattern]| {
        let pairs = values.iter().flat_map(|value| patterns.iter().map(move |pattern| (value, *pattern)));
        pairs
            .into_iter()
            .find(|(value, pattern)| pattern.names(field, value))
            .map(|(value, pattern)| (shown(value), pattern.to_string()))
    };
    if let Some((value, pattern)) = first(&excluded) {
        return Why::Excluded { value, pattern };
    }
    if wanted.is_empty() {
        return Why::NotExcluded;
    }
    match first(&wanted) {
        Some((value, pattern)) => Why::Named { value, pattern },
        None if values.is_empty() => Why::Absent,
        None => Why::NoneOf,
    }
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// One line: the field, and why.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.wanted.join(", ");
        let found = self.found.join(", ");
        match &self.why {
            Why::Named { value, pattern } if value == pattern => write!(f, "{}: {value}", self.field),
            Why::Named { value, pattern } => write!(f, "{}: {value} is {pattern}", self.field),
            Why::NotExcluded if found.is_empty() => {
                write!(f, "{}: the delivery has none, and {wanted} excludes nothing", self.field)
            }
            Why::NotExcluded => write!(f, "{}: {found} is not excluded by {wanted}", self.field),
            Why::Excluded { value, pattern } => write!(f, "{}: {value} is excluded by {pattern}", self.field),
            Why::NoneOf => write!(f, "{}: {found} is not {wanted}", self.field),
            Why::Absent => write!(f, "{}: the delivery has none, and {wanted} is wanted", self.field),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn context() -> Context {
        Context {
            source: "hub".into(),
            event: "issues".into(),
            action: Some("labeled".into()),
            repo: Some("acme/App".into()),
            labels: vec!["bug".into(), "P1".into()],
            sender: Some("dependabot[bot]".into()),
            ..Context::default()
        }
    }

    fn filter(fields: &[(Field, &[&str])]) -> Filter {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let fields: BTreeMap<_, Vec<Pattern>> =
            fields.iter().map(|(field, texts)| (*field, patterns(texts))).collect();
        Filter { source: "hub".into(), fields }
    }

    fn told(fields: &[(Field, &[&str])]) -> (bool, Vec<String>) {
        let verdict = matches(&context(), &filter(fields));
        (verdict.matched, verdict.checks.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_of_one_field_are_alternatives_and_all_fields_must_match() {
        let (matched, _) = told(&[(Field::Events, &["push", "issues"]), (Field::Labels, &["p1", "p2"])]);
        assert!(matched);
        let (matched, lines) = told(&[(Field::Events, &["issues"]), (Field::Labels, &["docs"])]);
        assert!(!matched);
        assert_eq!(lines, ["source: hub", "events: issues", "labels: bug, P1 is not docs"]);
    }

    #[test]
    fn every_field_is_told_also_after_the_first_that_fails() {
        let (_, lines) =
            told(&[(Field::Events, &["push"]), (Field::Branches, &["main"]), (Field::Repos, &["acme/*"])]);
        let expected = [
            "source: hub",
            "events: issues is not push",
            "repos: acme/App is acme/*",
            "branches: the delivery has none, and main is wanted",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_exclusion_counts_before_any_alternative_and_alone_lets_everything_else_through() {
        assert!(!told(&[(Field::Senders, &["*", "!*[bot]"])]).0);
        assert!(told(&[(Field::Senders, &["!me"])]).0);
        assert!(told(&[(Field::Channels, &["!general"])]).0, "nothing there to exclude");
    }

    #[test]
    fn another_source_does_not_match_whatever_else_does() {
        let other = Filter { source: "lab".into(), fields: BTreeMap::new() };
        let verdict = matches(&context(), &other);
        assert!(!verdict.matched);
        assert_eq!(verdict.checks[0].to_string(), "source: hub is not lab");
    }

    #[test]
    fn a_filter_without_fields_takes_everything_of_its_source() {
        assert!(told(&[]).0);
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let context = Context { comment: Some("x".repeat(500)), ..context() };
        let verdict = matches(&context, &filter(&[(Field::Comments, &["y"])]));
        assert_eq!(verdict.checks[1].found[0].chars().count(), 81);
    }
}
