//! Whether a delivery is what somebody wants, and why or why not: filter by filter, also after the first that fails.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::context::Context;
use super::field::Field;
use super::filter::{Filter, Pattern};

/// Characters shown of a value: enough to know it by, and a long comment does not flood a list of reasons.
const SHOWN_CHARS: usize = 80;
/// Values and patterns shown of a field: there may be a hundred labels and a thousand patterns, and the first few tell.
const SHOWN_VALUES: usize = 20;

/// What came of a filter, with the reason for each of its fields, in words of the filter and the delivery themselves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict<'a> {
    /// Whether the delivery is wanted.
    pub matched: bool,
    /// Each field of the filter.
    pub checks: Vec<Check<'a>>,
}

/// What came of one field of a filter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check<'a> {
    /// Which field.
    pub field: Field,
    /// Whether it matched.
    pub passed: bool,
    /// What the filter says.
    pub wanted: Vec<&'a str>,
    /// What the delivery has.
    pub found: Vec<Cow<'a, str>>,
    /// Why it did or did not match.
    pub why: Why<'a>,
}

/// Why a field matched or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Why<'a> {
    /// This value is wanted.
    Named {
        /// What the delivery has.
        value: Cow<'a, str>,
        /// What named it.
        pattern: &'a str,
    },
    /// Nothing of it was excluded, and nothing else was asked for.
    NotExcluded,
    /// This value is not wanted.
    Excluded {
        /// What the delivery has.
        value: Cow<'a, str>,
        /// What excluded it.
        pattern: &'a str,
    },
    /// None of the alternatives is what the delivery has.
    NoneOf,
    /// The delivery says nothing of this.
    Absent,
}

impl Why<'_> {
    fn passes(&self) -> bool {
        match self {
            Self::Named { .. } | Self::NotExcluded => true,
            Self::Excluded { .. } | Self::NoneOf | Self::Absent => false,
        }
    }
}

/// Whether the delivery is what the filter wants.
pub fn matches<'a>(context: &'a Context, filter: &'a Filter) -> Verdict<'a> {
    let mut checks = Vec::with_capacity(1 + filter.fields.len());
    checks.push(check_source(context, &filter.source));
    checks.extend(filter.fields.iter().map(|(field, patterns)| check(context, *field, patterns)));
    Verdict { matched: checks.iter().all(|check| check.passed), checks }
}

/// The name of a source is a name, not a pattern.
fn check_source<'a>(context: &'a Context, wanted: &'a str) -> Check<'a> {
    let why = if context.source == wanted {
        Why::Named { value: Cow::Borrowed(wanted), pattern: wanted }
    } else {
        Why::NoneOf
    };
    let found = vec![Cow::Borrowed(context.source.as_str())];
    Check { field: Field::Source, passed: why.passes(), wanted: vec![wanted], found, why }
}

fn check<'a>(context: &'a Context, field: Field, patterns: &'a [Pattern]) -> Check<'a> {
    let mut found = context.values(field);
    let why = why(field, patterns, &found);
    found.truncate(SHOWN_VALUES);
    found.iter_mut().for_each(|value| *value = shown(value));
    let wanted = patterns.iter().take(SHOWN_VALUES).map(Pattern::as_str).collect();
    Check { field, passed: why.passes(), wanted, found, why }
}

/// An exclusion counts before any alternative: whoever writes one means it.
fn why<'a>(field: Field, patterns: &'a [Pattern], values: &[Cow<'a, str>]) -> Why<'a> {
    let first = |is_meant: fn(&Pattern) -> bool| {
        let meant = patterns.iter().filter(move |pattern| is_meant(pattern));
        let mut pairs = values.iter().flat_map(|value| meant.clone().map(move |pattern| (value, pattern)));
        let named = pairs.find(|(value, pattern)| pattern.names(field, value));
        named.map(|(value, pattern)| (shown(value), pattern.as_str()))
    };
    if let Some((value, pattern)) = first(Pattern::is_exclusion) {
        return Why::Excluded { value, pattern };
    }
    if patterns.iter().all(Pattern::is_exclusion) {
        return Why::NotExcluded;
    }
    match first(|pattern| !pattern.is_exclusion()) {
        Some((value, pattern)) => Why::Named { value, pattern },
        None if values.is_empty() => Why::Absent,
        None => Why::NoneOf,
    }
}

fn shown<'a>(value: &Cow<'a, str>) -> Cow<'a, str> {
    // As many bytes can't have more characters.
    if value.len() <= SHOWN_CHARS {
        return value.clone();
    }
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &value[..end])),
        None => value.clone(),
    }
}

/// One line: the field, and why.
impl fmt::Display for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, found) = (|| self.wanted.join(", "), || self.found.join(", "));
        match &self.why {
            Why::Named { value, pattern } if value == pattern => write!(f, "{}: {value}", self.field),
            Why::Named { value, pattern } => write!(f, "{}: {value} is {pattern}", self.field),
            Why::NotExcluded if self.found.is_empty() => {
                write!(f, "{}: the delivery has none, and {} excludes nothing", self.field, wanted())
            }
            Why::NotExcluded => write!(f, "{}: {} is not excluded by {}", self.field, found(), wanted()),
            Why::Excluded { value, pattern } => write!(f, "{}: {value} is excluded by {pattern}", self.field),
            Why::NoneOf => write!(f, "{}: {} is not {}", self.field, found(), wanted()),
            Why::Absent => write!(f, "{}: the delivery has none, and {} is wanted", self.field, wanted()),
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
        let (context, filter) = (context(), filter(fields));
        let verdict = matches(&context, &filter);
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
        let context = context();
        let verdict = matches(&context, &other);
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
        let filter = filter(&[(Field::Comments, &["y"])]);
        let verdict = matches(&context, &filter);
        assert_eq!(verdict.checks[1].found[0].chars().count(), 81);
    }
}
